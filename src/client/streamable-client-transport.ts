import type { Transport, TransportSendOptions } from '@modelcontextprotocol/server';
import { type Observable, Subject } from 'rxjs';
import { deferred, within } from '../common/promises.js';
import {
  isInitializeRequest,
  isRequest,
  isResponse,
  type JsonRpcMessage,
  type JsonRpcNotification,
  type JsonRpcRequest,
  type JsonRpcResponse,
  type RequestId,
} from '../wire/json-rpc.js';
import { ClientSession } from './client-session.js';
import type { ClientTransportState, ReconnectEvent, RecoveryEvent } from './client-state.js';
import { ClientTransportError } from './client.errors.js';
import { clientMessages } from './client.messages.js';
import {
  resolveClientOptions,
  type ResolvedClientOptions,
  resolveUrl,
  type StreamableClientTransportOptions,
} from './client.options.js';
import type { ExchangeHost } from './exchange-host.js';
import { HttpEndpoint } from './http-endpoint.js';
import { Idempotency } from './idempotency.js';
import { LinkedAbort } from './linked-abort.js';
import { sendOneWay } from './one-way.js';
import { RequestExchange } from './request-exchange.js';
import { claimedRevision, sessionHeaders } from './request-headers.js';
import { discard } from './response-body.js';
import { type RecoveryHost, SessionRecovery } from './session-recovery.js';
import { StandaloneStream } from './standalone-stream.js';

/**
 * # The client's side of Streamable HTTP: a `Transport` for the official `Client`
 *
 * Each message is a POST of its own ({@link RequestExchange}, {@link sendOneWay}); what the server sends on its own comes over
 * one GET ({@link StandaloneStream}). Whose session it is, and what waits for it, is {@link ClientSession}'s. A message of
 * 2026-07-28, known by its `_meta`, takes no part in the session.
 *
 * Invariants: everything under way hangs on `#life`, which `close` aborts; `onclose` is called once; after that nothing is
 * handed over, no timer is armed, and no request is open.
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

  readonly #options: ResolvedClientOptions;
  readonly #session = new ClientSession();
  readonly #life: LinkedAbort;
  readonly #exchanges = new Set<RequestExchange>();
  readonly #reconnects$ = new Subject<ReconnectEvent>();
  readonly #endpoint: HttpEndpoint;
  readonly #recovery: SessionRecovery;
  readonly #standalone: StandaloneStream;
  readonly #host: ExchangeHost;
  #closing: Promise<void> | undefined;

  /**
   * @param url of the MCP endpoint
   * @throws McpOptionError
   */
  constructor(url: string | URL, options?: StreamableClientTransportOptions) {
    this.#options = resolveClientOptions(options);
    this.#life = new LinkedAbort(undefined);
    this.#endpoint = new HttpEndpoint(resolveUrl(url), this.#options);
    this.#recovery = this.#makeRecovery();
    this.#host = this.#makeHost();
    this.#standalone = new StandaloneStream(this.#host, this.#life.signal);
  }

  /** Of the live session; `undefined` without one. */
  get sessionId(): string | undefined {
    return this.#session.headers.sessionId;
  }
  /** The negotiated revision. */
  get protocolVersion(): string | undefined {
    return this.#session.protocolVersion;
  }
  get state(): ClientTransportState {
    return this.#session.state;
  }
  /** The present state and every one that follows; completes when the transport is closed. */
  get state$(): Observable<ClientTransportState> {
    return this.#session.state$;
  }
  /** Every attempt to come back, before its wait; completes when the transport is closed. */
  get reconnects$(): Observable<ReconnectEvent> {
    return this.#reconnects$.asObservable();
  }
  /** What became of lost sessions, with the option `recover`; completes when the transport is closed. */
  get recoveries$(): Observable<RecoveryEvent> {
    return this.#recovery.events$;
  }

  /**
   * Called by `Client.connect`. Opens no connection, unless a session is continued.
   *
   * @throws (rejects) NOT_CONNECTED when it was started before
   */
  async start(): Promise<void> {
    if (this.state.is !== 'new') {
      const closed = this.#closing !== undefined;
      throw new ClientTransportError('NOT_CONNECTED', closed ? clientMessages.closed() : clientMessages.startedTwice());
    }
    const { sessionId, protocolVersion, standaloneStream } = this.#options;
    this.#session.start({ sessionId, protocolVersion });
    if (sessionId !== undefined && standaloneStream) this.#standalone.start();
  }

  /** Called by the `Client` when the revision is negotiated. */
  setProtocolVersion(protocolVersion: string): void {
    this.#session.setProtocolVersion(protocolVersion);
  }

  /**
   * Sends a message.
   *
   * @param options `requestSignal` closes the request's response; `headers` are sent as they are; with `resumptionToken` the
   *   answer is fetched from that event on, and nothing is posted
   * @returns settles when a request is answered, and the answer handed over; or when the server has taken another message
   * @throws (rejects) HttpStatusError, HttpUnauthorizedError, UnexpectedContentError, SessionLostError, StreamLostError,
   *   ClientTransportError, or what `fetch`, `headers` and `onUnauthorized` throw. The call has failed then, nothing else.
   */
  async send(message: JsonRpcMessage, options: TransportSendOptions = {}): Promise<void> {
    if (isRequest(message)) return this.#request(message, options);
    if (!isResponse(message) && message.method === 'notifications/cancelled') return this.#cancel(message, options);
    return this.#oneWay(message, options);
  }

  /**
   * Ends the session on the server, then every request, response and timer.
   *
   * @returns settles when nothing is left; after `closeTimeoutMs` at the latest
   */
  close(): Promise<void> {
    if (!this.#closing) {
      const done = deferred();
      // First: whoever hears of the end may call this too.
      this.#closing = done.promise;
      this.#end().then(done.resolve, done.reject);
    }
    return this.#closing;
  }

  async #end(): Promise<void> {
    const { terminateOnClose, closeTimeoutMs, clock } = this.#options;
    const { state } = this;
    this.#session.close('closing');
    const closed = new ClientTransportError('NOT_CONNECTED', clientMessages.closed());
    for (const exchange of this.#exchanges) exchange.forsake(closed);
    if (terminateOnClose && state.is === 'live' && state.sessionId !== undefined)
      await within(this.#terminate(state), closeTimeoutMs, clock);
    try {
      // First, so that calls fail with the reason that the client gives them.
      this.onclose?.();
    } catch (error) {
      this.#report(error);
    }
    for (const exchange of [...this.#exchanges]) exchange.stop(closed);
    this.#standalone.stop();
    this.#life.abort(closed);
    this.#session.close('closed');
    this.#reconnects$.complete();
    this.#recovery.end();
  }

  /** Never fails: a session that cannot be ended expires. */
  async #terminate(session: { sessionId: string | undefined; protocolVersion: string | undefined }): Promise<void> {
    const headers = sessionHeaders({ ...session, protocolVersion: this.protocolVersion });
    try {
      discard(await this.#endpoint.send({ method: 'DELETE', headers, signal: this.#life.signal }));
    } catch (error) {
      if (!this.#life.signal.aborted) this.#report(error);
    }
  }

  #request(request: JsonRpcRequest, options: TransportSendOptions): Promise<void> {
    if (isInitializeRequest(request) && claimedRevision(request) === undefined) this.#session.begin();
    const exchange = new RequestExchange(this.#host, request, options);
    this.#exchanges.add(exchange);
    return exchange.run();
  }

  async #oneWay(message: JsonRpcNotification | JsonRpcResponse, options: TransportSendOptions): Promise<void> {
    await sendOneWay(this.#host, message, options, this.#life.signal);
    const initialized = 'method' in message && message.method === 'notifications/initialized';
    if (initialized && this.#options.standaloneStream && this.state.is === 'live') this.#standalone.start();
  }

  /** What was not sent yet is not sent at all; what was, is cancelled under the id that the server knows. */
  async #cancel(message: JsonRpcNotification, options: TransportSendOptions): Promise<void> {
    const { requestId } = (message.params ?? {}) as { requestId?: RequestId };
    const exchange = [...this.#exchanges].find(({ request }) => request.id === requestId);
    if (!exchange) return this.#oneWay(message, options);
    const { wireId } = exchange;
    const cancelled = new ClientTransportError('CANCELLED', clientMessages.cancelled());
    exchange.forsake(cancelled);
    try {
      if (wireId === undefined) return;
      await this.#oneWay({ ...message, params: { ...message.params, requestId: wireId } }, options);
    } finally {
      exchange.stop(cancelled);
    }
  }

  #makeHost(): ExchangeHost {
    return {
      endpoint: this.#endpoint,
      session: this.#session,
      options: this.#options,
      idempotency: new Idempotency(this.#options.replay),
      deliver: (message) => this.#deliver(message),
      report: (error) => this.#report(error),
      reconnecting: (event) => this.#reconnects$.next(event),
      sessionLost: (lost, asker, signal) => this.#recovery.lost(lost, asker, signal),
      cancelOnServer: (requestId) => {
        const params = { requestId, reason: 'superseded by another attempt' };
        const cancelled: JsonRpcNotification = { jsonrpc: '2.0', method: 'notifications/cancelled', params };
        this.#oneWay(cancelled, {}).catch(() => {});
      },
      exchangeEnded: (exchange) => this.#exchanges.delete(exchange as RequestExchange),
    };
  }

  #makeRecovery(): SessionRecovery {
    const host: RecoveryHost = {
      session: this.#session,
      interrupt: (sessionId, recovering) => {
        for (const exchange of [...this.#exchanges]) exchange.sessionLost(sessionId, recovering);
        this.#standalone.stop();
      },
      reinitialize: (request) => this.#reinitialize(request),
      announce: () => this.#oneWay({ jsonrpc: '2.0', method: 'notifications/initialized' }, {}),
    };
    return new SessionRecovery(host, this.#options.recover);
  }

  /** As any `initialize`, but the answer is not the client's, and what it has to say of its failure neither. */
  async #reinitialize(request: JsonRpcRequest): Promise<void> {
    let refusal: { message: string } | undefined;
    const host: ExchangeHost = {
      ...this.#host,
      deliver: (message) => {
        if (!isResponse(message)) this.#deliver(message);
        else if ('error' in message) refusal = message.error;
      },
      reconnecting: (event) => this.#host.reconnecting({ ...event, kind: 'recover' }),
    };
    const exchange = new RequestExchange(host, request, {});
    this.#exchanges.add(exchange);
    await exchange.run();
    if (refusal) throw new Error(refusal.message);
  }

  #deliver(message: JsonRpcMessage): void {
    if (this.#closing) return;
    try {
      this.onmessage?.(message);
    } catch (error) {
      this.#report(error);
    }
  }

  #report(error: unknown): void {
    try {
      this.onerror?.(error instanceof Error ? error : new Error(String(error)));
    } catch {
      // Who reports an error by throwing one is not told of that.
    }
  }
}
