import { describe, expect, it } from 'vitest';
import { ManualClock, taskStoreContract } from '../testing/index.js';
import { InMemoryTaskStore } from './in-memory-task-store.js';

taskStoreContract(
  'InMemoryTaskStore',
  async () => {
    const clock = new ManualClock();
    return { store: new InMemoryTaskStore(clock), advance: (ms) => clock.advance(ms), dispose: async () => {} };
  },
  { describe, it },
);

describe('InMemoryTaskStore', () => {
  it('InMemoryTaskStore needs no timer to let go of what has expired', async () => {
    const clock = new ManualClock();
    const store = new InMemoryTaskStore(clock);
    const about = { principal: 'p', tool: 't', node: 'A', createdAt: 0, ttlMs: 1_000, pollIntervalMs: 1 };
    for (let n = 0; n < 5; n++) await store.create({ ...about, id: `${n}` }, { total: 9, perPrincipal: 9 });
    expect([store.size, clock.pending]).toEqual([5, 0]);
    await clock.advance(1_000);
    expect(store.size).toBe(0);
  });
});
