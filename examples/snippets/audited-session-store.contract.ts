// #region contract
import { InMemorySessionStore } from 'nestjs-mcp-streamable/stores';
import { ManualClock, sessionStoreContract } from 'nestjs-mcp-streamable/testing';
import { describe, it } from 'vitest';
import { AuditedSessionStore } from './audited-session-store.js';

sessionStoreContract(
  'AuditedSessionStore',
  () => {
    const clock = new ManualClock();
    const store = new AuditedSessionStore(new InMemorySessionStore(clock));
    const dispose = () => Promise.resolve();
    return Promise.resolve({ store, advance: (ms) => clock.advance(ms), dispose });
  },
  { describe, it },
);
// #endregion
