import { type ContractTestApi, runContract } from './contract.js';
import { appendTests, fencingTests, idempotenceTests } from './event-store.contract.appends.js';
import { dropTests, readerTests, unfinishedTests } from './event-store.contract.readers.js';
import { boundsTests, readTests, timeTests } from './event-store.contract.reads.js';
import { SESSION, type EventStoreHarness } from './event-store.contract.support.js';

/**
 * The contract of `McpEventStore`, one test for each sentence.
 *
 * ```ts
 * import { describe, it } from 'vitest';
 * eventStoreContract('MyEventStore', async () => ({ store: new MyEventStore(limits), limits, dispose: async () => {} }), { describe, it });
 * ```
 *
 * @param make a store with nothing in it, for each test
 * @param api of the test runner; by default its globals
 * @publicApi
 */
export function eventStoreContract(name: string, make: () => Promise<EventStoreHarness>, api?: ContractTestApi): void {
  const chapters = {
    append: appendTests,
    idempotence: idempotenceTests,
    fencing: fencingTests,
    read: readTests,
    bounds: boundsTests,
    time: timeTests,
    'the reader': readerTests,
    'unfinished requests': unfinishedTests,
    drop: dropTests,
  };
  runContract(name, () => opened(make), chapters, api);
}

async function opened(make: () => Promise<EventStoreHarness>): Promise<EventStoreHarness> {
  const harness = await make();
  await harness.store.open(SESSION);
  return harness;
}
