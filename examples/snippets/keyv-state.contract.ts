// #region contract
import { Keyv } from 'keyv';
import { stateStoreContract } from 'nestjs-mcp-streamable/testing';
import { describe, it } from 'vitest';

stateStoreContract(
  'Keyv',
  () =>
    Promise.resolve({
      store: new Keyv(),
      caps: false,
      dispose: () => Promise.resolve(),
    }),
  { describe, it },
);
// #endregion
