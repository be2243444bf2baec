// #region contract
import { Keyv } from 'keyv';
import { stateStoreContract } from 'nestjs-mcp-streamable/testing';
import { describe, it } from 'vitest';

stateStoreContract(
  'Keyv',
  async () => ({ store: new Keyv(), caps: false, dispose: async () => {} }),
  { describe, it },
);
// #endregion
