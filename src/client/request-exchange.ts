import type { TransportSendOptions } from '@modelcontextprotocol/server';
import { deferred } from '../common/promises.js';
import {
  isResponse,
  type JsonRpcMessage,
  type JsonRpcRequest,
  type JsonRpcResponse,
  type RequestId,
} from '../wire/json-rpc.js';
import { assertSameSession, sessionIdOf } from './client-session.js';
import { ClientTransportError, type SessionLostError, StreamLostError } from './client.errors.js';
import { clientMessages } from './client.messages.js';
import type { ExchangeHost } from './exchange-host.js';
import { rpcErrorOf } from './http-endpoint.js';
import { CallStream } from './call-stream.js';
import { waitToRetry } from './wait-to-retry.js';
import { LinkedAbort } from './linked-abort.js';
import { claimedRevision, legacyPostHeaders, modernPostHeaders, type SessionHeaders } from './request-headers.js';
import { discard, mediaTypeOf } from './response-body.js';
import { networkSetbackOf, sessionSetback, Setback, setbackOf } from './setback.js';

/** Milliseconds that a response may go on after the answer; its end gives the connection free for others. */
const DRAIN_MS = 1_000;

/**
 * # One request, from its first POST to its answer
 *
 *     waiting ──▶ posting ──JSON──────────────────────────────▶ answered
 *        ▲           ├──SSE──▶ streaming ──answer──────────────▶ answered
 *        │           │             │ ended before, cursor known
 *        │           │             ▼
 *        │           │     pausing ◀──▶ resuming (GET, from the cursor) ──answer──▶ answered
 *        └─ again ◀──┴─────────────┴ setback: if it did not run, or may run twice; else ──▶ failed
 *
 * Invariants:
 * - the promise of `run` settles once: with the answer, or with the failure; what comes after is not handed over;
 * - the cursor only moves on: an attempt that brings nothing keeps it (behaviour.md C4);
 * - every attempt is of one session: when that is lost, so is the attempt, also if another session has begun;
 * - an attempt after one that may have run has an id of its own on the wire: the first may still be served, and two requests
 *   of one id are refused. The caller sees its own id;
 * - once `stop` was called nothing is sent and nothing is handed over.
 */
export class RequestExchange {
  readonly #life: LinkedAbort;
  readonly #outcome = deferred();
  readonly #wireIds: RequestId[] = [];
  readonly #revision: string | undefined;
  readonly #initializes: boolean;
  #attempt: LinkedAbort;
  #is: 'waiting' | 'posting' | 'streaming' | 'answered' | 'failed' = 'waiting';
  #sent: SessionHeaders = { sessionId: undefined, protocolVersion: undefined };
  #begun: SessionHeaders | undefined;
  readonly #stream: CallStream;
  #forsaken: Error | undefined;

  constructor(
    private readonly host: ExchangeHost,
    readonly request: JsonRpcRequest,
    private readonly sending: TransportSendOptions,
  ) {
    this.#revision = claimedRevision(request);
    this.#initializes = request.method === 'initialize' && this.#revision === undefined;
    this.#life = new LinkedAbort(sending.requestSignal);
    this.#attempt = new LinkedAbort(this.#life.signal);
    this.#stream = new CallStream(host, {
      requestId: request.id,
      resumable: this.#revision === undefined,
      cursor: sending.resumptionToken,
      onCursor: sending.onresumptiontoken,
      take: (message) => this.#take(message),
      isOver: () => this.#isOver(),
    });
    this.#wireIds.push(request.id);
  }

  /** The id that the server knows it by; `undefined` as long as nothing was sent. */
  get wireId(): RequestId | undefined {
    return this.#is === 'waiting' && this.#wireIds.length === 1 ? undefined : this.#wireIds.at(-1);
  }

  /**
   * @returns settles when the request is answered, and the answer handed over
   * @throws (rejects) why there will be no answer
   */
  async run(): Promise<void> {
    this.#serve()
      .then(this.#outcome.resolve, (error: unknown) => this.#fail(error))
      .finally(() => this.#end());
    return this.#outcome.promise;
  }

  /** Nobody waits for the answer any more: the transport closes, or the caller has cancelled. */
  stop(reason: Error): void {
    this.#life.abort(reason);
  }

  /** Nothing more is to be handed over, and nothing sent; as soon as the server knows, `stop` follows. */
  forsake(reason: Error): void {
    this.#forsaken ??= reason;
  }

  /** The session is gone. Whoever waits for the head of a response hears it from the server, if there will be another one. */
  sessionLost(sessionId: string, recovering: boolean): void {
    if (this.#revision !== undefined || this.#sent.sessionId !== sessionId || this.#is === 'waiting') return;
    if (this.#is === 'posting' && recovering) return;
    this.#attempt.abort(sessionSetback(sessionId, true));
  }

  async #serve(): Promise<void> {
    for (let failures = 0; ; failures++) {
      this.#attempt = new LinkedAbort(this.#life.signal);
      try {
        return await this.#try();
      } catch (error) {
        if (this.#is === 'answered') return;
        this.#life.signal.throwIfAborted();
        const { aborted, reason } = this.#attempt.signal as { aborted: boolean; reason: unknown };
        await this.#prepareAnother(aborted ? reason : error, failures);
      } finally {
        this.#attempt.release();
      }
    }
  }

  async #try(): Promise<void> {
    const { signal } = this.#attempt;
    this.#is = 'waiting';
    const { session } = this.host;
    if (this.#revision === undefined && !this.#initializes) await session.ready(signal);
    else session.check({ evenIfLost: true });
    this.#sent = this.#revision === undefined ? session.headers : NO_SESSION;
    if (this.#stream.cursor !== undefined) {
      this.#is = 'streaming';
      return this.#stream.resume(this.#sent, signal);
    }
    this.#is = 'posting';
    const response = await this.#post();
    await this.#receive(response);
  }

  async #post(): Promise<Response> {
    const { headers: extra } = this.sending;
    const message = { ...this.request, id: this.#wireIds.at(-1)! };
    const headers =
      this.#revision === undefined
        ? legacyPostHeaders(message, this.#sent, extra)
        : modernPostHeaders(message, this.#revision, extra);
    const { signal } = this.#attempt;
    try {
      return await this.host.endpoint.send({ method: 'POST', headers, body: JSON.stringify(message), signal });
    } catch (error) {
      signal.throwIfAborted();
      throw networkSetbackOf(error, this.host.endpoint.place) ?? error;
    }
  }

  async #receive(response: Response): Promise<void> {
    const { endpoint } = this.host;
    const { signal } = this.#attempt;
    if (!response.ok) return this.#receiveError(response);
    try {
      if (this.#initializes) this.#begin(sessionIdOf(response));
      else assertSameSession(response, this.#sent);
    } catch (error) {
      discard(response);
      throw error;
    }
    const type = mediaTypeOf(response);
    if (type === 'text/event-stream') {
      this.#is = 'streaming';
      return this.#stream.read(response, this.#sent, signal);
    }
    if (type !== 'application/json') {
      if (response.status !== 202 && response.status !== 204) throw endpoint.unexpectedContent(response, 'POST');
      discard(response);
      throw new StreamLostError(clientMessages.unanswered(this.request.method, response.status));
    }
    for (const message of await this.#readJson(response, signal)) this.#take(message);
    if (this.#is !== 'answered') throw endpoint.unexpectedContent(response, 'POST');
  }

  #begin(sessionId: string | undefined): void {
    this.#sent = this.#begun = { sessionId, protocolVersion: undefined };
    this.host.session.offer(sessionId);
  }

  async #readJson(response: Response, signal: AbortSignal): Promise<readonly JsonRpcMessage[]> {
    try {
      return await this.host.endpoint.readJson(response, signal);
    } catch (error) {
      signal.throwIfAborted();
      throw networkSetbackOf(error, this.host.endpoint.place) ?? error;
    }
  }

  /** C6 to C9; 401 and 403 were dealt with before. */
  async #receiveError(response: Response): Promise<void> {
    const { sessionId } = this.#sent;
    if (response.status === 404 && sessionId !== undefined && !this.#initializes) {
      discard(response);
      throw sessionSetback(sessionId, false);
    }
    const error = await this.host.endpoint.errorOf(response, 'POST', this.#attempt.signal);
    const setback = setbackOf(error);
    if (setback) throw setback;
    const text = (error.data as { text?: string }).text;
    const told = response.status < 500 ? rpcErrorOf(text, this.#wireIds.at(-1)!) : undefined;
    if (!told) throw error;
    this.#take({ ...told, id: this.#wireIds.at(-1)! });
  }

  #take(message: JsonRpcMessage): void {
    if (this.#forsaken || this.#life.signal.aborted) return;
    if (!isResponse(message) || !this.#isMine(message)) return this.host.deliver(message);
    if (this.#is !== 'answered') this.#answer({ ...message, id: this.request.id });
  }

  /** What a stream was resumed for by its token is its answer, whatever id the one who asked for it had. */
  #isMine({ id }: JsonRpcResponse): boolean {
    return this.sending.resumptionToken !== undefined || (id !== undefined && this.#wireIds.includes(id));
  }

  #answer(answer: JsonRpcResponse): void {
    this.#is = 'answered';
    const { host, request } = this;
    if ('result' in answer) {
      host.idempotency.learn(request, answer.result);
      // Before the caller hears of it: what it sends then is of the session already.
      if (this.#begun) host.session.establish(this.#begun.sessionId, revisionOf(answer.result), request);
    } else if (this.#initializes) host.session.abandon(answer.error);
    host.deliver(answer);
    this.#outcome.resolve();
    const { clock } = host.options;
    const timer = clock.setTimeout(() => this.stop(new ClientTransportError('CANCELLED', '')), DRAIN_MS);
    this.#life.signal.addEventListener('abort', () => clock.clear(timer), { once: true });
  }

  /** @throws what the caller gets, if there is to be no other attempt */
  async #prepareAnother(error: unknown, failures: number): Promise<void> {
    if (!(error instanceof Setback)) throw error;
    const { host, request } = this;
    const { reconnect } = host.options;
    this.#is = 'waiting';
    const spent = failures + 1 >= reconnect.maxAttempts;
    if (error.kind === 'session-lost') {
      const again = !spent && (!error.ran || host.idempotency.mayReplay(request, 'session-lost'));
      const lost = error.failure as SessionLostError;
      await host.sessionLost(lost, { requestId: request.id, replayed: again }, this.#life.signal);
      if (!again) throw lost;
      return this.#startOver();
    }
    if (this.#forsaken) throw this.#forsaken;
    if (spent) throw error.failure;
    if (error.kind !== 'not-run') {
      if (!host.idempotency.mayReplay(request, error.kind)) throw error.failure;
      // The first may still be served: for nobody.
      if (this.#revision === undefined && !this.#initializes) host.cancelOnServer(this.#wireIds.at(-1)!);
      this.#startOver();
    }
    const { askedMs, failure: cause } = error;
    await waitToRetry(host, { kind: 'retry', requestId: request.id, failures, cause }, askedMs, this.#life.signal);
  }

  #startOver(): void {
    this.#stream.forget();
    this.#begun = undefined;
    if (!this.#initializes) this.#wireIds.push(`${this.request.id}~${this.#wireIds.length}`);
  }

  /** @throws why nobody wants the answer any more */
  #isOver(): boolean {
    if (this.#forsaken) throw this.#forsaken;
    return this.#is === 'answered';
  }

  #fail(error: unknown): void {
    this.#is = 'failed';
    if (this.#initializes) this.host.session.abandon(error);
    this.#outcome.reject(error);
  }

  #end(): void {
    const stopped = this.#life.signal.aborted && this.#is !== 'answered';
    // Also ends the timer of the drain.
    this.stop(new ClientTransportError('CANCELLED', clientMessages.cancelled()));
    this.#life.release();
    this.host.exchangeEnded(this);
    const { onRequestStreamEnd } = this.sending;
    if (stopped || !onRequestStreamEnd) return;
    // After whoever waits for the outcome: that says more.
    void this.#outcome.promise.catch(() => {}).then(() => onRequestStreamEnd());
  }
}

const NO_SESSION: SessionHeaders = { sessionId: undefined, protocolVersion: undefined };

function revisionOf(result: unknown): string | undefined {
  const { protocolVersion } = result as { protocolVersion?: unknown };
  return typeof protocolVersion === 'string' ? protocolVersion : undefined;
}
