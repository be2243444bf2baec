import { send, type RawRequest, type RawResponse, type SseStream } from './http.js';

export interface ModernRequest {
  id?: string | number;
  /** Beside the three standard ones. */
  meta?: Record<string, unknown>;
  capabilities?: object;
  /** Instead of the right ones; `undefined` leaves one out. */
  headers?: Record<string, string | undefined>;
  progressToken?: string | number;
  logLevel?: string;
}

const NAMED_BY: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
};

/** A client of revision 2026-07-28 that sends what a test tells it to, with the headers that belong to it. */
export class ModernClient {
  #lastId = 0;

  constructor(
    readonly url: string,
    /** Sent with every request, for example credentials. */
    public headers: Record<string, string> = {},
  ) {}

  message(method: string, params: Record<string, unknown> = {}, options: ModernRequest = {}): ModernMessage {
    const { id = ++this.#lastId, meta = {}, capabilities, progressToken, logLevel } = options;
    const _meta = {
      ...modernMeta(),
      ...(capabilities && { 'io.modelcontextprotocol/clientCapabilities': capabilities }),
      ...(progressToken !== undefined && { progressToken }),
      ...(logLevel !== undefined && { 'io.modelcontextprotocol/logLevel': logLevel }),
      ...meta,
    };
    return { jsonrpc: '2.0', id, method, params: { ...params, _meta } };
  }

  /** The headers that a well-behaved client sends with a message. */
  headersOf({ method, params }: ModernMessage): Record<string, string> {
    const field = NAMED_BY[method];
    const name = field && params[field];
    return {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': MODERN,
      'mcp-method': method,
      ...(typeof name === 'string' && { 'mcp-name': name }),
      ...this.headers,
    };
  }

  request(method: string, params: Record<string, unknown> = {}, options: ModernRequest = {}): Promise<RawResponse> {
    const message = this.message(method, params, options);
    const headers = { ...this.headersOf(message), ...options.headers };
    return this.post(message, defined(headers));
  }

  /** Sends a body with just these headers. */
  post(body: unknown, headers: Record<string, string>, more: RawRequest = {}): Promise<RawResponse> {
    return send(this.url, { method: 'POST', headers, body, ...more });
  }

  /** Sends a request and reads its answer. */
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
  async ask(method: string, params: Record<string, unknown> = {}, options: ModernRequest = {}): Promise<any> {
    const response = await this.request(method, params, options);
    const type = response.header('content-type') ?? '';
    if (!type.startsWith('text/event-stream')) return response.json();
    const stream = response.sse();
    await stream.end();
    return stream.messages.at(-1);
  }

  /** Calls a tool; JSON or SSE, as it comes. */
  call(name: string, args: object = {}, options: ModernRequest = {}): Promise<RawResponse> {
    return this.request('tools/call', { name, arguments: args }, options);
  }

  /** Opens a subscription, and waits for its acknowledgement. */
  async listen(notifications: object, options: ModernRequest = {}): Promise<SseStream> {
    const response = await this.request('subscriptions/listen', { notifications }, options);
    if (response.status !== 200) throw new Error(`listen: ${response.status} ${await response.text()}`);
    return response.sse().count(1);
  }
}

export interface ModernMessage {
  jsonrpc: '2.0';
  id: string | number;
  method: string;
  params: Record<string, unknown>;
}

function defined(headers: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== undefined)) as Record<
    string,
    string
  >;
}

export const MODERN = '2026-07-28';
const PROTOCOL_VERSION = 'io.modelcontextprotocol/protocolVersion';

/** The `_meta` with which a message claims to be modern. */
export function modernMeta(version: unknown = MODERN): object {
  return {
    [PROTOCOL_VERSION]: version,
    'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1.0.0' },
    'io.modelcontextprotocol/clientCapabilities': {},
  };
}
