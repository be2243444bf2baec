import type { JsonRpcMessage, RequestId } from '../wire/json-rpc.js';
import { assertSameSession } from './client-session.js';
import { ClientTransportError, StreamLostError } from './client.errors.js';
import { clientMessages } from './client.messages.js';
import type { ExchangeHost } from './exchange-host.js';
import { messagesOf } from './event-messages.js';
import { LinkedAbort } from './linked-abort.js';
import { getHeaders, type SessionHeaders } from './request-headers.js';
import { mediaTypeOf, readEvents, type SseEvent } from './response-body.js';
import { networkSetbackOf, sessionSetback, Setback } from './setback.js';
import { waitToRetry } from './wait-to-retry.js';

/** Whose stream it is. */
export interface CallStreamOwner {
  readonly requestId: RequestId;
  /** Whether there is a way to come back: not on 2026-07-28. */
  readonly resumable: boolean;
  /** Where to begin; `undefined` for the beginning. */
  readonly cursor: string | undefined;
  readonly onCursor: ((cursor: string) => void) | undefined;
  take(message: JsonRpcMessage): void;
  /** Whether the answer was taken. @throws CANCELLED when nobody wants it any more */
  isOver(): boolean;
}

/** What came of an attempt to come back: nothing yet, and why. */
interface Fruitless {
  readonly cause?: unknown;
  readonly askedMs?: number | undefined;
}

/**
 * # The stream of one call, over as many responses as it takes
 *
 *     reading ──answer──▶ over
 *        │ ended, or cut, before
 *        ├──no cursor, or 2026-07-28──▶ lost (C5)
 *        ▼
 *     pausing ──▶ coming back (GET) ──200──▶ reading
 *        ▲             │ passing fault
 *        └─────────────┴──refused, or too many attempts──▶ lost
 *
 * Invariants: the cursor only moves on, an attempt that brings nothing keeps it (C4); failures are counted anew after every
 * event, so that a server which closes connections on purpose (2025-11-25) is followed for as long as it likes.
 */
export class CallStream {
  #cursor: string | undefined;
  #retryMs: number | undefined;
  #events = 0;

  constructor(
    private readonly host: ExchangeHost,
    private readonly owner: CallStreamOwner,
  ) {
    this.#cursor = owner.cursor;
  }

  get cursor(): string | undefined {
    return this.#cursor;
  }

  /** The next attempt begins at the beginning. */
  forget(): void {
    this.#cursor = undefined;
    this.#retryMs = undefined;
  }

  /**
   * Reads a response, and comes back for the rest until the answer is there.
   *
   * @throws (rejects) Setback; ClientTransportError; the reason of the signal
   */
  async read(response: Response, session: SessionHeaders, signal: AbortSignal): Promise<void> {
    const cause = await this.#readOne(response, signal);
    if (this.owner.isOver()) return;
    if (this.owner.resumable && this.#cursor !== undefined) return this.resume(session, signal, cause);
    throw lost(clientMessages.noCursor(), cause);
  }

  /** Comes back, from the cursor on. @throws as `read` does */
  async resume(session: SessionHeaders, signal: AbortSignal, because?: unknown): Promise<void> {
    const { requestId } = this.owner;
    let fruitless: Fruitless = { cause: because };
    for (let failures = 0; ;) {
      const { cause, askedMs = this.#retryMs } = fruitless;
      await waitToRetry(this.host, { kind: 'resume', requestId, failures, cause }, askedMs, signal);
      const before = this.#events;
      fruitless = await this.#comeBack(session, signal);
      if (this.owner.isOver()) return;
      failures = this.#events > before ? 0 : failures + 1;
      if (failures < this.host.options.reconnect.maxAttempts) continue;
      throw lost(clientMessages.outOfAttempts(failures), fruitless.cause);
    }
  }

  async #comeBack(session: SessionHeaders, signal: AbortSignal): Promise<Fruitless> {
    const { endpoint, options } = this.host;
    const { state } = this.host.session;
    // Another one has begun meanwhile: it knows nothing of this stream.
    if (state.is === 'live' && state.sessionId !== session.sessionId)
      throw sessionSetback(session.sessionId ?? '', true);
    const link = new LinkedAbort(signal, options.clock).within(options.openTimeoutMs);
    try {
      const headers = getHeaders(session, this.#cursor);
      const response = await endpoint.send({ method: 'GET', headers, signal: link.signal });
      link.inTime();
      if (!response.ok) return await this.#refused(response, session, link.signal);
      assertSameSession(response, session);
      if (mediaTypeOf(response) !== 'text/event-stream') return { cause: endpoint.unexpectedContent(response, 'GET') };
      return { cause: await this.#readOne(response, link.signal) };
    } catch (error) {
      signal.throwIfAborted();
      const timedOut = error instanceof ClientTransportError && error.code === 'TIMEOUT';
      if (error instanceof Setback || (!timedOut && !networkSetbackOf(error, endpoint.place))) throw error;
      return { cause: error };
    } finally {
      link.release();
    }
  }

  async #refused(response: Response, { sessionId }: SessionHeaders, signal: AbortSignal): Promise<Fruitless> {
    const { status } = response;
    const cause = await this.host.endpoint.errorOf(response, 'GET', signal);
    if (status === 404 && sessionId !== undefined) throw sessionSetback(sessionId, true);
    if (status === 405) throw lost(clientMessages.finished(), cause);
    const passes = status >= 500 || [408, 409, 425, 429].includes(status);
    if (!passes) throw lost(clientMessages.cursorRefused(status), cause);
    return { cause, askedMs: cause.retryAfterMs };
  }

  /** Reads one response to its end. @returns what cut it off, if something did */
  async #readOne(response: Response, signal: AbortSignal): Promise<unknown> {
    const { clock, maxMessageBytes } = this.host.options;
    try {
      await readEvents(response, this, { clock, maxMessageBytes, signal });
      return undefined;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ClientTransportError && error.code === 'MESSAGE_TOO_LARGE') throw error;
      return error;
    }
  }

  /** Called by the reader of a response. */
  event(event: SseEvent): void {
    const { id } = event;
    this.#events++;
    if (id !== undefined) {
      this.#cursor = id === '' ? undefined : id;
      if (id !== '') this.owner.onCursor?.(id);
    }
    for (const message of messagesOf(event, (error) => this.host.report(error))) this.owner.take(message);
  }

  /** Called by the reader of a response. */
  retry(ms: number): void {
    this.#retryMs = ms;
  }

  /** Called by the reader of a response. A silent response that could not be resumed is left in peace. */
  silenceMs(): number {
    return this.owner.resumable && this.#cursor !== undefined ? this.host.options.silenceMs : Infinity;
  }
}

function lost(reason: string, cause: unknown): Setback {
  return new Setback('stream-lost', new StreamLostError(reason, true, { cause }));
}
