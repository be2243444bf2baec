import { type ContractTestApi, runContract } from './contract.js';
import { kindTests } from './session-store.contract.kinds.js';
import { lifeTests, listTests, recordTests } from './session-store.contract.records.js';
import { capTests, reservationTests } from './session-store.contract.reservations.js';
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
    reservations: reservationTests,
    caps: capTests,
    records: recordTests,
    'signs of life, and ends': lifeTests,
    lists: listTests,
    kinds: kindTests,
  };
  runContract(name, make, chapters, api);
}
