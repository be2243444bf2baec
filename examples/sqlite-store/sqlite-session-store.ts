import type {
  McpCreateOutcome,
  McpSessionRecord,
  McpSessionStore,
  McpNewSessionRecord,
  McpSessionCaps,
  McpSessionPatch,
} from 'nestjs-mcp-streamable/stores';
import type { Database } from './database.js';

/** `n` counts up: records are listed in the order in which they were made. `record` is JSON, but for `lastSeenAt`. */
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS session (
    n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, principal TEXT, record TEXT NOT NULL, lastSeenAt INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS session_last_seen ON session (lastSeenAt)`;
const BY_ID = 'SELECT * FROM session WHERE id = ?';

/** The records of sessions, a row each. */
export class SqliteSessionStore implements McpSessionStore {
  /** The next process reads them. */
  readonly scope = 'shared';

  constructor(
    private readonly db: Database,
    private readonly now: () => number = Date.now,
  ) {
    db.exec(SCHEMA);
  }

  async create(record: McpNewSessionRecord, caps: McpSessionCaps): Promise<McpCreateOutcome> {
    const { id, principal: owner = null } = record;
    return this.db.atomically(() => {
      if (this.#records(BY_ID, id).length > 0) return 'taken';
      if (this.#count('true') >= caps.total) return 'total-cap';
      if (this.#count('principal IS ?', owner) >= caps.perPrincipal) return 'principal-cap';
      const now = this.now();
      const json = JSON.stringify({ ...record, subscriptions: [], used: false, createdAt: now });
      this.db.rows('INSERT INTO session (id, principal, record, lastSeenAt) VALUES (?, ?, ?, ?)', id, owner, json, now);
      return 'created';
    });
  }

  async get(id: string): Promise<McpSessionRecord | undefined> {
    return this.#records(BY_ID, id)[0];
  }

  async patch(id: string, patch: McpSessionPatch): Promise<boolean> {
    // By way of JSON, in which there is no undefined: it would hide what is there.
    const { subscribe = [], unsubscribe = [], ...changes } = JSON.parse(JSON.stringify(patch)) as McpSessionPatch;
    return this.db.atomically(() => {
      const [record] = this.#records(BY_ID, id);
      if (!record) return false;
      const kept = record.subscriptions.filter((uri) => !unsubscribe.includes(uri));
      const json = JSON.stringify({ ...record, ...changes, subscriptions: [...new Set([...kept, ...subscribe])] });
      return this.db.rows('UPDATE session SET record = ? WHERE id = ? RETURNING n', json, id).length > 0;
    });
  }

  async touch(id: string): Promise<boolean> {
    const changes = `lastSeenAt = ?, record = json_set(record, '$.used', json('true'))`;
    return this.db.rows(`UPDATE session SET ${changes} WHERE id = ? RETURNING n`, this.now(), id).length > 0;
  }

  async delete(id: string): Promise<McpSessionRecord | undefined> {
    return this.#records('DELETE FROM session WHERE id = ? RETURNING *', id)[0];
  }

  async claimExpired(idleMs: number, limit: number, unusedMs = Infinity): Promise<McpSessionRecord[]> {
    const silent = `lastSeenAt <= ?1 - iif(record ->> 'used', ?2, min(?2, ?3)) ORDER BY lastSeenAt LIMIT ?4`;
    const sql = `DELETE FROM session WHERE n IN (SELECT n FROM session WHERE ${silent}) RETURNING *`;
    // SQLite returns in any order what it has deleted.
    return this.#records(sql, this.now(), idleMs, unusedMs, limit).toSorted((a, b) => a.lastSeenAt - b.lastSeenAt);
  }

  async list({ principal }: { principal?: string | null } = {}): Promise<McpSessionRecord[]> {
    if (principal === undefined) return this.#records('SELECT * FROM session ORDER BY n');
    return this.#records('SELECT * FROM session WHERE principal IS ? ORDER BY n', principal);
  }

  async count(): Promise<number> {
    return this.#count('true');
  }

  #count(condition: string, ...values: (string | null)[]): number {
    return this.db.rows<{ n: number }>(`SELECT count(*) AS n FROM session WHERE ${condition}`, ...values)[0]!.n;
  }

  #records(sql: string, ...values: (string | number | null)[]): McpSessionRecord[] {
    const rows = this.db.rows<{ record: string; lastSeenAt: number }>(sql, ...values);
    return rows.map(({ record, lastSeenAt }) => ({ ...(JSON.parse(record) as McpSessionRecord), lastSeenAt }));
  }
}
