import assert from 'node:assert/strict';
import type { McpSessionRecord, McpSessionStore, NewSessionRecord, SessionCaps } from '../session/session-store.js';

/** A session store under test. Each test gets one with nothing in it. @publicApi */
export interface SessionStoreHarness {
  readonly store: McpSessionStore;
  /** The same records as another node sees them, for calls that run concurrently. Absent: `store` itself. */
  readonly peer?: McpSessionStore;
  /** Lets the store's time pass. Absent: what takes time is not tested. */
  readonly advance?: (ms: number) => Promise<void>;
  dispose(): Promise<void>;
}

export const AMPLE: SessionCaps = { total: 1_000, perPrincipal: 1_000 };
/** More than any test makes. */
export const MANY = 1_000;

export function newRecord(id: string, principal?: string): NewSessionRecord {
  const clientInfo = { name: 'contract', version: '1' };
  const initialize = {
    protocolVersion: '2025-06-18',
    capabilities: { sampling: {} },
    clientInfo,
    _meta: { more: [1] },
  };
  return { ...{ id, protocolVersion: '2025-11-25', initialize }, ...(principal !== undefined && { principal }) };
}

/** Creates a record, as a session begins. */
export async function begin(store: McpSessionStore, id: string, principal?: string): Promise<McpSessionRecord> {
  assert.equal(await store.create(newRecord(id, principal), AMPLE), 'created');
  return (await store.get(id))!;
}

export function ids(records: readonly McpSessionRecord[]): string[] {
  return records.map(({ id }) => id);
}

/** `count` calls at the same time, from two nodes. */
export function concurrently<T>(
  { store, peer = store }: SessionStoreHarness,
  count: number,
  call: (store: McpSessionStore, n: number) => Promise<T>,
): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, (_, n) => call(n % 2 ? peer : store, n)));
}
