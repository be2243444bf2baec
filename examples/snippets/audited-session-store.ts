// #region store
import { Logger } from '@nestjs/common';
import type {
  McpSessionRecord,
  McpSessionStore,
  NewSessionRecord,
  RecordFilter,
  RecordKind,
  ReserveOutcome,
  SessionCaps,
  SessionPatch,
} from 'nestjs-mcp-streamable';

/** Writes down who had a session, or state, and when it ended; keeps the records in another store. */
export class AuditedSessionStore implements McpSessionStore {
  readonly #logger = new Logger('Audit');

  constructor(private readonly store: McpSessionStore) {}

  get scope(): 'node' | 'shared' {
    return this.store.scope;
  }
  async create(record: NewSessionRecord): Promise<McpSessionRecord> {
    const created = await this.store.create(record);
    this.#note(created, 'began');
    return created;
  }
  async delete(id: string): Promise<McpSessionRecord | undefined> {
    const record = await this.store.delete(id);
    if (record) this.#note(record, 'ended');
    return record;
  }
  async claimExpired(idleMs: number, limit: number): Promise<McpSessionRecord[]> {
    const expired = await this.store.claimExpired(idleMs, limit);
    for (const record of expired) this.#note(record, 'ended');
    return expired;
  }

  reserve(id: string, principal: string | undefined, caps: SessionCaps): Promise<ReserveOutcome> {
    return this.store.reserve(id, principal, caps);
  }
  release(id: string): Promise<void> {
    return this.store.release(id);
  }
  get(id: string): Promise<McpSessionRecord | undefined> {
    return this.store.get(id);
  }
  patch(id: string, patch: SessionPatch): Promise<McpSessionRecord | undefined> {
    return this.store.patch(id, patch);
  }
  touch(id: string): Promise<boolean> {
    return this.store.touch(id);
  }
  list(filter?: RecordFilter): Promise<McpSessionRecord[]> {
    return this.store.list(filter);
  }
  count(kind?: RecordKind): Promise<number> {
    return this.store.count(kind);
  }

  /** Said once for each end: the contract gives a removed record to exactly one caller. */
  #note({ id, principal = 'anonymous' }: McpSessionRecord, what: string): void {
    this.#logger.log(`${principal} ${what} session ${id.slice(0, 6)}`);
  }
}
// #endregion
