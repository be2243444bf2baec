import type { Transport, TransportSendOptions } from '@modelcontextprotocol/server';
import type { Observable } from 'rxjs';
import {
  isInitializeRequest,
  isRequest,
  isResponse,
  type JsonRpcMessage,
  type JsonRpcNotification,
  type JsonRpcRequest,
  type JsonRpcResponse,
  type RequestId,
} from '../core/protocol/json-rpc.js';
import { ClientConnection } from './client-connection.js';
import { McpClientTransportError, closedError } from './client.errors.js';
import { resolveClientOptions, resolveUrl, type StreamableClientTransportOptions } from './client.options.js';
import {
  ClientSession,
  type McpClientTransportState,
  type McpReconnectEvent,
  type McpRecoveryEvent,
} from './client-session.js';
import { StandaloneStream } from './event-streams.js';
import { claimedRevision, sessionHeaders } from './http-endpoint.js';
import { RequestExchange, sendOneWay } from './request-exchange.js';
import { closeUnread } from './response-body.js';
import { LinkedAbort } from './waiting.js';

/**
 * # The client's side of Streamable HTTP: a `Transport` for the official `Client`
 *
 * Each message is a separate POST ({@link RequestExchange}, {@link sendOneWay}); messages that belong to no request
 * arrive over one GET ({@link StandaloneStream}). {@link ClientSession} holds the session, and the messages that wait
 * for it. A message of 2026-07-28, recognised by its `_meta`, has no session.
 *
 * Invariants: all requests and streams end with the connection's `life`, which `close` aborts; `onclose` is called once; after
 * that no message is delivered, no timer is armed, and no request is open.
 *
 * ```ts
 * const client = new Client({ name: 'me', version: '1.0.0' });
 * await client.connect(new StreamableClientTransport('https://example.com/mcp'));
 * ```
 *
 * @see 2025-11-25 and 2026-07-28, Transports, "Streamable HTTP"
 * @publicApi
 */
export class StreamableClientTransport implements Transport {
  onclose?: Transport['onclose'];
  onerror?: Transport['onerror'];
  onmessage?: Transport['onmessage'];
  /** Closing the response cancels the request on 2026-07-28. */
  readonly hasPerRequestStream = true;

  /** Emits the current state and every later one; completes when the transport is closed. */
  readonly state$: Observable<McpClientTransportState>;
  /** Emits every retry and resumption, before its wait; completes when the transport is closed. */
  readonly reconnects$: Observable<McpReconnectEvent>;
  /** Emits outcomes of recoveries, with the option `recover`; completes when the transport is closed. */
  readonly recoveries$: Observable<McpRecoveryEvent>;
  readonly #connection: ClientConnection;
  readonly #session: ClientSession;
  readonly #exchanges = new Set<RequestExchange>();
  #closing: Promise<void> | undefined;

  /**
   * @param url the URL of the MCP endpoint
   * @throws McpOptionError
   */
  constructor(url: string | URL, options?: StreamableClientTransportOptions) {
    const resolved = resolveClientOptions(options);
    this.#session = new ClientSession(resolved.recover ? (initialize) => this.#restart(initialize) : undefined);
    this.#connection = new ClientConnection(resolveUrl(url), resolved, this.#session, this);
    this.state$ = this.#session.state$;
    this.recoveries$ = this.#session.recoveries$;
    this.reconnects$ = this.#connection.reconnects$.asObservable();
  }

  /** Returns the id of the live session; `undefined` without one. */
  get sessionId(): string | undefined {
    return this.#session.current.sessionId;
  }
  /** Returns the negotiated revision. */
  get protocolVersion(): string | undefined {
    return this.#session.current.protocolVersion;
  }
  get state(): McpClientTransportState {
    return this.#session.state;
  }

  /**
   * Starts the transport; `Client.connect` calls it. It opens no connection, unless a session is continued.
   *
   * @throws (rejects) NOT_CONNECTED when it was started before
   */
  async start(): Promise<void> {
    if (this.#closing) throw closedError();
    if (this.state.is !== 'new') {
      const message = 'The transport was started already. A client calls start() itself when it connects.';
      throw new McpClientTransportError('NOT_CONNECTED', message);
    }
    const { sessionId, protocolVersion } = this.#connection.options;
    this.#session.start({ sessionId, protocolVersion });
    this.#listen();
  }

  /** Takes the negotiated revision from the `Client`. */
  setProtocolVersion(protocolVersion: string): void {
    this.#session.setProtocolVersion(protocolVersion);
  }

  /**
   * Sends a message.
   *
   * @param options `requestSignal` closes the request's response; `headers` are sent as they are; with `resumptionToken` the
   *   answer is fetched from that event on, and nothing is posted
   * @returns settles when a request is answered, and the answer delivered; or when the server has accepted another message
   * @throws (rejects) McpHttpStatusError, McpHttpUnauthorizedError, McpUnexpectedContentError, McpSessionLostError,
   *   McpStreamLostError, McpClientTransportError, or what `fetch`, `headers` and `onUnauthorized` throw. Then only this call
   *   has failed.
   */
  async send(message: JsonRpcMessage, options: TransportSendOptions = {}): Promise<void> {
    if (isRequest(message)) return this.#request(message, options);
    if (isResponse(message)) return sendOneWay(this.#connection, message, options);
    if (message.method === 'notifications/cancelled') return this.#cancel(message, options);
    await sendOneWay(this.#connection, message, options);
    if (message.method === 'notifications/initialized') this.#listen();
  }

  /**
   * Ends the session on the server, then every request, response and timer.
   *
   * @returns settles when all of them have ended; after `closeTimeoutMs` at the latest
   */
  close(): Promise<void> {
    // It ends one turn later, so that an observer of the end may call this method, too.
    return (this.#closing ??= Promise.resolve().then(() => this.#end()));
  }

  async #end(): Promise<void> {
    const { endpoint, life, options, reconnects$ } = this.#connection;
    const { signal } = life;
    const { sessionId, protocolVersion } = this.#session.current;
    const ends = options.terminateOnClose && this.state.is === 'live' && sessionId !== undefined;
    this.#session.close('closing');
    if (ends) {
      const headers = sessionHeaders({ sessionId, protocolVersion });
      // A session that cannot be ended expires.
      const ending = endpoint.send({ method: 'DELETE', headers, signal, timeoutMs: options.closeTimeoutMs });
      await ending.then(closeUnread, () => {});
    }
    try {
      // It is called before the requests end, so that calls fail with the reason of the client.
      this.onclose?.();
    } catch (error) {
      this.#connection.report(error);
    }
    life.abort(closedError());
    this.#session.close('closed');
    reconnects$.complete();
  }

  async #request(request: JsonRpcRequest, options: TransportSendOptions): Promise<void> {
    if (isInitializeRequest(request) && claimedRevision(request) === undefined) this.#session.begin();
    const {
      options: { instrumentation },
      endpoint: { url },
    } = this.#connection;
    const run = async (): Promise<JsonRpcResponse> => {
      const exchange = new RequestExchange(this.#connection, this.#withMeta(request), options);
      this.#exchanges.add(exchange);
      return exchange.run().finally(() => this.#exchanges.delete(exchange));
    };
    if (!instrumentation) return void (await run());
    const { sessionId, protocolVersion } = this;
    await instrumentation.request({ message: request, url, sessionId, protocolVersion }, run);
  }

  #withMeta(request: JsonRpcRequest): JsonRpcRequest {
    const meta = this.#connection.options.requestMeta?.(request);
    if (!meta || Object.keys(meta).length === 0) return request;
    return { ...request, params: { ...request.params, _meta: { ...meta, ...request.params?._meta } } };
  }

  /** Cancels a request: one that was not sent yet is dropped; another is cancelled under its id on the wire. */
  async #cancel(message: JsonRpcNotification, options: TransportSendOptions): Promise<void> {
    const { requestId } = (message.params ?? {}) as { requestId?: RequestId };
    const exchange = [...this.#exchanges].find(({ request }) => request.id === requestId);
    const wireId = exchange ? exchange.wireId : requestId;
    exchange?.cancel();
    if (wireId === undefined) return;
    const params = { ...message.params, requestId: wireId };
    await sendOneWay(this.#connection, { ...message, params }, options);
  }

  /** Opens the standalone stream. */
  #listen(): void {
    const { options, life } = this.#connection;
    if (!options.standaloneStream || this.state.is !== 'live') return;
    const link = new LinkedAbort(options.clock, life.signal, this.#session.current.lost);
    new StandaloneStream(this.#connection)
      .run(link.signal)
      .catch((error: unknown) => void (link.signal.aborted || this.#connection.report(error)))
      .finally(() => link.release());
  }

  /** Begins a new session with the `initialize` of the lost one; the client does not get the answer. */
  async #restart(initialize: JsonRpcRequest): Promise<void> {
    let answer: JsonRpcResponse | undefined;
    await new RequestExchange(this.#connection, initialize, {}, (given) => (answer = given)).run();
    if (answer && 'error' in answer) throw new Error(answer.error.message);
    await this.send({ jsonrpc: '2.0', method: 'notifications/initialized' });
  }
}
