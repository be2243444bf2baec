import type { JsonRpcRequest } from '../core/protocol/json-rpc.js';
import { METHODS } from '../core/protocol/methods.js';
import { McpClientTransportError, McpHttpStatusError } from './client.errors.js';
import type { ReconnectPolicy, McpReplayPolicy } from './client.options.js';

/** The shortest delay: a server with `retry: 0` that closes every connection is not polled without a pause. */
const SHORTEST_WAIT_MS = 10;
/** A server can ask for no longer wait (`retry:`, `Retry-After`). */
export const LONGEST_WAIT_MS = 10 * 60_000;

/**
 * Returns the milliseconds to wait before an attempt.
 *
 * @param failures counts the attempts in a row without an event; 0 after a connection with one
 * @param askedMs the value of `retry:` or `Retry-After`; the first wait after a good connection is exactly that
 * @param random gives numbers from 0 to below 1
 */
export function delayMs(
  { firstDelayMs, maxDelayMs }: ReconnectPolicy,
  failures: number,
  askedMs: number | undefined,
  random: () => number,
): number {
  const asked = askedMs === undefined ? 0 : Math.max(SHORTEST_WAIT_MS, Math.min(askedMs, LONGEST_WAIT_MS));
  if (failures === 0 && askedMs !== undefined) return asked;
  const longest = Math.min(maxDelayMs, firstDelayMs * 2 ** Math.min(failures, 30));
  return Math.max(asked, Math.round(random() * longest));
}

/** Reads `Retry-After`: seconds, or a date (RFC 9110 §10.2.3). @returns milliseconds from now, or `undefined` */
export function retryAfterMs(header: string | null, now: number): number | undefined {
  if (header === null) return undefined;
  if (/^\s*\d{1,9}\s*$/.test(header)) return Number(header) * 1_000;
  // A date begins with its weekday; `Date.parse` also accepts other texts.
  const date = /^\s*[A-Za-z]{3}/.test(header) ? Date.parse(header) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

/**
 * Returns whether a failed attempt can be repeated (rules C6, C7).
 *
 * @returns `undefined`: the failure is final
 */
export function setbackOf(error: unknown): 'not-run' | 'may-have-run' | undefined {
  if (error instanceof McpHttpStatusError) {
    if ([408, 425, 429, 503].includes(error.status)) return 'not-run';
    return [502, 504].includes(error.status) ? 'may-have-run' : undefined;
  }
  if (!(error instanceof McpClientTransportError) || !REPEATED.has(error.code)) return undefined;
  return error.mayHaveRun ? 'may-have-run' : 'not-run';
}

const REPEATED: ReadonlySet<string> = new Set(['STREAM_LOST', 'SESSION_LOST', 'NO_ANSWER']);

/** With these codes no connection was made: the request did not arrive. */
const NOT_CONNECTED = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/**
 * Converts an error of `fetch` to one of the network.
 *
 * @param place names the server
 * @returns `undefined` for an error of code around `fetch`, which is final
 */
export function networkErrorOf(error: unknown, place: string): McpClientTransportError | undefined {
  if (!(error instanceof Error)) return undefined;
  const codes = codesOf(error);
  const mayHaveRun = !codes.some((code) => NOT_CONNECTED.has(code));
  const broken = error instanceof TypeError || codes.some((code) => /^(?:E[A-Z]+|UND_ERR_\w+|HPE_\w+)$/.test(code));
  if (mayHaveRun && !broken) return undefined;
  const message = `${place} did not answer (${codes[0] ?? error.message}). Is the server running, and is this its address?`;
  return new McpClientTransportError('NO_ANSWER', message, { cause: error }, mayHaveRun);
}

/** Returns the codes of an error and of its causes; several addresses that were tried count as their first. */
function codesOf(error: unknown, depth = 0): string[] {
  if (!(error instanceof Error) || depth === 4) return [];
  const { code, errors, cause } = error as { code?: unknown; errors?: unknown; cause?: unknown };
  const rest = codesOf(Array.isArray(errors) ? errors[0] : cause, depth + 1);
  return typeof code === 'string' ? [code, ...rest] : rest;
}

/** The hints of so many tools are kept. */
const MAX_TOOLS = 10_000;

interface ListedTool {
  name: string;
  annotations?: { idempotentHint?: unknown; readOnlyHint?: unknown };
}

/** Decides which requests may run twice, by method and by the hints of tools. */
export class Idempotency {
  readonly #tools = new Set<string>();

  constructor(private readonly policy: McpReplayPolicy) {}

  /** Stores the hints of an answered `tools/list` (2025-03-26, "Tool annotations"). */
  learn(request: JsonRpcRequest, result: unknown): void {
    if (request.method !== 'tools/list') return;
    const { tools } = result as { tools?: unknown };
    for (const tool of Array.isArray(tools) ? (tools as Partial<ListedTool>[]) : []) {
      if (typeof tool?.name !== 'string') continue;
      const { idempotentHint, readOnlyHint } = tool.annotations ?? {};
      const idempotent = idempotentHint === true || readOnlyHint === true;
      if (!idempotent) this.#tools.delete(tool.name);
      else if (this.#tools.size < MAX_TOOLS) this.#tools.add(tool.name);
    }
  }

  mayReplay(request: JsonRpcRequest): boolean {
    // The listen is not repeated, so that the listener learns that it may have missed changes.
    if (request.method === 'subscriptions/listen') return false;
    if (typeof this.policy === 'function') return this.policy(request);
    if (this.policy !== 'idempotent') return this.policy === 'always';
    const { method, params } = request;
    return method === 'tools/call'
      ? this.#tools.has(params?.['name'] as string)
      : METHODS.get(method)?.repeatable === true;
  }
}
