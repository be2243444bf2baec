import { Keyv } from 'keyv';
import { describe, it, vi } from 'vitest';
import { stateStoreContract } from '../../../testing/index.js';

/** A Keyv as it is: without caps, by the clock of the process. */
stateStoreContract(
  'Keyv',
  async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    return {
      store: new Keyv(),
      caps: false,
      advance: async (ms) => void vi.setSystemTime(Date.now() + ms),
      dispose: async () => void vi.useRealTimers(),
    };
  },
  { describe, it },
);
