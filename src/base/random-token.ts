import { randomFillSync } from 'node:crypto';

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
/** The largest multiple of 62 that fits a byte: bytes beyond it are thrown away, so that every character is equally likely. */
const UNBIASED = 248;

/** 62^22 > 2^130: unguessable. */
export const TOKEN_LENGTH = 22;

const pool = new Uint8Array(4096);
let used = pool.length;

/**
 * An unguessable token of the alphabet `[A-Za-z0-9]`.
 *
 * @param length characters; the default of {@link TOKEN_LENGTH} carries 131 random bits
 */
export function randomToken(length: number = TOKEN_LENGTH): string {
  let token = '';
  while (token.length < length) {
    if (used === pool.length) {
      randomFillSync(pool);
      used = 0;
    }
    const byte = pool[used]!;
    pool[used++] = 0;
    if (byte < UNBIASED) token += ALPHABET[byte % 62];
  }
  return token;
}
