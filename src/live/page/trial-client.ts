import { EventSourceParserStream } from 'eventsource-parser/stream';

/*
 * A client of an endpoint, in the browser: what Try it calls with. It sends what the official clients send; the endpoint's own rules
 * and guards decide, as for any client.
 */

export type Revision = '2026-07-28' | '2025-11-25';
export const MODERN: Revision = '2026-07-28';

type Params = Readonly<Record<string, unknown>>;

interface Message {
  readonly id?: number | string;
  readonly method?: string;
  readonly params?: Params;
  readonly result?: Params;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown };
}

export interface TrialRequest {
  readonly method: 'tools/call' | 'resources/read' | 'prompts/get';
  readonly params: Params;
  /** The headers that repeat arguments. */
  readonly headers?: Readonly<Record<string, string>>;
}

export interface TrialEvents {
  notified(method: string, params: Params): void;
  /** @returns the result that the user gives. @throws (rejects) if there is none: the server gets an error */
  asked(method: string, params: Params): Promise<object>;
}

export class TrialError extends Error {
  /** The code of a JSON-RPC error. */
  readonly code: number | undefined;
  readonly data: unknown;
  /** The HTTP status, if it is that of a refusal. */
  readonly status: number | undefined;
  /** The header `Retry-After` of a refusal. */
  readonly retryAfter: string | undefined;

  constructor(message: string, { code, data, status, retryAfter }: Partial<TrialError> = {}) {
    super(message);
    this.code = code;
    this.data = data;
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

const CLIENT = { name: 'live-page', version: '1.0.0' };
const CAPABILITIES = { elicitation: { form: {}, url: {} }, sampling: {} };
const MOST_ROUNDS = 20;
const MOST_RESUMPTIONS = 50;
const NAMED_BY = { 'tools/call': 'name', 'prompts/get': 'name', 'resources/read': 'uri' } as const;

/** One client, of one revision, with the credentials of the user. A legacy one has a session once it has called. */
export class TrialClient {
  #lastId = 0;
  #session: string | undefined;
  #initialized = false;

  constructor(
    private readonly url: string,
    private readonly revision: Revision,
    private readonly token: string,
  ) {}

  /** @throws (rejects) TrialError, or an AbortError when `signal` has aborted */
  async call(request: TrialRequest, events: TrialEvents, signal: AbortSignal): Promise<Params> {
    return this.revision === MODERN
      ? this.#callModern(request, events, signal)
      : this.#callLegacy(request, events, signal);
  }

  /** Ends the session, if there is one. */
  close(): void {
    if (this.#session === undefined) return;
    const headers = this.#headers({});
    void fetch(this.url, { method: 'DELETE', headers, keepalive: true }).catch(() => {});
    this.#session = undefined;
    this.#initialized = false;
  }

  async #callModern(request: TrialRequest, events: TrialEvents, signal: AbortSignal): Promise<Params> {
    const { method, params } = request;
    let more: Params = {};
    for (let round = 0; round < MOST_ROUNDS; round++) {
      const id = ++this.#lastId;
      const message = modernMessage(id, { ...request, params: { ...params, ...more } });
      const headers = this.#headers(modernHeaders(request));
      const result = await this.#exchange({ id, message, headers }, events, signal);
      if (result['resultType'] !== 'input_required') return result;
      const asked = Object.entries((result['inputRequests'] ?? {}) as Record<string, Message>);
      const inputResponses: Record<string, object> = {};
      for (const [key, { method: question = '', params: about = {} }] of asked) {
        inputResponses[key] = await events.asked(question, about);
        signal.throwIfAborted();
      }
      const { requestState } = result;
      more = { inputResponses, ...(requestState !== undefined && { requestState }) };
    }
    throw new TrialError(`The server asked ${MOST_ROUNDS} times in a row. ${method} was given up.`);
  }

  async #callLegacy(request: TrialRequest, events: TrialEvents, signal: AbortSignal): Promise<Params> {
    await this.#initialize(events, signal);
    const id = ++this.#lastId;
    const cancel = () => {
      const params = { requestId: id, reason: 'Cancelled on the live page.' };
      void this.#post({ jsonrpc: '2.0', method: 'notifications/cancelled', params }).catch(() => {});
    };
    signal.addEventListener('abort', cancel, { once: true });
    try {
      return await this.#exchange(
        { id, message: legacyMessage(id, request), headers: this.#headers({}) },
        events,
        signal,
      );
    } catch (error) {
      // The session has ended: the next call begins another one.
      if (error instanceof SessionGone) this.#initialized = false;
      throw error;
    } finally {
      signal.removeEventListener('abort', cancel);
    }
  }

  async #initialize(events: TrialEvents, signal: AbortSignal): Promise<void> {
    if (this.#initialized) return;
    this.#session = undefined;
    const id = ++this.#lastId;
    const params = { protocolVersion: this.revision, capabilities: CAPABILITIES, clientInfo: CLIENT };
    const message = { jsonrpc: '2.0', id, method: 'initialize', params };
    await this.#exchange({ id, message, headers: this.#headers({}) }, events, signal);
    this.#initialized = true;
    await this.#post({ jsonrpc: '2.0', method: 'notifications/initialized' });
  }

  /** Sends a request, and reads its response until there is an answer. */
  async #exchange({ id, message, headers }: Sent, events: TrialEvents, signal: AbortSignal): Promise<Params> {
    const post = { method: 'POST', headers, body: JSON.stringify(message), signal };
    let response = await fetched(this.url, post);
    this.#session = response.headers.get('mcp-session-id') ?? this.#session;
    for (let attempt = 0; attempt < MOST_RESUMPTIONS; attempt++) {
      const type = response.headers.get('content-type') ?? '';
      if (!type.startsWith('text/event-stream')) {
        return answerOf(await textOf(response), response, this.#session !== undefined);
      }
      const read = await this.#read(response, id, events);
      if ('answer' in read) return read.answer;
      if (read.lastEventId === undefined) break;
      // The stream ended before the answer: the client comes back, as 2025-11-25 has it.
      await new Promise((resolve) => {
        setTimeout(resolve, read.retryMs);
      });
      const resumed = this.#headers({ 'last-event-id': read.lastEventId, accept: 'text/event-stream' });
      response = await fetched(this.url, { headers: resumed, signal });
    }
    throw new TrialError('The stream ended before there was an answer.');
  }

  async #read(response: Response, id: number, events: TrialEvents): Promise<Read> {
    let lastEventId: string | undefined;
    let retryMs = 1_000;
    const onRetry = (ms: number) => {
      retryMs = ms;
    };
    const messages = response
      .body!.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)
      .pipeThrough(new EventSourceParserStream({ onRetry }));
    for await (const event of messages) {
      lastEventId = event.id ?? lastEventId;
      if (event.data === '') continue;
      const message = JSON.parse(event.data) as Message;
      if (message.method === undefined && message.id === id) return { answer: resultOf(message) };
      if (message.method !== undefined && message.id !== undefined) void this.#answer(message, events);
      else if (message.method !== undefined) events.notified(message.method, message.params ?? {});
    }
    return { lastEventId, retryMs };
  }

  /** Answers a request of the server. */
  async #answer({ id, method = '', params = {} }: Message, events: TrialEvents): Promise<void> {
    let answer: object;
    try {
      answer = { result: await resultFor(method, params, events) };
    } catch (error) {
      answer = { error: { code: -1, message: error instanceof Error ? error.message : 'The user did not answer.' } };
    }
    await this.#post({ jsonrpc: '2.0', id, ...answer }).catch(() => {});
  }

  async #post(message: object): Promise<void> {
    const response = await fetch(this.url, {
      method: 'POST',
      headers: this.#headers({}),
      body: JSON.stringify(message),
    });
    await response.body?.cancel();
  }

  #headers(more: Readonly<Record<string, string>>): Record<string, string> {
    return {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(this.#session !== undefined && { 'mcp-session-id': this.#session }),
      ...(this.#initialized && { 'mcp-protocol-version': this.revision }),
      ...(this.token !== '' && { authorization: `Bearer ${this.token}` }),
      ...more,
    };
  }
}

interface Sent {
  readonly id: number;
  readonly message: object;
  readonly headers: Record<string, string>;
}

type Read = { readonly answer: Params } | { readonly lastEventId: string | undefined; readonly retryMs: number };

class SessionGone extends TrialError {}

async function resultFor(method: string, params: Params, events: TrialEvents): Promise<object> {
  if (method === 'ping') return {};
  if (method === 'roots/list') return { roots: [] };
  return events.asked(method, params);
}

async function fetched(url: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new TrialError('The endpoint cannot be reached.');
  }
}

async function textOf(response: Response): Promise<Message | string> {
  const text = await response.text();
  try {
    return JSON.parse(text) as Message;
  } catch {
    return text;
  }
}

function answerOf(body: Message | string, response: Response, inSession: boolean): Params {
  if (response.ok && typeof body === 'object' && (body.result || body.error)) return resultOf(body);
  throw refusalOf(body, response, inSession);
}

/** Makes the error of a refused request: what the endpoint says, or a guard or filter of the app, or a proxy before it. */
function refusalOf(body: Message | string, { status, headers }: Response, inSession: boolean): TrialError {
  const { error, message } = typeof body === 'object' ? (body as Message & { message?: unknown }) : {};
  const { code, message: said = textOfBody(message ?? body), data } = typeof error === 'object' ? error : {};
  const retryAfter = headers.get('retry-after') ?? undefined;
  const more = { code, data: data ?? headers.get('www-authenticate') ?? undefined, status, retryAfter };
  if (inSession && status === 404) return new SessionGone(`${said} Call once more to begin a new session.`, more);
  return new TrialError(status === 401 ? `${said} Give a bearer token above.` : said, more);
}

function textOfBody(body: unknown): string {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return text.trim() === '' ? 'The answer has no text.' : text.slice(0, 500);
}

function resultOf({ result, error }: Message): Params {
  if (error) throw new TrialError(error.message, error);
  return result ?? {};
}

/* ---- what is sent ------------------------------------------------------------------------------------------------ */

export function legacyMessage(id: number, { method, params }: TrialRequest): object {
  return { jsonrpc: '2.0', id, method, params: { ...params, _meta: { progressToken: id } } };
}

export function initializeMessage(): object {
  const params = { protocolVersion: '2025-11-25', capabilities: CAPABILITIES, clientInfo: CLIENT };
  return { jsonrpc: '2.0', id: 1, method: 'initialize', params };
}

export function modernMessage(id: number, { method, params }: TrialRequest): object {
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': MODERN,
    'io.modelcontextprotocol/clientInfo': CLIENT,
    'io.modelcontextprotocol/clientCapabilities': CAPABILITIES,
    'io.modelcontextprotocol/logLevel': 'debug',
    progressToken: id,
  };
  return { jsonrpc: '2.0', id, method, params: { ...params, _meta } };
}

export function modernHeaders({ method, params, headers = {} }: TrialRequest): Record<string, string> {
  return {
    'mcp-protocol-version': MODERN,
    'mcp-method': method,
    'mcp-name': headerValue(String(params[NAMED_BY[method]])),
    ...headers,
  };
}

/** Returns a text as the value of a header; what a header cannot hold is encoded, as 2026-07-28 has it. */
export function headerValue(text: string): string {
  if (/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !/^=\?base64\?.*\?=$/.test(text)) return text;
  const bytes = new TextEncoder().encode(text);
  return `=?base64?${btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''))}?=`;
}

/** Returns the headers that repeat arguments whose schema has `x-mcp-header`. */
export function mirrored(schema: unknown, args: unknown): Record<string, string> {
  const { properties = {} } = (schema ?? {}) as { properties?: Record<string, unknown> };
  const found: Record<string, string> = {};
  for (const [name, each] of Object.entries(properties)) {
    const value = (args as Params | undefined)?.[name];
    const header = (each as Params)['x-mcp-header'];
    if (value === undefined || value === null) continue;
    if (typeof header === 'string')
      found[`mcp-param-${header.toLowerCase()}`] = headerValue(
        typeof value === 'string' ? value : JSON.stringify(value),
      );
    else if (typeof value === 'object' && !Array.isArray(value)) Object.assign(found, mirrored(each, value));
  }
  return found;
}
