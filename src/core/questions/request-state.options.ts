import { randomBytes } from 'node:crypto';
import { count, McpOptionError, option, type OptionTable, type Resolved } from '../common/options.js';
import { MIN_SECRET_BYTES } from './request-state.js';

/**
 * Decides how the state of a call travels, sealed, through its client, when the handler asks something in revision 2026-07-28.
 *
 * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#server-requirements
 * @internal
 */
export interface McpRequestStateOptions {
  /**
   * Lists the secrets that encrypt the request state. Each has at least 32 bytes, as bytes or as text: `openssl rand
   * -base64 32` prints one. The first key encrypts, and all keys decrypt. To rotate, put a new key first, and remove
   * the old one when `requestStateTtlMs` has passed. All nodes of a deployment need the same keys. An attacker who has
   * a key can forge answers and results of `ctx.once()`.
   *
   * @default one random key per process
   */
  requestStateKeys?: readonly (string | Uint8Array)[];
  /**
   * Sets the milliseconds that a client has to answer the questions of one round. With a higher value users have more
   * time. With a lower value a client can send the same answers again for a shorter time.
   *
   * @default 1800000 (30 min)
   */
  requestStateTtlMs?: number;
  /**
   * Sets the milliseconds by which the clocks of the nodes may differ. The request state has the time of the node that
   * encrypted it, and any node may decrypt it: it does so for this much longer than `requestStateTtlMs`. With a higher
   * value clocks may differ by more, and a client can send the same answers again for a longer time. With `0`, a node
   * whose clock is ahead refuses answers before their time is over. Has no effect on what is in a store, which counts by
   * a clock of its own.
   *
   * @default 60000 (1 min)
   */
  clockToleranceMs?: number;
  /**
   * Limits the encrypted request state, in bytes. The state has the answers so far and the results of `ctx.once()`; the
   * encoding adds a third. A call that needs more fails. Each round sends the state twice, and encrypts and decrypts
   * it, so a higher value costs bandwidth and time.
   *
   * @default 65536 (64 KiB)
   */
  maxRequestStateBytes?: number;
}

export const REQUEST_STATE_TABLE = {
  requestStateKeys: option(undefined, secretsOf),
  requestStateTtlMs: count(1_800_000),
  clockToleranceMs: count(60_000, { min: 0 }),
  maxRequestStateBytes: count(65_536, { min: 1_024 }),
} satisfies OptionTable<McpRequestStateOptions>;

export type ResolvedRequestStateOptions = Resolved<typeof REQUEST_STATE_TABLE>;

/**
 * Returns the secrets of an endpoint.
 *
 * @param shared whether other nodes may have to open what this one has sealed
 * @throws McpOptionError
 */
export function secretsFor(keys: readonly Uint8Array[] | undefined, shared: boolean): readonly Uint8Array[] {
  if (keys) return keys;
  if (shared)
    throw new McpOptionError(
      'requestStateKeys',
      'The sessions of this endpoint are shared by several nodes, so the option "requestStateKeys" is required: a client may send its answers to another node than the one that asked, and that node must be able to decrypt the request state. Give all nodes the same array of secrets, each of at least 32 bytes. An endpoint with eras: "legacy" needs none.',
    );
  return [randomBytes(MIN_SECRET_BYTES)];
}

/** Reads the keys. The messages never show a value: it is a secret, also when it is a bad one. */
function secretsOf(keys: unknown): Uint8Array[] {
  if (!Array.isArray(keys) || keys.length === 0)
    throw new McpOptionError(
      'requestStateKeys',
      'The option "requestStateKeys" must be an array of at least one secret.',
    );
  return keys.map((key: unknown, index) => {
    const secret =
      typeof key === 'string' ? Buffer.from(key) : key instanceof Uint8Array ? Buffer.from(key) : undefined;
    if (secret && secret.length >= MIN_SECRET_BYTES) return secret;
    throw new McpOptionError(
      'requestStateKeys',
      `"requestStateKeys[${index}]" must be a secret of at least ${MIN_SECRET_BYTES} bytes, as a string or a Uint8Array. "openssl rand -base64 32" makes one.`,
    );
  });
}
