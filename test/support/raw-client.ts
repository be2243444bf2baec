import { send, type RawRequest, type RawResponse, type SseStream } from './http.js';

export const LATEST = '2025-11-25';

/** A client that sends exactly what a test tells it to. */
export class RawClient {
  sessionId: string | undefined;
  protocolVersion: string | undefined;
  #lastId = 0;

  constructor(
    readonly url: string,
    /** Sent with every request, for example credentials. */
    public headers: Record<string, string> = {},
  ) {}

  /** The headers that a well-behaved client sends. */
  get usualHeaders(): Record<string, string> {
    return {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(this.sessionId && { 'mcp-session-id': this.sessionId }),
      ...(this.protocolVersion && { 'mcp-protocol-version': this.protocolVersion }),
      ...this.headers,
    };
  }

  nextId(): number {
    return ++this.#lastId;
  }

  /** Sends messages as they are. */
  post(body: unknown, headers: Record<string, string> = {}, more: RawRequest = {}): Promise<RawResponse> {
    return send(this.url, { method: 'POST', headers: { ...this.usualHeaders, ...headers }, body, ...more });
  }

  async get(lastEventId?: string, headers: Record<string, string> = {}): Promise<RawResponse> {
    const { 'content-type': _, ...usual } = this.usualHeaders;
    const cursor: Record<string, string> = lastEventId === undefined ? {} : { 'last-event-id': lastEventId };
    return send(this.url, { method: 'GET', headers: { ...usual, accept: 'text/event-stream', ...cursor, ...headers } });
  }

  /** Opens the standalone stream and waits for its head. */
  async listen(lastEventId?: string): Promise<SseStream> {
    const response = await this.get(lastEventId);
    if (response.status !== 200) throw new Error(`GET was answered ${response.status}: ${await response.text()}`);
    return response.sse().opened();
  }

  delete(headers: Record<string, string> = {}): Promise<RawResponse> {
    const { 'content-type': _, accept: __, ...usual } = this.usualHeaders;
    return send(this.url, { method: 'DELETE', headers: { ...usual, ...headers } });
  }

  initializeMessage(protocolVersion = LATEST, capabilities: object = {}): object {
    const params = { protocolVersion, capabilities, clientInfo: { name: 'raw', version: '1.0.0' } };
    return { jsonrpc: '2.0', id: this.nextId(), method: 'initialize', params };
  }

  /** Starts a session, and keeps its id and revision. */
  async initialize(protocolVersion: string = LATEST, capabilities: object = {}): Promise<this> {
    const response = await this.post(this.initializeMessage(protocolVersion, capabilities));
    const body = await response.json();
    if (response.status !== 200) throw new Error(`initialize: ${response.status} ${JSON.stringify(body)}`);
    this.sessionId = response.header('mcp-session-id');
    this.protocolVersion = body.result.protocolVersion;
    const initialized = await this.post({ jsonrpc: '2.0', method: 'notifications/initialized' });
    if (initialized.status !== 202) throw new Error(`initialized: ${initialized.status}`);
    await initialized.text();
    return this;
  }

  toolCall(
    name: string,
    args: object = {},
    options: { id?: string | number; progressToken?: string | number } = {},
  ): {
    jsonrpc: '2.0';
    id: string | number;
    method: 'tools/call';
    params: object;
  } {
    const { id = this.nextId(), progressToken } = options;
    const meta = progressToken === undefined ? {} : { _meta: { progressToken } };
    return { jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: args, ...meta } };
  }

  /** Calls a tool; JSON or SSE, as it comes. */
  call(
    name: string,
    args: object = {},
    options: { id?: string | number; progressToken?: string | number } = {},
  ): Promise<RawResponse> {
    return this.post(this.toolCall(name, args, options));
  }

  /** Sends a notification and expects that it is taken. */
  async notify(method: string, params: object = {}): Promise<void> {
    const response = await this.post({ jsonrpc: '2.0', method, params });
    if (response.status !== 202) throw new Error(`${method}: ${response.status} ${await response.text()}`);
    await response.text();
  }

  /** Answers a request of the server. */
  async respond(id: string | number, result: object): Promise<void> {
    const response = await this.post({ jsonrpc: '2.0', id, result });
    if (response.status !== 202) throw new Error(`response: ${response.status} ${await response.text()}`);
    await response.text();
  }
}
