import type { EventSourceMessage } from 'eventsource-parser';
import { type JsonRpcMessage, readMessages } from '../wire/json-rpc.js';
import { HttpStatusError, SessionLostError } from './client.errors.js';
import type { ClientConnection } from './client-connection.js';
import { type SentSession, sessionIdOf } from './client-session.js';
import { getHeaders } from './http-endpoint.js';
import { mediaTypeOf, readEvents, type SseSink } from './response-body.js';

/**
 * # A stream of the server, over one or more responses
 *
 * Invariants: the cursor only moves forward, and an attempt without an event keeps it (rule C4); an event resets the
 * count of failures, so that a server which closes connections on purpose (2025-11-25) is followed without a limit.
 */
export abstract class EventStream implements SseSink {
  protected cursor: string | undefined;
  protected retryMs: number | undefined;
  /** Whether a GET has ever brought a stream. */
  protected opened = false;
  #events = 0;

  constructor(protected readonly connection: ClientConnection) {}

  /** Called with each message, in order. */
  protected abstract take(message: JsonRpcMessage): void;

  /** Requests the events after the cursor (GET), and reads the response to its end. */
  protected async open(session: SentSession, signal: AbortSignal): Promise<void> {
    const { endpoint, options } = this.connection;
    const headers = getHeaders(session, this.cursor);
    const response = await endpoint.send({ method: 'GET', headers, signal, timeoutMs: options.openTimeoutMs });
    sessionIdOf(response, session.sessionId);
    if (mediaTypeOf(response) !== 'text/event-stream') throw endpoint.unexpectedContent(response);
    this.opened = true;
    await this.readResponse(response, signal);
  }

  protected readResponse(response: Response, signal: AbortSignal): Promise<void> {
    return readEvents(response, this, { ...this.connection.options, signal });
  }

  /** @returns the failures in a row after an attempt */
  protected count(failures: number): number {
    const next = this.#events > 0 ? 0 : failures + 1;
    this.#events = 0;
    return next;
  }

  /** Called by the reader of a response. */
  event({ id, event: type, data }: EventSourceMessage): void {
    this.#events++;
    if (id !== undefined) this.cursor = id === '' ? undefined : id;
    if (data === '' || (type !== undefined && type !== 'message')) return;
    let messages: readonly JsonRpcMessage[] = [];
    try {
      ({ messages } = readMessages(data));
    } catch (error) {
      this.connection.report(error);
    }
    for (const message of messages) this.take(message);
  }

  /** Called by the reader of a response. */
  retry(ms: number): void {
    this.retryMs = ms;
  }

  /** Called by the reader of a response. */
  silenceMs(): number {
    return this.connection.options.silenceMs;
  }
}

/**
 * # The GET of the standalone stream
 *
 *     opening ──200──▶ open ──ends, or is cut──▶ pausing ──▶ opening
 *        ├──405──▶ over: the server has none
 *        └──any other failure──▶ pausing (rule C10: never fatal, never given up)
 *
 * Invariants: only a 400 drops the cursor; of failures in a row the first one is reported.
 */
export class StandaloneStream extends EventStream {
  /** Reads until the signal is aborted, or the server has no such stream. @throws (rejects) the reason of the signal */
  async run(signal: AbortSignal): Promise<void> {
    const { connection } = this;
    for (let failures = 0; ;) {
      let cause: unknown;
      try {
        await this.open(connection.session.current, signal);
      } catch (error) {
        signal.throwIfAborted();
        cause = error;
        const status = error instanceof HttpStatusError ? error.status : undefined;
        if (status === 405) return;
        // Without the refused cursor the server chooses where the stream begins.
        if (status === 400) this.cursor = undefined;
        // Some servers without a GET answer 404: the session is lost only where a GET has worked before.
        const lost = error instanceof SessionLostError && this.opened && connection.options.recover;
        if (lost) return connection.session.lose(error, signal);
      }
      if (cause !== undefined && failures === 0) connection.report(cause);
      failures = this.count(failures);
      await connection.waitToRetry({ kind: 'standalone', failures, cause }, signal, this.retryMs);
    }
  }

  protected take(message: JsonRpcMessage): void {
    this.connection.deliver(message);
  }
}
