import { describe, expect, it } from 'vitest';
import { ManualClock, stateStoreContract } from '../../../testing/index.js';
import { InMemoryStateStore } from './in-memory-state-store.js';

stateStoreContract(
  'InMemoryStateStore',
  async () => {
    const clock = new ManualClock();
    return { store: new InMemoryStateStore(clock), advance: (ms) => clock.advance(ms), dispose: async () => {} };
  },
  { describe, it },
);

describe('InMemoryStateStore', () => {
  it('InMemoryStateStore removes what has expired without a timer, at the next call', async () => {
    const clock = new ManualClock();
    const store = new InMemoryStateStore(clock);
    for (let n = 0; n < 5; n++) await store.set(`p:${n}`, n, 1_000, { owner: 'p', max: 9 });
    expect([store.size, clock.pending]).toEqual([5, 0]);
    await clock.advance(999);
    await store.set('p:0', 0, 1_000, { owner: 'p', max: 9 });
    await clock.advance(1);
    expect(store.size).toBe(1);
    await clock.advance(999);
    expect(store.size).toBe(0);
  });
});
