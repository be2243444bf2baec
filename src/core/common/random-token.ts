import { randomFillSync } from 'node:crypto';

const ALPHABET = Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789');
/**
 * Bytes from this multiple of 62 on are discarded, so that every character is equally likely.
 */
const UNBIASED = 248;

/** A token of this length cannot be guessed: 62^22 > 2^130. */
export const TOKEN_LENGTH = 22;

/** Characters from `used` to `filled` are in no token yet. */
const pool = Buffer.alloc(4096);
let used = 0;
let filled = 0;

/**
 * Makes an unguessable token of the alphabet `[A-Za-z0-9]`.
 *
 * Created in one piece: a string concatenated from characters keeps an object of 32 bytes for each of them.
 *
 * @param length characters; the default of {@link TOKEN_LENGTH} carries 131 random bits
 */
export function randomToken(length: number = TOKEN_LENGTH): string {
  let token = '';
  while (token.length < length) {
    if (used === filled) refill();
    const end = Math.min(used + length - token.length, filled);
    token += pool.toString('latin1', used, end);
    pool.fill(0, used, end);
    used = end;
  }
  return token;
}

function refill(): void {
  randomFillSync(pool);
  used = filled = 0;
  for (const byte of pool) if (byte < UNBIASED) pool[filled++] = ALPHABET[byte % ALPHABET.length]!;
  pool.fill(0, filled);
}
