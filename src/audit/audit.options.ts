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
import type { McpCallInfo } from '../core/calls/mcp-instrumentation.js';
import type { McpAuditSink } from './audit-record.js';

/**
 * Decides what is recorded of the arguments of a call.
 *
 * @param args a copy of the arguments, in which sensitive properties are redacted already
 * @returns what is recorded; `undefined`: nothing
 * @publicApi
 */
export type McpAuditRedaction = (args: Record<string, unknown>, call: McpCallInfo) => unknown;

/** Options of `McpAuditModule.forRoot()`. @publicApi */
export interface McpAuditOptions {
  /**
   * Takes the records: an object, or a class. An instance that a module of the app provides is used; otherwise one is made, with
   * what the `imports` of the module export, and without hooks of its life.
   *
   * @default writes each record as a line of JSON by the logger of the app, in the context `McpAudit`
   */
  sink?: McpAuditSink | Type<McpAuditSink>;
  /**
   * The names of properties whose values are replaced by `[redacted]`, at any depth; upper case, `_` and `-` do not matter. Or a
   * function, in addition to the default names. Properties with `x-mcp-sensitive: true` in the schema of the tool are redacted in
   * any case.
   *
   * @default ['password', 'secret', 'clientSecret', 'token', 'accessToken', 'refreshToken', 'apiKey', 'authorization']
   */
  redact?: readonly string[] | McpAuditRedaction;
  /**
   * Whether a call that cannot be recorded is refused, with 503 or the JSON-RPC code -32000: the sink has to take a record of the
   * attempt before a guard or handler runs. With `false`, a sink that fails or hangs costs no call; what it did not take is counted.
   *
   * @default false
   */
  required?: boolean;
  /**
   * A secret of at least 32 bytes. With it `argumentsHash` is the HMAC-SHA-256 of the arguments as they were sent, so that one who
   * has the key can prove what was sent. Without it, it is the SHA-256 of the arguments as they are recorded: a plain hash of a short
   * secret, such as a PIN, would reveal it to anyone who tries all of them.
   *
   * @default none
   */
  hashKey?: string | Uint8Array;
  /** The arguments of a record have at most about so many characters as JSON; the rest is cut. @default 8192 */
  maxArgumentLength?: number;
  /**
   * The most records that the sink may be writing at a time. Further ones are dropped and counted, so that a sink that hangs does
   * not take the memory of the process.
   *
   * @default 1000
   */
  maxPending?: number;
  /**
   * Milliseconds after which a record that the sink has not taken counts as failed; with `required` the call is refused. At
   * shutdown the last records have as long.
   *
   * @default 5000
   */
  timeoutMs?: number;
  /**
   * Whether requests that are refused before there is a call (401, 403, 429, …) are recorded. Anyone can cause those.
   *
   * @default true
   */
  refusals?: boolean;
}

const NAMES = ['password', 'secret', 'clientSecret', 'token', 'accessToken', 'refreshToken', 'apiKey', 'authorization'];

const MIN_KEY_BYTES = 32;

const AUDIT_TABLE = {
  sink: passing(undefined, isSink, 'an object with the method write(record), or a class of such objects'),
  redact: passing(
    NAMES as readonly string[] | McpAuditRedaction,
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
  return typeof redact === 'function' ? NAMES : redact;
}

/** Checks the sink that a class or a factory has made. @throws McpOptionError */
export function assertSink(sink: unknown): asserts sink is McpAuditSink {
  if (typeof (sink as Partial<McpAuditSink> | null | undefined)?.write === 'function') return;
  throw new McpOptionError('sink', 'The option "sink" names a class whose instances have no method write(record).');
}

/** A function that is no class, such as an arrow function, has no prototype. */
function isSink(given: unknown): boolean {
  if (typeof given === 'function') return given.prototype !== undefined;
  return typeof (given as Partial<McpAuditSink> | null)?.write === 'function';
}
