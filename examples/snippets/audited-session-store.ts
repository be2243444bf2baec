// #region store
import { Logger } from '@nestjs/common';
import type {
  McpCreateOutcome,
  McpSessionRecord,
  McpSessionStore,
  McpNewSessionRecord,
  McpSessionCaps,
  McpSessionPatch,
} from 'nestjs-mcp-streamable/stores';

/**
 * Logs the beginning and end of each session with its principal; keeps the records in
 * another store.
 */
export class AuditedSessionStore implements McpSessionStore {
  readonly #logger = new Logger('Audit');

  constructor(private readonly store: McpSessionStore) {}

  get scope(): 'node' | 'shared' {
    return this.store.scope;
  }
  async create(
    record: McpNewSessionRecord,
    caps: McpSessionCaps,
  ): Promise<McpCreateOutcome> {
    const outcome = await this.store.create(record, caps);
    if (outcome === 'created') this.#note(record, 'began');
    return outcome;
  }
  async delete(id: string): Promise<McpSessionRecord | undefined> {
    const record = await this.store.delete(id);
    if (record) this.#note(record, 'ended');
    return record;
  }
  async claimExpired(
    idleMs: number,
    limit: number,
    unusedMs?: number,
  ): Promise<McpSessionRecord[]> {
    const expired = await this.store.claimExpired(idleMs, limit, unusedMs);
    for (const record of expired) this.#note(record, 'ended');
    return expired;
  }
  async claimAnonymous(): Promise<McpSessionRecord | undefined> {
    const record = await this.store.claimAnonymous?.();
    if (record) this.#note(record, 'ended');
    return record;
  }

  get(id: string): Promise<McpSessionRecord | undefined> {
    return this.store.get(id);
  }
  patch(id: string, patch: McpSessionPatch): Promise<boolean> {
    return this.store.patch(id, patch);
  }
  touch(id: string): Promise<boolean> {
    return this.store.touch(id);
  }
  list(filter?: { principal?: string | null }): Promise<McpSessionRecord[]> {
    return this.store.list(filter);
  }
  count(): Promise<number> {
    return this.store.count();
  }

  /**
   * Called once for each end: the contract gives a removed record to exactly one
   * caller.
   */
  #note({ id, principal = 'anonymous' }: McpNewSessionRecord, what: string): void {
    this.#logger.log(`${principal} ${what} session ${id.slice(0, 6)}`);
  }
}
// #endregion
