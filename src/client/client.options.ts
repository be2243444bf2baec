import { type McpClock, systemClock } from '../core/common/clock.js';
import {
  contract,
  count,
  flag,
  functionOf,
  group,
  McpOptionError,
  object,
  oneOf,
  option,
  type OptionTable,
  required,
  type Resolved,
  resolveOptions,
  text,
  timer,
} from '../core/common/options.js';
import type { JsonRpcRequest, JsonRpcResponse } from '../core/protocol/json-rpc.js';
import { shown } from '../core/protocol/errors.js';
import type { McpHttpUnauthorizedError } from './client.errors.js';

/** A `fetch` that is called with the URL of the endpoint. @publicApi */
export type McpFetchLike = (url: string | URL, init?: RequestInit) => Promise<Response>;

/** Provides headers for one HTTP request. @publicApi */
export type McpHeadersSource =
  | Readonly<Record<string, string>>
  | (() => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>);

/** Decides which requests may be sent once more. @publicApi */
export type McpReplayPolicy = 'never' | 'idempotent' | 'always' | ((request: JsonRpcRequest) => boolean);

/** Configures a {@link StreamableClientTransport}. @publicApi */
export interface StreamableClientTransportOptions {
  /**
   * Sends the requests: a `fetch` with a proxy, with tracing, or wrapped by the SDK's `withOAuth`. Redirects are followed
   * within the origin only.
   *
   * @default the global fetch
   */
  fetch?: McpFetchLike;
  /**
   * Provides headers for every request, such as `Authorization`. A function is called before each request, so that it
   * can return a fresh token. The headers do not override those of the protocol.
   *
   * @default {}
   */
  headers?: McpHeadersSource;
  /**
   * Gets new credentials after a 401 or 403. When it has returned, the request is sent once more, with fresh `headers`.
   * Requests that are refused at the same time share one call of this function. Throw to give up. Without this option,
   * such a request fails at once.
   *
   * @default none
   * @see RFC 6750 §3
   */
  onUnauthorized?: (error: McpHttpUnauthorizedError) => void | Promise<void>;
  /**
   * Returns fields for the `_meta` of each request, such as a trace context from `traceContextMeta` of
   * `nestjs-mcp-streamable/otel`. They do not override the fields of the caller. The function is called once per
   * request, in the async context of its caller.
   *
   * @default none
   */
  requestMeta?: (request: JsonRpcRequest) => Readonly<Record<string, unknown>>;
  /**
   * Observes each request, such as `OtelClientInstrumentation` of `nestjs-mcp-streamable/otel`.
   *
   * @default none
   */
  instrumentation?: McpClientInstrumentation;
  /**
   * Names a session to continue instead of starting one (2025 revisions). `Client.connect` then skips `initialize`.
   *
   * @default none
   */
  sessionId?: string;
  /**
   * Names the revision that was negotiated for `sessionId`.
   *
   * @default none: the server assumes the one it negotiated
   */
  protocolVersion?: string;
  /**
   * Decides whether the transport keeps a GET open for messages that belong to no request, such as `list_changed` (2025
   * revisions). With `false` the client does not receive these messages.
   *
   * @default true
   */
  standaloneStream?: boolean;
  /**
   * Decides whether `close()` ends the session on the server (DELETE). With `false` another transport can continue the
   * session with `sessionId`.
   *
   * @default true
   */
  terminateOnClose?: boolean;
  /** Sets delays and numbers of attempts, for calls and for the standalone stream. */
  reconnect?: McpReconnectOptions;
  /**
   * Decides whether the transport starts a new session when the server no longer knows this one: it repeats
   * `initialize`, then the requests in flight as far as `replay` allows. State of the old session on the server (log
   * level, resource subscriptions) is lost: set it again when `recoveries$` emits.
   *
   * @default false
   */
  recover?: boolean;
  /**
   * Decides which requests may be sent once more if the transport cannot know whether the server carried them out.
   * `'idempotent'` allows it for tools with `idempotentHint` or `readOnlyHint` in `tools/list`; `'always'` is for
   * servers whose tools may all run twice. Requests that were certainly not carried out (429, 503, no connection, an
   * unknown session) are always repeated.
   *
   * @default 'idempotent'
   */
  replay?: McpReplayPolicy;
  /**
   * Sets the milliseconds without a byte after which a response that can be resumed is closed and resumed. Choose more
   * than the keep-alive period of the server; otherwise every silent stream is resumed repeatedly. Responses that
   * cannot be resumed are never closed.
   *
   * @default 120000
   */
  silenceMs?: number;
  /**
   * Limits the milliseconds in which the response headers of a GET must arrive, and those of a POST with an answer to
   * the server. A notification must be accepted in the same time, repetitions included. Requests have the timeout of
   * their caller instead.
   *
   * @default 30000
   */
  openTimeoutMs?: number;
  /** Limits the milliseconds that `close()` waits for the server to confirm the end of the session. @default 2000 */
  closeTimeoutMs?: number;
  /**
   * Limits one message of the server, in bytes, and a list with all its pages. A higher limit lets a server make this process
   * buffer more.
   *
   * @default 33554432 (32 MiB)
   */
  maxMessageBytes?: number;
  /**
   * Limits the values in one message of the server: items of lists and members of objects; an empty list or object counts
   * once more. They are counted before the message is parsed; those of a list in all its pages together. A higher value lets a
   * server make this process use more time and memory.
   *
   * @default 500000
   */
  maxMessageValues?: number;
  /** All timers use this clock. @default the system clock */
  clock?: McpClock;
  /** Returns random numbers from 0 to below 1, for the waits. @default Math.random */
  random?: () => number;
}

/** A request of a client that is about to be sent. @publicApi */
export interface McpClientRequest {
  /** The request of the caller, without the fields that `requestMeta` adds. */
  readonly message: JsonRpcRequest;
  readonly url: URL;
  /** The id of the session; `undefined` without a session, and before it is known. */
  readonly sessionId: string | undefined;
  /** The negotiated revision; `undefined` before it is negotiated. */
  readonly protocolVersion: string | undefined;
}

/** Observes the requests of a client. The option `instrumentation` takes it. @publicApi */
export interface McpClientInstrumentation {
  /**
   * Runs around each request, `requestMeta` and all attempts included.
   *
   * @param run sends the request; call it once, synchronously. Settles with the answer, or rejects with the reason why there is
   *   none
   * @returns what `run` returns
   */
  request(request: McpClientRequest, run: () => Promise<JsonRpcResponse>): Promise<JsonRpcResponse>;
}

/** Sets delays and numbers of attempts. @publicApi */
export interface McpReconnectOptions {
  /**
   * Limits the first delay, in milliseconds. The limit doubles with each attempt without an event; each delay is a
   * random part of it ("full jitter"), so that the clients of a restarted server do not reconnect at the same time.
   * `retry:` and `Retry-After` of the server are the minimum.
   *
   * @default 500
   */
  firstDelayMs?: number;
  /** Limits the delay in milliseconds, unless the server asks for a longer one. @default 30000 */
  maxDelayMs?: number;
  /**
   * Limits the attempts in a row without an event; then the call fails. The standalone stream never gives up.
   *
   * @default 8
   */
  maxAttempts?: number;
}

const RECONNECT_TABLE = {
  firstDelayMs: timer(500),
  maxDelayMs: timer(30_000),
  maxAttempts: count(8),
} satisfies OptionTable<McpReconnectOptions>;

export type ReconnectPolicy = Resolved<typeof RECONNECT_TABLE>;

export const TRANSPORT_TABLE = {
  // The globals are looked up at each use, so that a later replacement takes effect.
  fetch: functionOf((url: string | URL, init?: RequestInit) => globalThis.fetch(url, init)),
  headers: option({}, headersOf),
  onUnauthorized: functionOf(undefined),
  requestMeta: functionOf(undefined),
  instrumentation: contract(undefined, ['request']),
  sessionId: text(undefined),
  protocolVersion: text(undefined),
  standaloneStream: flag(true),
  terminateOnClose: flag(true),
  reconnect: group({}, RECONNECT_TABLE),
  recover: flag(false),
  replay: option('idempotent', replayOf),
  silenceMs: timer(120_000, { infinite: true }),
  openTimeoutMs: timer(30_000),
  closeTimeoutMs: timer(2_000),
  maxMessageBytes: count(32 * 1024 ** 2),
  maxMessageValues: count(500_000),
  clock: contract(systemClock, ['now', 'setTimeout', 'setInterval', 'clear']),
  random: functionOf(() => Math.random()),
} satisfies OptionTable<StreamableClientTransportOptions>;

export type ResolvedClientOptions = Resolved<typeof TRANSPORT_TABLE>;

/** Validates the options and adds defaults. @throws McpOptionError */
export function resolveClientOptions(options: StreamableClientTransportOptions = {}): ResolvedClientOptions {
  return resolveOptions(TRANSPORT_TABLE, options);
}

function headersOf(given: McpHeadersSource, name: string): McpHeadersSource {
  return typeof given === 'function' ? given : object<Readonly<Record<string, string>>>(required)(given, name);
}

function replayOf(given: McpReplayPolicy, name: string): McpReplayPolicy {
  return typeof given === 'function' ? given : oneOf(required, ['never', 'idempotent', 'always'])(given, name);
}

/** Validates a URL. @throws McpOptionError */
export function resolveUrl(url: string | URL): URL {
  const parsed = URL.canParse(String(url)) ? new URL(url) : undefined;
  if (parsed && /^https?:$/.test(parsed.protocol)) return parsed;
  const message = `The option "url" must be the http or https URL of an MCP endpoint; got ${shown(url)}.`;
  throw new McpOptionError('url', message);
}
