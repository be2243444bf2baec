import { PROTOCOL_VERSION_META_KEY } from '../core/protocol/era.js';
import { McpError, shown } from '../core/protocol/errors.js';
import {
  LAST_EVENT_ID_HEADER,
  METHOD_HEADER,
  NAME_HEADER,
  PROTOCOL_VERSION_HEADER,
  SESSION_ID_HEADER,
} from '../core/protocol/headers.js';
import type { JsonRpcMessage } from '../core/protocol/json-rpc.js';
import { messagesIn } from './large-messages.js';
import { mirrorHeaders } from '../core/protocol/modern-headers.js';
import { parseAuthChallenge } from './auth-challenge.js';
import {
  McpClientTransportError,
  McpHttpStatusError,
  McpHttpUnauthorizedError,
  McpSessionLostError,
  McpUnexpectedContentError,
} from './client.errors.js';
import type { ResolvedClientOptions } from './client.options.js';
import { closeUnread, mediaTypeOf, readText } from './response-body.js';
import { networkErrorOf, retryAfterMs } from './retry.js';
import { abortable, LinkedAbort } from './waiting.js';

/** So many bytes of an error page are read: enough for a JSON-RPC error. */
const MAX_ERROR_BYTES = 64 * 1024;

/** Maps names of headers in lower case to their values. */
export type HeaderMap = Record<string, string>;

/** The message and the session set these headers; the option `headers` does not override them. */
const OWN = [
  'accept',
  'content-type',
  'content-length',
  'host',
  LAST_EVENT_ID_HEADER,
  SESSION_ID_HEADER,
  PROTOCOL_VERSION_HEADER,
  METHOD_HEADER,
  NAME_HEADER,
];

/** Headers of a single message do not override these either. */
const RESERVED = [...OWN, 'authorization', 'dpop'];

/** The session of a request, as headers; on 2026-07-28 only the revision. */
export interface SessionHeaders {
  readonly sessionId: string | undefined;
  readonly protocolVersion: string | undefined;
}

/**
 * Returns the revision that a message claims for itself by its `_meta`; only 2026-07-28 and later do that.
 *
 * @returns `undefined` for a message of the 2025 revisions
 */
export function claimedRevision(message: JsonRpcMessage): string | undefined {
  const { params } = message as { params?: { _meta?: Record<string, unknown> } };
  const claim = params?._meta?.[PROTOCOL_VERSION_META_KEY];
  return typeof claim === 'string' ? claim : undefined;
}

/**
 * Returns the headers of a POST.
 *
 * @param modern repeats method and name for proxies that route without reading bodies (rule C13)
 * @param extra headers that are sent as they are, such as the `Mcp-Param-*` headers of the SDK's client
 */
export function postHeaders(
  message: JsonRpcMessage,
  session: SessionHeaders,
  modern: boolean,
  extra: object = {},
): HeaderMap {
  const entries = Object.entries(extra as HeaderMap).map(([name, value]) => [name.toLowerCase(), value] as const);
  return {
    ...Object.fromEntries(entries.filter(([name]) => !RESERVED.includes(name))),
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    ...(modern && 'method' in message && mirrorHeaders(message)),
    ...sessionHeaders(session),
  };
}

/** Returns the headers of a GET (2025 revisions only). */
export function getHeaders(session: SessionHeaders, cursor: string | undefined): HeaderMap {
  const from: HeaderMap = cursor === undefined ? {} : { [LAST_EVENT_ID_HEADER]: cursor };
  return { accept: 'text/event-stream', ...sessionHeaders(session), ...from };
}

export function sessionHeaders({ sessionId, protocolVersion }: SessionHeaders): HeaderMap {
  const id: HeaderMap = sessionId === undefined ? {} : { [SESSION_ID_HEADER]: sessionId };
  return protocolVersion === undefined ? id : { ...id, [PROTOCOL_VERSION_HEADER]: protocolVersion };
}

/** One HTTP request to the endpoint. */
export interface EndpointRequest {
  readonly method: 'POST' | 'GET' | 'DELETE';
  readonly headers: HeaderMap;
  readonly body?: string;
  readonly signal: AbortSignal;
  /** Names the request in the error of a timeout, such as `the DELETE of the session`. */
  readonly what?: string;
  /** The response headers must arrive within so many milliseconds. */
  readonly timeoutMs?: number;
}

/**
 * Sends HTTP requests to one MCP endpoint, with credentials, redirects and HTTP errors.
 *
 * It has no session; its only state is a running refresh of the credentials.
 */
export class HttpEndpoint {
  #refreshing: Promise<void> | undefined;
  #refreshes = 0;
  /** Names the URL in error messages, without query and credentials. */
  readonly #place: string;

  constructor(
    readonly url: URL,
    private readonly options: ResolvedClientOptions,
  ) {
    this.#place = `${url.origin}${url.pathname}`;
  }

  /**
   * Sends a request; on 401 and 403 once more, after `onUnauthorized`.
   *
   * @returns a response with a status of 2xx
   * @throws (rejects) McpHttpUnauthorizedError; McpSessionLostError for a 404 in a session; McpHttpStatusError for any other status;
   *   TIMEOUT; NO_ANSWER; what `headers` or `onUnauthorized` throw; the reason of the signal
   */
  async send(request: EndpointRequest): Promise<Response> {
    const { method, headers, what = `the ${method}`, timeoutMs = Infinity } = request;
    const link = new LinkedAbort(this.options.clock, request.signal);
    const { signal } = link;
    link.deadline(timeoutMs, () => this.timeout(what, timeoutMs));
    try {
      const response = await this.#authorized({ ...request, signal });
      if (response.ok) return response;
      const sessionId = headers[SESSION_ID_HEADER];
      if (response.status !== 404 || sessionId === undefined) throw await this.#errorOf(response, method, signal);
      closeUnread(response);
      throw new McpSessionLostError(sessionId, method === 'GET');
    } finally {
      link.release();
    }
  }

  /** Returns the error for a request that was not answered in time. */
  timeout(what: string, ms: number): McpClientTransportError {
    return new McpClientTransportError('TIMEOUT', `${this.#place} did not respond to ${what} within ${ms} ms.`);
  }

  /** Returns the error for a 2xx that is neither JSON nor an event stream. */
  unexpectedContent(response: Response): McpUnexpectedContentError {
    closeUnread(response);
    const type = response.headers.get('content-type');
    const message = `${this.#place} answered with ${type === null ? 'no content type' : shown(type)}, not with "application/json" or "text/event-stream". Is this the URL of an MCP server?`;
    return new McpUnexpectedContentError(message, type);
  }

  /** Reads the messages of a JSON answer. @throws (rejects) McpUnexpectedContentError; what `readText` throws */
  async readJson(response: Response, signal: AbortSignal): Promise<readonly JsonRpcMessage[]> {
    const text = await readText(response, { maxMessageBytes: this.options.maxMessageBytes, signal });
    try {
      return messagesIn(text, this.options);
    } catch (error) {
      if (!(error instanceof McpError)) throw error;
      const message = `${this.#place} answered with a body that is not a JSON-RPC message. ${error.message} Is this an MCP server?`;
      throw new McpUnexpectedContentError(message, mediaTypeOf(response) ?? null, error);
    }
  }

  async #authorized(request: EndpointRequest): Promise<Response> {
    const { method, signal } = request;
    const { onUnauthorized } = this.options;
    const refreshes = this.#refreshes;
    const response = await this.#fetch(request);
    if ((response.status !== 401 && response.status !== 403) || !onUnauthorized) return response;
    const refusal = await this.#errorOf(response, method, signal);
    // The credentials of the refused request were replaced meanwhile: the new ones are tried first.
    if (refreshes === this.#refreshes) {
      this.#refreshing ??= Promise.resolve()
        .then(() => onUnauthorized(refusal as McpHttpUnauthorizedError))
        .then(() => void this.#refreshes++)
        .finally(() => (this.#refreshing = undefined));
      await abortable(this.#refreshing, signal);
    }
    return this.#fetch(request);
  }

  /** Follows one redirect within the origin. Redirects that change the method, or the origin, are errors. */
  async #fetch(request: EndpointRequest, url = this.url): Promise<Response> {
    const { method, headers, body, signal } = request;
    const { headers: source, fetch } = this.options;
    // It is abortable, like `fetch` below: a hanging function of the application must not block `close()`.
    const given = typeof source === 'function' ? await abortable(Promise.resolve().then(source), signal) : source;
    const all = new Headers(given);
    for (const name of OWN) all.delete(name);
    for (const [name, value] of Object.entries(headers)) all.set(name, value);
    const init: RequestInit = { method, headers: all, signal, redirect: 'manual', ...(body !== undefined && { body }) };
    const response = await abortable(fetch(url, init), signal).catch((error: unknown) => {
      signal.throwIfAborted();
      throw networkErrorOf(error, this.#place) ?? error;
    });
    const location = response.headers.get('location');
    if (location === null || ![307, 308].includes(response.status) || url !== this.url) return response;
    const target = URL.canParse(location, url.href) ? new URL(location, url) : url;
    if (target === url || target.origin !== url.origin) return response;
    closeUnread(response);
    return this.#fetch(request, target);
  }

  /** Returns the error for a status other than 2xx. */
  async #errorOf(response: Response, method: string, signal: AbortSignal): Promise<McpHttpStatusError> {
    const { status, statusText, headers } = response;
    // The status is enough: a page that cannot be read is omitted.
    const page = await readText(response, { maxMessageBytes: MAX_ERROR_BYTES, signal }).catch(() => '');
    signal.throwIfAborted();
    const text = page || undefined;
    const outcome = `${method} ${this.#place} was answered with HTTP ${status}${text ? `: ${shown(text)}` : ''}`;
    if (status !== 401 && status !== 403) {
      const after = retryAfterMs(headers.get('retry-after'), this.options.clock.now());
      const advice = adviceFor(status, headers.get('location'));
      return new McpHttpStatusError(`${outcome}. ${advice}`, { status, statusText, text }, after);
    }
    const challenge = parseAuthChallenge(headers.get('www-authenticate'));
    const asking = challenge ? `, asking for ${challenge.scheme}` : '';
    const message = `${outcome}${asking}. Return valid credentials from the option "headers", or refresh them in "onUnauthorized".`;
    return new McpHttpUnauthorizedError(message, { status, statusText, text }, challenge);
  }
}

function adviceFor(status: number, location: string | null): string {
  if (status < 400)
    return `It redirects to ${shown(location ?? undefined)}, which the client does not follow: it sends credentials and session ids to no other URL. Use the final URL.`;
  if (status === 429 || status === 503) return 'The server is busy: try again later.';
  if (status >= 500) return 'The server, or a proxy before it, failed: see its log.';
  return 'Check the URL and what was sent.';
}
