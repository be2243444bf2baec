import type { Type } from '@nestjs/common';
import {
  count,
  flag,
  McpOptionError,
  type OptionTable,
  passing,
  type Resolved,
  resolveGroup,
  timer,
} from '../core/common/options.js';
import { isThenable } from '../core/common/promises.js';
import type { McpCallInfo } from '../core/calls/mcp-instrumentation.js';
import type { McpAuditSink } from './audit-record.js';
import { SENSITIVE_NAMES } from '../core/protocol/sensitive-names.js';

/**
 * Decides which arguments of a call are recorded.
 *
 * @param args a copy of the arguments, in which sensitive properties are redacted already
 * @returns what is recorded; `undefined`: nothing
 * @publicApi
 */
export type McpAuditRedaction = (args: Record<string, unknown>, call: McpCallInfo) => unknown;

/** Options of `McpAuditModule.forRoot()`. @publicApi */
export interface McpAuditOptions {
  /**
   * Takes the records. It is an object, or a class. If a module of the app provides an instance of the class, the audit
   * uses it. Otherwise it makes one, with dependencies from the `imports` of the module. Nest does not call lifecycle
   * hooks of such an instance.
   *
   * @default an object that writes each record as a line of JSON to the logger of the app, in the context `McpAudit`
   */
  sink?: McpAuditSink | Type<McpAuditSink>;
  /**
   * Lists the names of what is replaced by `[redacted]`: of properties at any depth, also in texts that are JSON, of parameters of
   * URLs, of headers, and of pairs such as `{ name: 'authorization', value: '…' }`. A name counts wherever its words are:
   * `token` also hides `X-Access_Token` and `tokenOfUser`, but not `maxTokens`. A list replaces the default names; a function is
   * called in addition to them. Passwords in URLs, and tokens behind `Bearer` and `Basic`, are always redacted, and so are
   * properties with `x-mcp-sensitive: true` in the schema of the tool.
   *
   * @default ['password', 'passwords', 'passwd', 'pwd', 'passphrase', 'secret', 'secrets', 'token', 'apiKey', 'accessKey', 'privateKey', 'authorization', 'bearer', 'cookie', 'cookies', 'credential', 'credentials']
   */
  redact?: readonly string[] | McpAuditRedaction;
  /**
   * Decides whether a call that cannot be recorded is refused, with 503 or the JSON-RPC code -32000. With `true` the
   * sink must take a record of the attempt before a guard or handler runs. With `false` no call fails when the sink
   * fails or hangs; the records that it did not take are counted.
   *
   * @default false
   */
  required?: boolean;
  /**
   * Sets a secret of at least 32 bytes. With it, `argumentsHash` is the HMAC-SHA-256 of the arguments as they were
   * sent, so the owner of the key can prove what was sent. Without it, `argumentsHash` is the SHA-256 of the arguments
   * as they are recorded, because a plain hash of a short secret, such as a PIN, would reveal the secret to a reader
   * who tries all values.
   *
   * @default none
   */
  hashKey?: string | Uint8Array;
  /** Limits the arguments of a record to about this number of characters of JSON. The rest is cut. @default 8192 */
  maxArgumentLength?: number;
  /**
   * Limits the number of records that the sink may be writing at a time. Further records are dropped and counted, so
   * that a sink that hangs does not use up the memory of the process. Records of refused requests have 100 places of their own.
   *
   * @default 1000
   */
  maxPending?: number;
  /**
   * Sets the milliseconds after which a record that the sink has not taken counts as failed; with `required` the call
   * is refused. At shutdown the sink has the same time for the last records.
   *
   * @default 5000
   */
  timeoutMs?: number;
  /**
   * Decides whether the audit also records requests that are refused before they are calls (401, 403, 429, …). Any
   * client can cause such requests.
   *
   * @default true
   */
  refusals?: boolean;
}

const MIN_KEY_BYTES = 32;

const AUDIT_TABLE = {
  sink: passing(undefined, isSink, 'an object with the method write(record), or a class of such objects'),
  redact: passing(
    SENSITIVE_NAMES as readonly string[] | McpAuditRedaction,
    (given) => typeof given === 'function' || (Array.isArray(given) && given.every((name) => typeof name === 'string')),
    'an array of names of properties, or a function',
  ),
  required: flag(false),
  hashKey: passing(
    undefined,
    (given) => (typeof given === 'string' || given instanceof Uint8Array) && Buffer.byteLength(given) >= MIN_KEY_BYTES,
    `a string or Uint8Array of at least ${MIN_KEY_BYTES} bytes`,
  ),
  maxArgumentLength: count(8_192),
  maxPending: count(1_000),
  timeoutMs: timer(5_000),
  refusals: flag(true),
} satisfies OptionTable<McpAuditOptions>;

/** The names of all options. */
export const AUDIT_NAMES: readonly string[] = Object.keys(AUDIT_TABLE);

export type ResolvedAuditOptions = Resolved<typeof AUDIT_TABLE>;

/** The injection token of the {@link ResolvedAuditOptions}. */
export const AUDIT_OPTIONS = Symbol('nestjs-mcp-streamable:audit-options');

/** @throws McpOptionError */
export function resolveAuditOptions(given: McpAuditOptions): ResolvedAuditOptions {
  return resolveGroup(AUDIT_TABLE, given);
}

/** Returns the names whose values are redacted. A function decides in addition to them. */
export function namesOf({ redact }: Pick<ResolvedAuditOptions, 'redact'>): readonly string[] {
  return typeof redact === 'function' ? SENSITIVE_NAMES : redact;
}

/** Returns the function that decides beside the names; `undefined`: there is none. */
export function decisionOf({
  redact,
}: Pick<ResolvedAuditOptions, 'redact'>): ((...of: Parameters<McpAuditRedaction>) => unknown) | undefined {
  if (typeof redact !== 'function') return undefined;
  return (args, call) => {
    const kept: unknown = redact(args, call);
    if (!isThenable(kept)) return kept;
    Promise.resolve(kept).catch(() => {});
    throw new TypeError('It returned a promise: it must return what is recorded, and not be async.');
  };
}

/** Checks the sink that a class or a factory has made. @throws McpOptionError */
export function assertSink(sink: unknown): asserts sink is McpAuditSink {
  if (typeof (sink as Partial<McpAuditSink> | null | undefined)?.write === 'function') return;
  throw new McpOptionError(
    'sink',
    'The option "sink" names a class whose instances have no method write(record). Add it.',
  );
}

/** A function that is no class, such as an arrow function, has no prototype. */
function isSink(given: unknown): boolean {
  if (typeof given === 'function') return given.prototype !== undefined;
  return typeof (given as Partial<McpAuditSink> | null)?.write === 'function';
}
