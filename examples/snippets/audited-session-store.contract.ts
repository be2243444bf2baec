// #region contract
import { InMemorySessionStore } from 'nestjs-mcp-streamable/stores';
import { ManualClock, sessionStoreContract } from 'nestjs-mcp-streamable/testing';
import { describe, it } from 'vitest';
import { AuditedSessionStore } from './audited-session-store.js';

sessionStoreContract(
  'AuditedSessionStore',
  async () => {
    const clock = new ManualClock();
    const store = new AuditedSessionStore(new InMemorySessionStore(clock));
    return { store, advance: (ms) => clock.advance(ms), dispose: async () => {} };
  },
  { describe, it },
);
// #endregion
