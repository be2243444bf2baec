import type { Readable, Writable } from 'node:stream';
import { concat, defer, EMPTY, finalize, fromEvent, map, Observable, share, Subscription, tap } from 'rxjs';
import type { McpClock } from '../core/common/clock.js';
import { deferred, isThenable, type MaybePromise, within } from '../core/common/promises.js';
import { logError } from '../core/calls/operator-log.js';
import type { PendingReply, StreamFlow } from '../core/calls/reply.js';
import { beginsSession } from '../core/eras/legacy/legacy-endpoint.js';
import { loneRequestId, type McpEndpoint, type McpIncoming } from '../core/eras/mcp-endpoint.js';
import type { KnownSession } from '../core/sessions/running/live-sessions.js';
import { classifyPost, type McpEra } from '../core/protocol/era.js';
import { errorResponse, McpError, rpcErrorOf, shown } from '../core/protocol/errors.js';
import { LAST_EVENT_ID_HEADER, type RequestHeaders, SESSION_ID_HEADER } from '../core/protocol/headers.js';
import {
  type IncomingBody,
  isNotification,
  isRequest,
  type JsonRpcMessage,
  readMessages,
  type RequestId,
} from '../core/protocol/json-rpc.js';
import type { McpEvent } from '../core/protocol/events.js';
import { Lines, TOO_LONG } from './lines.js';

/** So many requests without a session may be in flight; a session has a cap of its own. */
const MAX_CALLS = 1_000;
const INTERNAL_ERROR = -32603;
const NO_BODY: IncomingBody = { batch: false, messages: [] };

export interface StdioCaller {
  readonly principal: string | undefined;
  /** @returns the replacement of the HTTP request, a new object for each message */
  request(): object;
}

export interface StdioStreams {
  readonly input: Readable;
  readonly output: Writable;
  /** Writes to `output`. */
  write(text: string): void;
}

/**
 * # One client at the other end of two streams
 *
 * Each line is the body of a POST over HTTP, and is processed in the same way; each message of a reply is a line.
 * Differences: there are no headers, requests are cancelled by a notification in both eras, and all replies share one
 * stream.
 *
 *     open ──input ends──▶ ending (calls may end, for `drainMs`) ──▶ over
 *       └──the app closes, the session ends, a stream fails─────────▶ over
 *
 * A legacy client has one session, from its `initialize` until the connection is over, whose standalone stream is read all the
 * time. Messages behind an `initialize` wait for its answer.
 *
 * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
 */
export class StdioConnection {
  readonly #lines: Lines;
  readonly #flow: StreamFlow;
  readonly #over = deferred();
  /** Subscribes to the replies that are being read. */
  readonly #reading = new Subscription();
  /** The requests without a session, by id: unsubscribing cancels one. */
  readonly #bare = new Map<RequestId, Subscription>();
  /** The replies of requests that end by themselves, and of those that listen. */
  readonly #answers = new Set<Promise<void>>();
  readonly #listens = new Set<Promise<void>>();
  /** The messages that came while `initialize` was being answered. */
  #waiting: IncomingBody[] | undefined;
  #sessionId: string | undefined;
  #isOver = false;

  constructor(
    private readonly endpoint: McpEndpoint,
    private readonly caller: StdioCaller,
    private readonly streams: StdioStreams,
    private readonly options: {
      readonly maxLineBytes: number;
      readonly maxValues: number;
      readonly drainMs: number;
      readonly clock: McpClock;
    },
  ) {
    this.#lines = new Lines(options.maxLineBytes);
    const { input, output } = streams;
    this.#flow = {
      get paused() {
        return output.writableNeedDrain;
      },
      resumed$: fromEvent(output, 'drain').pipe(
        map(() => undefined),
        share(),
      ),
    };
    input.on('data', this.#read).on('end', this.#inputEnded).on('close', this.#inputEnded).on('error', this.#release);
    output.on('drain', this.#resumeInput).on('error', this.#release).on('close', this.#release);
    // The streams ended while the app started: they emit no further event.
    if (input.destroyed || input.readableEnded || output.destroyed) this.#release();
  }

  /** Resolves when reading has stopped, and everything of the client is released. */
  get over(): Promise<void> {
    return this.#over.promise;
  }

  /** Waits until the endpoint, whose app closes, has ended all replies; then reads no more. */
  async close(): Promise<void> {
    await Promise.all([...this.#answers, ...this.#listens]);
    this.#release();
  }

  // ---- from the client ------------------------------------------------------------------------------------------

  readonly #read = (chunk: Buffer | string): void => {
    for (const line of this.#lines.push(Buffer.from(chunk as Buffer))) this.#readLine(line);
  };

  readonly #resumeInput = (): void => {
    if (!this.#isOver) this.streams.input.resume();
  };

  #readLine(line: Buffer | typeof TOO_LONG): void {
    if (this.#isOver) return;
    let body: IncomingBody | undefined;
    try {
      const text = this.#textOf(line);
      if (text.trim() === '') return;
      body = readMessages(text, this.options.maxValues);
      if (this.#waiting) this.#waiting.push(body);
      else this.#receive(body);
    } catch (error) {
      this.#refuse(error, body);
    }
  }

  /** @throws McpError PAYLOAD_TOO_LARGE, PARSE_ERROR */
  #textOf(line: Buffer | typeof TOO_LONG): string {
    if (line === TOO_LONG) {
      const text = `A message is longer than ${this.options.maxLineBytes} bytes. Send less at once, or raise "maxBodyBytes".`;
      throw new McpError('PAYLOAD_TOO_LARGE', text, { option: 'maxBodyBytes' });
    }
    try {
      return new TextDecoder('utf-8', { fatal: true }).decode(line);
    } catch {
      throw new McpError('PARSE_ERROR', 'A line is not UTF-8. Send each message as JSON in UTF-8 on one line.');
    }
  }

  /** @throws McpError */
  #receive(body: IncomingBody): void {
    const era = classifyPost({ protocolVersion: undefined }, body);
    const [message] = body.messages as [JsonRpcMessage];
    if (!body.batch && this.#cancelBare(message)) return;
    const incoming = (): McpIncoming => this.#incoming(era, body);
    if (era === 'modern') return this.#receiveBare(body, () => this.endpoint.postWithoutHeaders(incoming()));
    if (!this.endpoint.hasSessions(era)) return this.#receiveBare(body, () => this.endpoint.post(incoming()));
    if (this.#sessionId !== undefined) return this.#receiveInSession(this.#sessionId, body);
    if (beginsSession(body)) return void this.#initialize(body);
    const [first] = body.messages.filter(isRequest);
    if (!first) return;
    const text = `${shown(first.method)} came before "initialize". Initialize the session first.`;
    throw new McpError('INVALID_REQUEST', text, { requestId: loneRequestId(body) });
  }

  /** @throws McpError */
  #receiveBare(body: IncomingBody, serving: () => MaybePromise<PendingReply>): void {
    const [message] = body.messages as [JsonRpcMessage];
    if (body.batch || !isRequest(message)) return this.#answer(serving(), body);
    const { id, method } = message;
    if (this.#bare.has(id)) {
      const text = `A request with the id ${JSON.stringify(id)} is already in flight. Give each request its own id.`;
      throw new McpError('INVALID_REQUEST', text);
    }
    if (this.#bare.size >= MAX_CALLS) {
      const text = `This client has reached its limit of ${MAX_CALLS} requests in flight. Wait for answers before you send more.`;
      throw new McpError('TOO_MANY_REQUESTS', text);
    }
    const subscription = new Subscription();
    this.#bare.set(id, subscription);
    const replied$ = events$(serving, this.#flow).pipe(finalize(() => this.#bare.delete(id)));
    this.#write$(replied$, body, { subscription, listens: method === 'subscriptions/listen' });
  }

  /**
   * Cancels a request without a session: there is no response that a client could close (2026-07-28, stdio,
   * "Cancellation").
   *
   * @returns whether it is for a request without a session
   */
  #cancelBare(message: JsonRpcMessage): boolean {
    if (!isNotification(message) || message.method !== 'notifications/cancelled') return false;
    const call = this.#bare.get(message.params?.['requestId'] as RequestId);
    call?.unsubscribe();
    return call !== undefined;
  }

  async #initialize(body: IncomingBody): Promise<void> {
    const waiting: IncomingBody[] = (this.#waiting = []);
    this.streams.input.pause();
    const answered = deferred();
    this.#answers.add(answered.promise);
    try {
      const { reply } = await this.endpoint.post(this.#incoming('legacy', body));
      const answer = await reply;
      if (answer.kind === 'json') {
        this.#sessionId = answer.headers?.[SESSION_ID_HEADER];
        this.#writeLine(answer.body);
      }
    } catch (error) {
      this.#refuse(error, body);
    }
    this.#waiting = undefined;
    this.#resumeInput();
    if (this.#isOver) this.#endSession();
    else if (this.#sessionId !== undefined) this.#listen();
    for (const next of waiting) {
      try {
        this.#receive(next);
      } catch (error) {
        this.#refuse(error, next);
      }
    }
    this.#answers.delete(answered.promise);
    answered.resolve();
  }

  #receiveInSession(id: string, body: IncomingBody): void {
    const post = (session: KnownSession | undefined): MaybePromise<PendingReply> => {
      if (!session) throw new McpError('SESSION_NOT_FOUND', 'The session has ended. Start the server again.');
      return this.endpoint.post({ ...this.#incoming('legacy', body), session });
    };
    const found = this.endpoint.legacy.sessions.lookup(id);
    this.#answer(isThenable(found) ? found.then(post) : post(found), body);
  }

  /** Reads the standalone stream, until the session ends. */
  #listen(): void {
    const subscription = new Subscription();
    const ends = { error: this.#release, complete: this.#release };
    subscription.add(this.#whole$(this.#opened$()).subscribe({ next: ({ data }) => this.#writeLine(data), ...ends }));
    this.#reading.add(subscription);
  }

  #incoming(era: McpEra, body: IncomingBody, headers: RequestHeaders = {}): McpIncoming {
    const { principal } = this.caller;
    const request = this.caller.request();
    return { era, principal, request, method: 'POST', headers, body, session: undefined };
  }

  // ---- to the client --------------------------------------------------------------------------------------------

  #answer(serving: MaybePromise<PendingReply>, body: IncomingBody): void {
    this.#write$(this.#whole$(events$(() => serving, this.#flow)), body, {});
  }

  #write$(
    replied$: Observable<McpEvent>,
    body: IncomingBody,
    { subscription = new Subscription(), listens = false },
  ): void {
    const answered = deferred();
    const replies = listens ? this.#listens : this.#answers;
    replies.add(answered.promise);
    subscription.add(() => {
      replies.delete(answered.promise);
      this.#reading.remove(subscription);
      answered.resolve();
    });
    this.#reading.add(subscription);
    subscription.add(
      replied$.subscribe({
        next: ({ data }) => this.#writeLine(data),
        error: (error: unknown) => {
          this.#refuse(error, body);
          subscription.unsubscribe();
        },
        complete: () => subscription.unsubscribe(),
      }),
    );
  }

  /** Resumes a stream of the session that was closed before its answer, because the client cannot do so over stdio. */
  #whole$(part$: Observable<McpEvent>): Observable<McpEvent> {
    let last: McpEvent = {};
    const read$ = part$.pipe(tap((event) => (last = event)));
    const rest$ = defer(() => (last.id === undefined || isAnswer(last) ? EMPTY : this.#whole$(this.#opened$(last.id))));
    return concat(read$, rest$);
  }

  /** Opens a stream of the session, as a GET does. @param cursor none: the standalone stream */
  #opened$(cursor?: string): Observable<McpEvent> {
    const opening = async (): Promise<PendingReply> => {
      const session = await this.endpoint.legacy.sessions.lookup(this.#sessionId!);
      if (!session) throw new McpError('SESSION_NOT_FOUND', 'The session has ended.');
      const headers = cursor === undefined ? {} : { [LAST_EVENT_ID_HEADER]: cursor };
      const incoming: McpIncoming = { ...this.#incoming('legacy', NO_BODY, headers), method: 'GET', session };
      return { reply: this.endpoint.get(incoming), cancel: () => {} };
    };
    return events$(opening, this.#flow);
  }

  /** Answers a refused request; refused notifications and responses get no answer. */
  #refuse(thrown: unknown, body: IncomingBody | undefined): void {
    const error = this.endpoint.refusalFor(thrown);
    const rpcError = rpcErrorOf(error);
    if (!rpcError) logError(error);
    const { code, message, data } = rpcError ?? { code: INTERNAL_ERROR, message: 'Internal error' };
    const named = error instanceof McpError ? error.requestId : undefined;
    if (body && !body.messages.some(isRequest)) return;
    const id = named ?? (body ? loneRequestId(body) : null);
    this.#writeLine(JSON.stringify(errorResponse(id, code, message, data)));
  }

  #writeLine(data: string | undefined): void {
    const { output } = this.streams;
    if (!data || output.destroyed || output.writableEnded) return;
    this.streams.write(`${data}\n`);
    // Stops reading from a client that does not read its answers.
    if (output.writableNeedDrain) this.streams.input.pause();
  }

  // ---- ends -----------------------------------------------------------------------------------------------------

  /** Lets the calls end, because the client is done (stdio, "Shutdown"). */
  readonly #inputEnded = (): void => {
    this.#readLine(this.#lines.rest());
    const answers = (): Promise<unknown> =>
      // An `initialize` lets those behind it begin.
      Promise.all(this.#answers).then(() => (this.#answers.size > 0 ? answers() : undefined));
    void within(answers(), this.options.drainMs, this.options.clock).then(this.#release);
  };

  /** Cancels what is left of the client. Idempotent. */
  readonly #release = (): void => {
    if (this.#isOver) return;
    this.#isOver = true;
    const { input, output } = this.streams;
    input.off('data', this.#read).off('end', this.#inputEnded).off('close', this.#inputEnded).pause();
    output.off('drain', this.#resumeInput).off('close', this.#release);
    this.#reading.unsubscribe();
    this.#endSession();
    this.#over.resolve();
  };

  #endSession(): void {
    const id = this.#sessionId;
    this.#sessionId = undefined;
    if (id !== undefined) this.endpoint.legacy.sessions.end(id, 'deleted').catch(logError);
  }
}

/** Returns a reply as events. Unsubscribing cancels it. */
function events$(serve: () => MaybePromise<PendingReply>, flow: StreamFlow): Observable<McpEvent> {
  return new Observable((subscriber) => {
    let cancel: (() => void) | undefined;
    const read = async (): Promise<void> => {
      const serving = await serve();
      if (subscriber.closed) return serving.cancel();
      cancel = () => serving.cancel();
      const reply = await Promise.resolve(serving.reply).finally(() => (cancel = undefined));
      if (subscriber.closed) return;
      if (reply.kind === 'json') subscriber.next({ data: reply.body });
      if (reply.kind !== 'events') return subscriber.complete();
      reply.open(flow).subscribe(subscriber);
    };
    read().catch((error: unknown) => subscriber.error(error));
    return () => cancel?.();
  });
}

/** Tells whether the message of an event answers a request of the client. */
function isAnswer({ data }: McpEvent): boolean {
  return !!data && !Object.hasOwn(JSON.parse(data) as object, 'method');
}
