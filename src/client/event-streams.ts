import type { EventSourceMessage } from 'eventsource-parser';
import type { JsonRpcMessage } from '../core/protocol/json-rpc.js';
import { McpClientTransportError, McpHttpStatusError, McpSessionLostError } from './client.errors.js';
import type { ClientConnection } from './client-connection.js';
import { type SentSession, sessionIdOf } from './client-session.js';
import { getHeaders } from './http-endpoint.js';
import { messagesIn } from './large-messages.js';
import { mediaTypeOf, readEvents, type SseSink } from './response-body.js';

/** Servers accept so long a header; Node's limit for all headers of a request is 16 KiB. */
const MAX_CURSOR_LENGTH = 8 * 1024;
/** Matches RFC 9110 §5.5: visible characters, with spaces and tabs between them only. */
const FIELD_VALUE = /^[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?$/;

/**
 * # A stream of the server, over one or more responses
 *
 * Invariants: the cursor only moves forward, and an attempt without an event keeps it (rule C4); an event resets the
 * count of failures, so that a server which closes connections on purpose (2025-11-25) is followed without a limit.
 */
export abstract class EventStream implements SseSink {
  protected cursor: string | undefined;
  protected retryMs: number | undefined;
  /** Whether a GET has ever opened a stream. */
  protected opened = false;
  #events = 0;

  constructor(protected readonly connection: ClientConnection) {}

  /** Called with each message, in order. */
  protected abstract take(message: JsonRpcMessage): void;

  /** Requests the events after the cursor (GET), and reads the response to its end. */
  protected async open(session: SentSession, signal: AbortSignal): Promise<void> {
    const { endpoint, options } = this.connection;
    const headers = getHeaders(session, this.cursor);
    const what = 'the GET of an event stream';
    const response = await endpoint.send({ method: 'GET', headers, what, signal, timeoutMs: options.openTimeoutMs });
    sessionIdOf(response, session.sessionId);
    if (mediaTypeOf(response) !== 'text/event-stream') throw endpoint.unexpectedContent(response);
    this.opened = true;
    await this.readResponse(response, signal);
  }

  protected readResponse(response: Response, signal: AbortSignal): Promise<void> {
    return readEvents(response, this, { ...this.connection.options, signal });
  }

  /** Counts an attempt. @returns the failures in a row after it */
  protected count(failures: number): number {
    const next = this.#events > 0 ? 0 : failures + 1;
    this.#events = 0;
    return next;
  }

  /** Returns whether the cursor, if there is one, can be sent in a header. */
  protected get cursorFits(): boolean {
    const { cursor = '-' } = this;
    return cursor.length <= MAX_CURSOR_LENGTH && FIELD_VALUE.test(cursor);
  }

  /** Takes an event from the reader of a response. */
  event({ id, event: type, data }: EventSourceMessage): void {
    this.#events++;
    if (id !== undefined) this.cursor = id === '' ? undefined : id;
    if (data === '' || (type !== undefined && type !== 'message')) return;
    let messages: readonly JsonRpcMessage[] = [];
    try {
      messages = messagesIn(data, this.connection.options);
    } catch (error) {
      if (error instanceof McpClientTransportError) throw error;
      this.connection.report(error);
    }
    for (const message of messages) this.take(message);
  }

  /** Takes `retry:` from the reader of a response. */
  retry(ms: number): void {
    this.retryMs = ms;
  }

  /** Returns after how much silence the reader of a response closes it. */
  silenceMs(): number {
    return this.connection.options.silenceMs;
  }
}

/**
 * # The GET of the standalone stream
 *
 *     opening ──200──▶ open ──ends, or is cut──▶ pausing ──▶ opening
 *        ├──405──▶ ended: the server has none
 *        └──any other failure──▶ pausing (rule C10: never fatal, never given up)
 *
 * Invariants: only a 400 drops a cursor that a header can carry; the first of several failures in a row is reported.
 */
export class StandaloneStream extends EventStream {
  /** Reads until the signal is aborted, or the server has no such stream. @throws (rejects) the reason of the signal */
  async run(signal: AbortSignal): Promise<void> {
    const { connection } = this;
    for (let failures = 0; ;) {
      let cause: unknown;
      if (!this.cursorFits) {
        this.cursor = undefined;
        const message =
          'The standalone stream cannot be resumed, because its last event id cannot be sent in a header. Messages that the server has sent in the meantime may be missing.';
        connection.report(new McpClientTransportError('STREAM_LOST', message));
      }
      try {
        await this.open(connection.session.current, signal);
      } catch (error) {
        signal.throwIfAborted();
        cause = error;
        const status = error instanceof McpHttpStatusError ? error.status : undefined;
        if (status === 405) return;
        // Without the refused cursor the server chooses where the stream begins.
        if (status === 400) this.cursor = undefined;
        // Some servers without a GET answer 404: the session is lost only where a GET has worked before.
        const lost = error instanceof McpSessionLostError && this.opened && connection.options.recover;
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
