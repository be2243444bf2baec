import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { McpEventStoreStats } from 'nestjs-mcp-streamable/stores';
import { eventStoreContract, ManualClock, sessionStoreContract } from 'nestjs-mcp-streamable/testing';
import { Database } from './database.js';
import { SqliteEventStore } from './sqlite-event-store.js';
import { SqliteSessionStore } from './sqlite-session-store.js';

// The contract tests of the library, with the test runner of Node: npm test

/** A fresh file, two connections to it, and time that the tests turn. */
function fixture() {
  const clock = new ManualClock();
  const folder = mkdtempSync(join(tmpdir(), 'sqlite-store-'));
  const [db, other] = [new Database(join(folder, 'db')), new Database(join(folder, 'db'))];
  const dispose = async (): Promise<void> => {
    db.close();
    other.close();
    rmSync(folder, { recursive: true });
  };
  return { db, other, now: () => clock.now(), advance: (ms: number) => clock.advance(ms), dispose };
}

sessionStoreContract(
  'SqliteSessionStore',
  async () => {
    const { db, other, now, ...harness } = fixture();
    return { store: new SqliteSessionStore(db, now), peer: new SqliteSessionStore(other, now), ...harness };
  },
  { describe, it },
);

eventStoreContract(
  'SqliteEventStore',
  async () => {
    const { db, other, now, ...harness } = fixture();
    const limits = { maxEvents: 100, finishedStreamMs: 60_000 };
    const [store, peer] = [new SqliteEventStore(db, limits, now), new SqliteEventStore(other, limits, now)];
    /** Of sessions that were not dropped; stream 0 counts when it was used. */
    const count = async (): Promise<McpEventStoreStats> => {
      // Forgets what is due.
      await store.release('', '', { node: '', reader: '' });
      const live = `session IN (SELECT session FROM stream WHERE id = '0' AND forgetAt IS NULL)`;
      const used = `(id <> '0' OR state ->> 'last' > 0 OR state ->> 'reader' IS NOT NULL)`;
      const events = db.rows<{ data: string }>(`SELECT data FROM event JOIN stream ON key = stream WHERE ${live}`);
      return {
        sessions: db.rows(`SELECT 1 FROM stream WHERE id = '0' AND ${live}`).length,
        streams: db.rows(`SELECT 1 FROM stream WHERE ${used} AND ${live}`).length,
        events: events.length,
        bytes: events.reduce((sum, { data }) => sum + data.length * 2, 0),
      };
    };
    return { store, peer, count, limits, ...harness };
  },
  { describe, it },
);
