import { McpError } from '../wire/errors.js';
import { readMessages, type JsonRpcErrorResponse, type JsonRpcMessage, type RequestId } from '../wire/json-rpc.js';
import { parseAuthChallenge } from './auth-challenge.js';
import { abortable, retryAfterMs } from './backoff.js';
import { HttpStatusError, HttpUnauthorizedError, UnexpectedContentError } from './client.errors.js';
import { clientMessages } from './client.messages.js';
import type { ResolvedClientOptions } from './client.options.js';
import { allHeaders, type HeaderMap } from './request-headers.js';
import { discard, mediaTypeOf, readText } from './response-body.js';

/** Bytes of an error page that are read: enough for a JSON-RPC error. */
const MAX_ERROR_BYTES = 64 * 1024;
/** Redirects within the origin that are followed for one request. */
const MAX_REDIRECTS = 3;

type UnauthorizedHook = NonNullable<ResolvedClientOptions['onUnauthorized']>;

/** One HTTP request to the endpoint. */
export interface EndpointRequest {
  readonly method: 'POST' | 'GET' | 'DELETE';
  readonly headers: HeaderMap;
  readonly body?: string;
  readonly signal: AbortSignal;
}

/**
 * Speaks HTTP with one MCP endpoint: credentials, redirects, and what HTTP errors mean.
 *
 * Holds no session, and nothing between requests but the refreshing of credentials that is under way.
 */
export class HttpEndpoint {
  #refreshing: Promise<void> | undefined;
  #refreshes = 0;

  constructor(
    private readonly url: URL,
    private readonly options: ResolvedClientOptions,
  ) {}

  /** The URL as messages show it: neither a query nor credentials. */
  get place(): string {
    return `${this.url.origin}${this.url.pathname}`;
  }

  /**
   * Sends a request; on 401 and 403 once more, after `onUnauthorized`.
   *
   * @returns the response, whatever its status, except 401, 403 and redirects
   * @throws (rejects) HttpUnauthorizedError; HttpStatusError for a redirect that is not followed; what `fetch`, `headers`
   *   or `onUnauthorized` throw; the reason of the signal
   */
  async send(request: EndpointRequest): Promise<Response> {
    const refreshes = this.#refreshes;
    const first = await this.#fetch(request);
    if (!isRefusal(first)) return first;
    const refusal = await this.#refusalOf(first, request.signal);
    const { onUnauthorized } = this.options;
    if (!onUnauthorized) throw refusal;
    // Sent with what has been replaced since: the present credentials have not been tried.
    if (refreshes === this.#refreshes) await abortable(this.#refresh(onUnauthorized, refusal), request.signal);
    const second = await this.#fetch(request);
    if (isRefusal(second)) throw await this.#refusalOf(second, request.signal);
    return second;
  }

  #refresh(onUnauthorized: UnauthorizedHook, refusal: HttpUnauthorizedError): Promise<void> {
    this.#refreshing ??= Promise.resolve()
      .then(() => onUnauthorized(refusal))
      .then(() => void this.#refreshes++)
      .finally(() => (this.#refreshing = undefined));
    return this.#refreshing;
  }

  /** What a response other than 2xx says. Reads the body. */
  async errorOf(response: Response, method: string, signal: AbortSignal): Promise<HttpStatusError> {
    const { status, statusText } = response;
    const text = await this.#errorText(response, signal);
    const after = retryAfterMs(response.headers.get('retry-after'), this.options.clock.now());
    const message = clientMessages.status(method, this.place, status, text);
    return new HttpStatusError(message, { status, statusText, text }, after);
  }

  /** That a 2xx has neither JSON nor events. */
  unexpectedContent(response: Response, method: string): UnexpectedContentError {
    discard(response);
    const type = response.headers.get('content-type');
    return new UnexpectedContentError(clientMessages.unexpectedContent(method, this.place, type), type);
  }

  /** The messages of a JSON answer. @throws (rejects) UnexpectedContentError */
  async readJson(response: Response, signal: AbortSignal): Promise<readonly JsonRpcMessage[]> {
    const text = await readText(response, { ...this.options, signal });
    try {
      return readMessages(text).messages;
    } catch (error) {
      if (!(error instanceof McpError)) throw error;
      throw new UnexpectedContentError(clientMessages.notJson(this.place), mediaTypeOf(response) ?? null, error);
    }
  }

  async #fetch({ method, headers, body, signal }: EndpointRequest): Promise<Response> {
    const { headers: source, fetch } = this.options;
    // A callback may hang; `close()` must not.
    const given = typeof source === 'function' ? await abortable(Promise.resolve().then(source), signal) : source;
    const all = allHeaders(given, headers);
    let url = this.url;
    for (let hops = 0; ; hops++) {
      const init: RequestInit = { method, headers: all, signal, redirect: 'manual' };
      const response = await abortable(fetch(url, body === undefined ? init : { ...init, body }), signal);
      const target = redirectOf(response, url, method);
      if (target === undefined) return response;
      discard(response);
      if (target.origin !== this.url.origin || hops >= MAX_REDIRECTS) {
        const message = clientMessages.redirected(this.place, response.headers.get('location'));
        throw new HttpStatusError(message, { status: response.status, statusText: response.statusText });
      }
      url = target;
    }
  }

  async #refusalOf(response: Response, signal: AbortSignal): Promise<HttpUnauthorizedError> {
    const { status, statusText } = response;
    const challenge = parseAuthChallenge(response.headers.get('www-authenticate'));
    const text = await this.#errorText(response, signal);
    const message = clientMessages.unauthorized(this.place, status, challenge?.scheme);
    return new HttpUnauthorizedError(message, { status, statusText, text }, challenge);
  }

  /** Never the reason for another error: a page that cannot be read is none. */
  async #errorText(response: Response, signal: AbortSignal): Promise<string | undefined> {
    const limits = { clock: this.options.clock, maxMessageBytes: MAX_ERROR_BYTES, signal };
    const text = await readText(response, limits).catch(() => undefined);
    signal.throwIfAborted();
    return text === '' ? undefined : text;
  }
}

/**
 * The JSON-RPC error that an error page is, if it is one (behaviour.md C9).
 *
 * @param text the page
 * @param id of the request that was sent; the page may also carry none, or `null`
 */
export function rpcErrorOf(text: string | undefined, id: RequestId): JsonRpcErrorResponse | undefined {
  if (text === undefined) return undefined;
  try {
    const { jsonrpc, id: said, error } = JSON.parse(text) as Partial<JsonRpcErrorResponse>;
    const sound = jsonrpc === '2.0' && typeof error?.code === 'number' && typeof error.message === 'string';
    return sound && (said === undefined || said === null || said === id) ? { jsonrpc, id, error } : undefined;
  } catch {
    return undefined;
  }
}

const isRefusal = ({ status }: Response): boolean => status === 401 || status === 403;

/** 301 to 303 would make a GET of a POST: for those there is no good target. */
function redirectOf(response: Response, from: URL, method: string): URL | undefined {
  const { status, headers } = response;
  if (status < 300 || status >= 400 || status === 304) return undefined;
  const location = headers.get('location');
  const keepsMethod = status === 307 || status === 308 || method === 'GET';
  if (location !== null && keepsMethod && URL.canParse(location, from.href)) return new URL(location, from);
  // Not followed: another origin stands for "nowhere".
  return new URL('about:blank');
}
