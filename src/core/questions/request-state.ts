import { createCipheriv, createDecipheriv, hash, hkdfSync, randomBytes } from 'node:crypto';
import type { McpClock } from '../common/clock.js';
import { FORMATS } from '../common/formats.js';
import { type RouteParams, routeText } from '../calls/mcp-call.js';
import { type ProtocolError, sdk } from '../protocol/spec.js';
import { canonicalJson } from '../protocol/values.js';

/**
 * # What a call knows so far, in the hands of its client
 *
 * The modern era keeps no state between two requests: the answers so far are sent to the client as `requestState`, and
 * returned by it. The client must not be able to read or change it, or to use it for another call:
 *
 *     base64url( format 1 │ salt 16 │ nonce 12 │ AES-256-GCM( expiry, payload ) │ tag 16 )
 *
 * - **Key**: HKDF-SHA256 of a secret with the salt, so each state has a key of its own, and nodes that share a secret may
 *   seal as many as they like without ever repeating a nonce under a key.
 * - **Associated data**: everything that the state belongs to ({@link StateBinding}). It is not part of the state, and
 *   a state that is sent with another call cannot be decrypted.
 * - **Secrets**: the first one encrypts, all of them decrypt. To rotate, put a new one first, and remove the old one
 *   when `ttlMs` and `clockToleranceMs` have passed.
 *
 * A state can be used several times until it expires: it is no protection against replay.
 *
 * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#server-requirements
 */
export class RequestStates {
  constructor(
    private readonly options: RequestStateOptions,
    private readonly clock: Pick<McpClock, 'now'>,
  ) {}

  /** Encrypts a payload. @throws RequestStateTooLargeError */
  seal(payload: string, binding: StateBinding): string {
    const { secrets, ttlMs, maxBytes } = this.options;
    const salt = randomBytes(SALT_BYTES);
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, keyOf(secrets[0]!, salt), nonce, TAG);
    const { writes: format } = FORMATS.requestState;
    cipher.setAAD(this.#associated(binding, format));
    const content = `${this.clock.now() + ttlMs} ${payload}`;
    const sealed = Buffer.concat([
      Buffer.of(format),
      salt,
      nonce,
      cipher.update(content, 'utf8'),
      cipher.final(),
      cipher.getAuthTag(),
    ]);
    const state = sealed.toString('base64url');
    if (state.length > maxBytes) throw new RequestStateTooLargeError(state.length, maxBytes);
    return state;
  }

  /**
   * Decrypts a state.
   *
   * @returns the payload
   * @throws ProtocolError -32602, without the reason, which would help an attacker
   */
  open(state: string, binding: StateBinding): string {
    try {
      const payload = state.length <= this.options.maxBytes ? this.#opened(state, binding) : undefined;
      if (payload !== undefined) return payload;
    } catch {
      // Parameters that are nested too deeply for a digest fail here, for example.
    }
    throw invalidState();
  }

  #opened(state: string, binding: StateBinding): string | undefined {
    const bytes = Buffer.from(state, 'base64url');
    // Each state has one encoding: variants that the decoder accepts (other alphabets, stray characters, spare bits)
    // are refused.
    const format = bytes[0]!;
    if (bytes.length <= OVERHEAD_BYTES || !FORMATS.requestState.reads.includes(format)) return undefined;
    if (bytes.toString('base64url') !== state) return undefined;
    const associated = this.#associated(binding, format);
    for (const secret of this.options.secrets) {
      const content = decrypted(bytes, secret, associated);
      if (content !== undefined) return this.#unexpired(content);
    }
    return undefined;
  }

  #unexpired(content: string): string | undefined {
    const end = content.indexOf(' ');
    const until = Number(content.slice(0, end)) + this.options.clockToleranceMs;
    return this.clock.now() < until ? content.slice(end + 1) : undefined;
  }

  #associated({ principal, routeParams, method, target, params }: StateBinding, format: number): Buffer {
    const { name, path } = this.options.endpoint;
    // The lists have one or no element: a missing principal differs from every text.
    const owner = [optional(principal), optional(routeText(routeParams))];
    const belongs = [format, optional(name), path, ...owner, method, target, digestOf(params)];
    return Buffer.from(JSON.stringify(belongs));
  }
}

export interface RequestStateOptions {
  /** There is at least one secret, of at least {@link MIN_SECRET_BYTES}. */
  readonly secrets: readonly Uint8Array[];
  readonly ttlMs: number;
  /** The clock of the node that sealed a state may be behind by so many milliseconds. */
  readonly clockToleranceMs: number;
  /** A sealed state has at most so many bytes as it is sent: it is ASCII. */
  readonly maxBytes: number;
  /** Names the endpoint of the app: a state of one endpoint is invalid at another. */
  readonly endpoint: { readonly name: string | undefined; readonly path: string };
}

/** A state belongs to all of these. */
export interface StateBinding {
  /** The caller; `undefined`, the anonymous one, is different from every text. */
  readonly principal: string | undefined;
  /** The parameters of the path: a state of one tenant is invalid at another. */
  readonly routeParams?: RouteParams | undefined;
  readonly method: string;
  /** The name of the tool or prompt, the URI of the resource. */
  readonly target: string;
  /** The parameters of the request. `_meta`, `inputResponses` and `requestState` do not count. */
  readonly params: Readonly<Record<string, unknown>>;
}

/** A request that can be answered with questions: `tools/call`, `prompts/get`, `resources/read`. */
export interface AskingRequest extends Pick<StateBinding, 'target' | 'params'> {
  /** The unchecked answers of the client to the round before. */
  readonly inputResponses?: Readonly<Record<string, object>> | undefined;
  /** The state as it was sent; a string, if this endpoint created it. */
  readonly requestState?: unknown;
}

/** Thrown when a state has become larger than a client may be given. */
export class RequestStateTooLargeError extends Error {
  override readonly name = 'RequestStateTooLargeError';
  constructor(
    readonly bytes: number,
    readonly maxBytes: number,
  ) {
    super(`${bytes} > ${maxBytes}`);
  }
}

/** The minimum length of a secret, for the strength of AES-256. */
export const MIN_SECRET_BYTES = 32;

const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
const SALT_BYTES = 16;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const TAG = { authTagLength: TAG_BYTES };
const SALT_AT = 1;
const NONCE_AT = SALT_AT + SALT_BYTES;
const CONTENT_AT = NONCE_AT + NONCE_BYTES;
const OVERHEAD_BYTES = CONTENT_AT + TAG_BYTES;
const PURPOSE = 'nestjs-mcp-streamable requestState';
/** These parameters change from round to round. */
const UNBOUND: readonly string[] = ['_meta', 'inputResponses', 'requestState'];

function decrypted(bytes: Buffer, secret: Uint8Array, associated: Buffer): string | undefined {
  const key = keyOf(secret, bytes.subarray(SALT_AT, NONCE_AT));
  const decipher = createDecipheriv(CIPHER, key, bytes.subarray(NONCE_AT, CONTENT_AT), TAG);
  decipher.setAAD(associated);
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
  try {
    return decipher.update(bytes.subarray(CONTENT_AT, -TAG_BYTES), undefined, 'utf8') + decipher.final('utf8');
  } catch {
    return undefined;
  }
}

function keyOf(secret: Uint8Array, salt: Uint8Array): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', secret, salt, PURPOSE, KEY_BYTES));
}

function optional(text: string | undefined): string[] {
  return text === undefined ? [] : [text];
}

function digestOf(params: StateBinding['params']): string {
  const bound = Object.entries(params).filter(([name]) => !UNBOUND.includes(name));
  return digestOfJson(Object.fromEntries(bound));
}

/** Returns a digest that equal values have in common. @throws RangeError for a value that is nested too deeply */
export function digestOfJson(value: unknown): string {
  return hash('sha256', canonicalJson(value), 'base64url');
}

/** Returns an error with the text and data of the SDK's own refusal. */
export function invalidState(): ProtocolError {
  const reason = { reason: 'invalid_request_state' };
  return new sdk.ProtocolError(sdk.ProtocolErrorCode.InvalidParams, 'Invalid or expired requestState', reason);
}
