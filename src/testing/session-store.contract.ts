import { type ContractTestApi, runContract } from './contract.js';
import { lifeTests, listTests, recordTests } from './session-store.contract.records.js';
import { capTests } from './session-store.contract.caps.js';
import type { SessionStoreHarness } from './session-store.contract.support.js';

/**
 * What every `McpSessionStore` promises, sentence by sentence.
 *
 * @param make a store with nothing in it, for each test
 * @param api of the test runner; by default its globals
 * @publicApi
 */
export function sessionStoreContract(
  name: string,
  make: () => Promise<SessionStoreHarness>,
  api?: ContractTestApi,
): void {
  const chapters = {
    caps: capTests,
    records: recordTests,
    'signs of life, and ends': lifeTests,
    lists: listTests,
  };
  runContract(name, make, chapters, api);
}
