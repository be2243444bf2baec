import type { TransportSendOptions } from '@modelcontextprotocol/server';
import type { EventSourceMessage } from 'eventsource-parser';
import { deferred } from '../core/common/promises.js';
import {
  isResponse,
  type JsonRpcErrorResponse,
  type JsonRpcMessage,
  type JsonRpcNotification,
  type JsonRpcRequest,
  type JsonRpcResponse,
  type RequestId,
} from '../core/protocol/json-rpc.js';
import { shown } from '../core/protocol/errors.js';
import { isModernRevision } from '../core/protocol/revisions.js';
import {
  McpClientTransportError,
  McpHttpStatusError,
  McpHttpUnauthorizedError,
  McpSessionLostError,
  McpStreamLostError,
  McpUnexpectedContentError,
} from './client.errors.js';
import type { ClientConnection } from './client-connection.js';
import { type SentSession, sessionIdOf } from './client-session.js';
import { EventStream } from './event-streams.js';
import { claimedRevision, postHeaders, type SessionHeaders } from './http-endpoint.js';
import { soundAnswer } from './large-messages.js';
import { mediaTypeOf, readText } from './response-body.js';
import { setbackOf } from './retry.js';
import { LinkedAbort } from './waiting.js';

/**
 * A response may stay open for so many milliseconds after the answer; the connection of one that ends by itself can be
 * reused.
 */
const DRAIN_MS = 1_000;
/** So many bytes of the body of a 202 are read. */
const MAX_ONE_WAY_BYTES = 64 * 1024;

const cancelledError = (): Error => new McpClientTransportError('CANCELLED', 'The request was cancelled.');

/**
 * # One request, from its first POST to its answer
 *
 *     waiting ──▶ posting ──JSON──────────────────────────────▶ answered
 *        ▲           ├──SSE──▶ streaming ──answer──────────────▶ answered
 *        │           │             │ ended, or cut, before
 *        │           │             ├──cursor known──▶ pausing ◀──▶ coming back (GET) ──▶ streaming
 *        │           │             └──no cursor, or 2026-07-28──▶ lost (C5)
 *        └─ again ◀──┴─────────────┴ setback: if it did not run, or may run twice; else ──▶ failed
 *
 * Invariants:
 * - the promise of `run` settles once: with the answer, or with the failure; later messages are not delivered;
 * - every attempt belongs to one session, and is lost with it, even if another session has begun;
 * - an attempt after one that may have run has a new id on the wire: the first may still be served, and servers refuse a second
 *   request with its id. The caller sees the original id.
 */
export class RequestExchange extends EventStream {
  readonly #life: LinkedAbort;
  readonly #outcome = deferred<JsonRpcResponse>();
  readonly #revision: string | undefined;
  readonly #initializes: boolean;
  #is: 'waiting' | 'posting' | 'streaming' | 'answered' = 'waiting';
  #wireId: RequestId;
  /** Counts the attempts that may have run. */
  #tried = 0;
  /** The session id in the head of the answer to `initialize`. */
  #begun: string | undefined;

  /** @param recovery takes the answer of an `initialize` that the client did not send */
  constructor(
    connection: ClientConnection,
    readonly request: JsonRpcRequest,
    private readonly sending: TransportSendOptions,
    private readonly recovery?: (answer: JsonRpcResponse) => void,
  ) {
    super(connection);
    this.#revision = claimedRevision(request);
    this.#initializes = request.method === 'initialize' && this.#revision === undefined;
    this.#life = new LinkedAbort(connection.options.clock, connection.life.signal, sending.requestSignal);
    this.#wireId = request.id;
    this.cursor = sending.resumptionToken;
  }

  /** Returns the id on the wire; `undefined` before the first attempt. */
  get wireId(): RequestId | undefined {
    return this.#is === 'waiting' && this.#tried === 0 ? undefined : this.#wireId;
  }

  /**
   * Sends the request until it is answered.
   *
   * @returns the answer, when it was handed over
   * @throws (rejects) the reason why there is no answer
   */
  run(): Promise<JsonRpcResponse> {
    this.#serve()
      .catch((error: unknown) => {
        if (this.#initializes) this.connection.session.fail(error);
        this.#outcome.reject(error);
      })
      .finally(() => this.#end());
    return this.#outcome.promise;
  }

  /** Cancels the request on behalf of the caller. */
  cancel(): void {
    this.#life.abort(cancelledError());
  }

  async #serve(): Promise<void> {
    for (let failures = 0; ; failures++) {
      const attempt = new LinkedAbort(this.connection.options.clock, this.#life.signal);
      try {
        return await this.#try(attempt);
      } catch (error) {
        if (this.#answered) return;
        this.#life.signal.throwIfAborted();
        await this.#prepareAnother(attempt.signal.aborted ? attempt.signal.reason : error, failures);
      } finally {
        attempt.release();
      }
    }
  }

  async #try(attempt: LinkedAbort): Promise<void> {
    const { session } = this.connection;
    const { signal } = attempt;
    this.#is = 'waiting';
    const alone = this.#revision !== undefined || this.#initializes;
    if (alone) session.check();
    else await session.ready(signal);
    const sent: SentSession = alone ? { sessionId: undefined, protocolVersion: this.#revision } : session.current;
    const interrupt = (): void => {
      // During a recovery a request without response headers continues: the answer of the server shows whether it has
      // run.
      if (this.#is !== 'posting' || session.state.is !== 'recovering') attempt.abort(sent.lost?.reason);
    };
    sent.lost?.addEventListener('abort', interrupt, { once: true });
    try {
      this.#is = this.cursor === undefined ? 'posting' : 'streaming';
      if (this.#is === 'streaming') await this.#resume(sent, signal);
      else await this.#post(sent, signal);
    } finally {
      sent.lost?.removeEventListener('abort', interrupt);
    }
  }

  async #post(sent: SentSession, signal: AbortSignal): Promise<void> {
    const message = { ...this.request, id: this.#wireId };
    const headers = postHeaders(message, sent, this.#revision !== undefined, this.sending.headers);
    const request = { method: 'POST', headers, body: JSON.stringify(message), signal } as const;
    try {
      await this.#receive(await this.connection.endpoint.send(request), sent, signal);
    } catch (error) {
      const answer = errorBodyOf(error, this.#wireId);
      if (!answer) throw error;
      this.take(answer);
    }
  }

  async #receive(response: Response, sent: SentSession, signal: AbortSignal): Promise<void> {
    const { endpoint, session } = this.connection;
    const sessionId = this.#revision === undefined ? sessionIdOf(response, sent.sessionId) : undefined;
    if (this.#initializes) session.offered = this.#begun = sessionId;
    const type = mediaTypeOf(response);
    if (type === 'text/event-stream') {
      this.#is = 'streaming';
      const cause = await failureOf(this.readResponse(response, signal), signal);
      if (this.#answered) return;
      if (this.#revision !== undefined || this.cursor === undefined)
        throw new McpStreamLostError('and it had no event id to resume from', { cause });
      return this.#resume({ ...sent, sessionId: sent.sessionId ?? this.#begun }, signal, cause);
    }
    if (type !== 'application/json') throw endpoint.unexpectedContent(response);
    for (const message of await endpoint.readJson(response, signal)) this.take(message);
    if (!this.#answered) throw endpoint.unexpectedContent(response);
  }

  /** Resumes from the cursor, until the answer has arrived. */
  async #resume(session: SentSession, signal: AbortSignal, because?: unknown): Promise<void> {
    const { connection } = this;
    const { maxAttempts } = connection.options.reconnect;
    let cause = because;
    this.count(0);
    for (let failures = 0; failures < maxAttempts; failures = this.count(failures)) {
      if (!this.cursorFits) throw new McpStreamLostError('and its last event id cannot be sent in a header', { cause });
      const event = { kind: 'resume', requestId: this.request.id, failures, cause } as const;
      await connection.waitToRetry(event, signal, this.retryMs);
      // A new session does not have this stream.
      session.lost?.throwIfAborted();
      cause = await failureOf(this.open(session, signal), signal);
      if (this.#answered) return;
    }
    throw new McpStreamLostError(`and could not be resumed in ${maxAttempts} attempts`, { cause });
  }

  get #answered(): boolean {
    return this.#is === 'answered';
  }

  /** Returns whether the response can be resumed: never on 2026-07-28. */
  get #resumable(): boolean {
    return this.#revision === undefined && this.cursor !== undefined && this.cursorFits;
  }

  override event(event: EventSourceMessage): void {
    if (event.id) this.sending.onresumptiontoken?.(event.id);
    super.event(event);
  }

  /** Returns how long the response may be silent. One that cannot be resumed is not closed. */
  override silenceMs(): number {
    return this.#resumable ? super.silenceMs() : Infinity;
  }

  protected take(message: JsonRpcMessage): void {
    if (this.#life.signal.aborted) return;
    // The answer on a stream that is resumed by its token has the id of an earlier request.
    const mine = isResponse(message) && (message.id === this.#wireId || this.sending.resumptionToken !== undefined);
    if (!mine) this.connection.deliver(message);
    else if (!this.#answered) this.#answer({ ...message, id: this.request.id });
  }

  #answer(given: JsonRpcResponse): void {
    const { session, idempotency, listedPages } = this.connection;
    const answer = listedPages.count(this.request, soundAnswer(this.request.method, given));
    session.checkOpen();
    // The state comes first: messages that the client sends on the answer belong to the new session.
    if ('result' in answer) {
      idempotency.learn(this.request, answer.result);
      if (this.#initializes) session.establish(this.#begun, answer.result, this.request);
    } else if (this.#initializes) session.fail(answer.error);
    this.#is = 'answered';
    if (this.recovery) this.recovery(answer);
    else this.connection.deliver(answer);
    this.#outcome.resolve(answer);
    this.#life.deadline(DRAIN_MS, cancelledError);
  }

  /** Waits for another attempt. @throws (rejects) the failure for the caller, if there is no further attempt */
  async #prepareAnother(error: unknown, failures: number): Promise<void> {
    const { connection, request } = this;
    const { session, options, idempotency } = connection;
    const setback = setbackOf(error);
    if (!setback) throw error;
    this.#is = 'waiting';
    const lost = error instanceof McpSessionLostError;
    if (lost) await session.lose(error, this.#life.signal);
    if (failures + 1 >= options.reconnect.maxAttempts) throw error;
    if (setback !== 'not-run') {
      if (!idempotency.mayReplay(request)) throw error;
      this.cursor = this.retryMs = undefined;
      this.#tried++;
      if (!this.#initializes) this.#wireId = `${request.id}~${this.#tried}`;
    }
    if (lost) return;
    const kind = this.recovery ? 'recover' : 'retry';
    await connection.waitToRetry({ kind, requestId: request.id, failures, cause: error }, this.#life.signal);
  }

  #end(): void {
    const stopped = this.#life.signal.aborted && !this.#answered;
    this.#life.abort(cancelledError());
    const { onRequestStreamEnd } = this.sending;
    // It runs after the outcome, so that the client sees its error first.
    if (!stopped && onRequestStreamEnd) void this.#outcome.promise.catch(() => {}).then(() => onRequestStreamEnd());
  }
}

/**
 * Waits for the end of a stream.
 *
 * @returns the reason why it ended early, if resuming may help
 * @throws (rejects) the reason, if it cannot help
 */
async function failureOf(reading: Promise<void>, signal: AbortSignal): Promise<unknown> {
  try {
    await reading;
    return undefined;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof McpUnexpectedContentError) return error;
    if (error instanceof McpClientTransportError && ['NO_ANSWER', 'SILENT', 'TIMEOUT'].includes(error.code))
      return error;
    if (!(error instanceof McpHttpStatusError) || error instanceof McpHttpUnauthorizedError) throw error;
    const { status } = error;
    if (status >= 500 || [408, 409, 425, 429].includes(status)) return error;
    const reason = status === 405 ? 'has no more events on that stream' : `refused to resume it, HTTP ${status}`;
    throw new McpStreamLostError(`and the server ${reason}`, { cause: error });
  }
}

/** Returns the JSON-RPC error in the body of an HTTP error (rule C9); its id may be missing, or `null`. */
function errorBodyOf(failure: unknown, requestId: RequestId): JsonRpcErrorResponse | undefined {
  if (!(failure instanceof McpHttpStatusError) || failure instanceof McpHttpUnauthorizedError) return undefined;
  if (failure.status >= 500 || setbackOf(failure)) return undefined;
  try {
    const { text = '' } = failure.data as { text?: string };
    const { jsonrpc, id = null, error } = JSON.parse(text) as Partial<JsonRpcErrorResponse> & { id?: RequestId | null };
    const sound = jsonrpc === '2.0' && typeof error?.code === 'number' && typeof error.message === 'string';
    return sound && (id === null || id === requestId) ? { jsonrpc, id: requestId, error } : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Sends a notification, or the answer to a request of the server. Both may safely arrive twice, so they are repeated
 * after any transient fault: a notification for `openTimeoutMs`, as callers wait for it; an answer as often as a request.
 *
 * @returns settles when the server has taken it
 * @throws (rejects) what `HttpEndpoint.send` fails with in the end; NOT_CONNECTED
 */
export async function sendOneWay(
  connection: ClientConnection,
  message: JsonRpcNotification | JsonRpcResponse,
  { headers: extra }: TransportSendOptions = {},
): Promise<void> {
  const { session, endpoint, options, serverRequests } = connection;
  const { openTimeoutMs } = options;
  const answers = isResponse(message);
  const claim = claimedRevision(message);
  // The server may need this answer before it answers `initialize`, which other messages wait for.
  const urgent = answers || message.method === 'notifications/initialized';
  const what = answers ? `the answer to its request ${shown(message.id)}` : `"${message.method}"`;
  const link = new LinkedAbort(options.clock, connection.life.signal);
  const { signal } = link;
  try {
    for (let failures = 0; ; failures++) {
      if (urgent) session.check();
      else if (claim === undefined) await session.ready(signal);
      if (!answers && failures === 0) link.deadline(openTimeoutMs, () => endpoint.timeout(what, openTimeoutMs));
      const free = answers ? await serverRequests.turn(signal) : undefined;
      const { current } = session;
      const negotiated = current.protocolVersion;
      const revision = claim ?? (isModernRevision(negotiated) ? negotiated : undefined);
      const sent: SessionHeaders =
        revision === undefined ? current : { sessionId: undefined, protocolVersion: revision };
      const headers = postHeaders(message, sent, revision !== undefined, extra);
      const body = JSON.stringify(message);
      try {
        const request = { method: 'POST', headers, body, what, signal } as const;
        const response = await endpoint.send(answers ? { ...request, timeoutMs: openTimeoutMs } : request);
        void drain(connection, response).finally(free);
        return;
      } catch (error) {
        free?.();
        signal.throwIfAborted();
        const lost = error instanceof McpSessionLostError;
        if (lost) await session.lose(error, signal);
        // An answer belongs to the session of its request.
        if (lost ? answers : !setbackOf(error) || failures + 1 >= options.reconnect.maxAttempts) throw error;
        if (!lost) await connection.waitToRetry({ kind: 'retry', failures, cause: error }, signal);
      }
    }
  } finally {
    link.release();
    if (answers) serverRequests.settle(message.id!);
  }
}

/** Reads the body of a 202 to its end, so that the connection can be used again; one that does not end is closed. */
async function drain({ options, life }: ClientConnection, response: Response): Promise<void> {
  const link = new LinkedAbort(options.clock, life.signal);
  link.deadline(DRAIN_MS, cancelledError);
  await readText(response, { maxMessageBytes: MAX_ONE_WAY_BYTES, signal: link.signal }).catch(() => {});
  link.release();
}
