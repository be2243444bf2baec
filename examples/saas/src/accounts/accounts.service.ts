import { createHash, timingSafeEqual } from 'node:crypto';
import { Injectable } from '@nestjs/common';

/** A user of a customer. */
export interface User {
  readonly id: string;
  readonly tenant: string;
  readonly role: 'member' | 'operator';
}

const hashOf = (key: string): Buffer => createHash('sha256').update(key).digest();

/**
 * The customers, their plans, and the API keys of their users. A real one has a
 * database, and keeps only hashes of keys.
 */
@Injectable()
export class Accounts {
  readonly #plans = new Map<string, 'free' | 'pro'>([
    ['acme', 'pro'],
    ['globex', 'free'],
  ]);
  readonly #keys: readonly { readonly hash: Buffer; readonly user: User }[] = [
    { hash: hashOf('key-of-ann'), user: { id: 'ann', tenant: 'acme', role: 'member' } },
    { hash: hashOf('key-of-gus'), user: { id: 'gus', tenant: 'globex', role: 'member' } },
    {
      hash: hashOf('key-of-olga'),
      user: { id: 'olga', tenant: 'acme', role: 'operator' },
    },
  ];

  /**
   * Finds the user of a key. Hashes have one length, and are compared in constant time.
   */
  userOf(key: string): User | undefined {
    const hash = hashOf(key);
    return this.#keys.find((each) => timingSafeEqual(each.hash, hash))?.user;
  }

  planOf(tenant: string): 'free' | 'pro' {
    return this.#plans.get(tenant) ?? 'free';
  }
}
