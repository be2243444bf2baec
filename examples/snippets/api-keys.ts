// #region keys
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';

/** A row of the table of keys. The key itself is not in it. */
export interface ApiKeyRow {
  /** Part of the key, by which the table finds the row. It is not secret. */
  readonly id: string;
  /** The SHA-256 of the whole key. */
  readonly hash: Buffer;
  readonly owner: string;
  readonly scopes: readonly string[];
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}

/** Stands for your table, whose primary key is `id`. */
@Injectable()
export class ApiKeyTable {
  readonly #rows = new Map<string, ApiKeyRow>();

  insert(row: ApiKeyRow): Promise<void> {
    this.#rows.set(row.id, row);
    return Promise.resolve();
  }

  find(id: string): Promise<ApiKeyRow | undefined> {
    return Promise.resolve(this.#rows.get(id));
  }

  delete(id: string, owner: string): Promise<boolean> {
    return Promise.resolve(this.#rows.get(id)?.owner === owner && this.#rows.delete(id));
  }
}

/** Secret scanners, and {@link isApiKey}, find keys by this prefix. */
const FORMAT = /^acme_([0-9a-f]{16})_[0-9a-f]{64}$/;
const NO_KEY = Buffer.alloc(32);

export const isApiKey = (token: string): boolean => token.startsWith('acme_');

const hashOf = (key: string): Buffer => createHash('sha256').update(key).digest();

@Injectable()
export class ApiKeys {
  constructor(@Inject(ApiKeyTable) private readonly table: ApiKeyTable) {}

  /** @returns the key: show it to its owner at once, since the table has only its hash */
  async issue(owner: string, scopes: readonly string[], days: number): Promise<string> {
    const id = randomBytes(8).toString('hex');
    const key = `acme_${id}_${randomBytes(32).toString('hex')}`;
    await this.table.insert({
      id,
      hash: hashOf(key),
      owner,
      scopes,
      expiresAt: Date.now() + days * 86_400_000,
    });
    return key;
  }

  /** @returns the row of a key that is valid now */
  async find(key: string): Promise<ApiKeyRow | undefined> {
    const [, id] = FORMAT.exec(key) ?? [];
    const row = id === undefined ? undefined : await this.table.find(id);
    // Takes the same time if there is no such id, so that the time says nothing about
    // stored keys.
    const same = timingSafeEqual(hashOf(key), row?.hash ?? NO_KEY);
    return row && same && Date.now() < row.expiresAt ? row : undefined;
  }

  /** @returns whether there was such a key of this owner */
  async revoke(id: string, owner: string): Promise<boolean> {
    return this.table.delete(id, owner);
  }
}
// #endregion
