import { EMPTY, type Observable } from 'rxjs';
import type { McpClock, ClockTimer } from '../common/clock.js';
import { type Deferred, deferred, DONE, type MaybePromise, quiet } from '../common/promises.js';
import type { McpExchange, McpReply, StreamFlow } from './reply.js';
import type { HttpRefusal } from '../protocol/errors.js';
import type { RequestId } from '../protocol/json-rpc.js';
import type { McpEvent } from '../protocol/events.js';

/**
 * Format of the response to a POST.
 *
 * - `auto`: JSON when the answer comes before any other message and before `sseAfterMs`, otherwise SSE
 * - `sse`: always SSE
 * - `json`: always JSON; other messages of a handler go to the standalone stream, and its requests to the client fail
 *
 * @publicApi
 */
export type McpResponseMode = 'auto' | 'sse' | 'json';

/**
 * # One POST that carries requests, from its arrival to its last answer
 *
 * It decides late how to answer: a single, fast answer becomes a JSON body; otherwise the response becomes a stream.
 * Both eras do so; what differs is the {@link ExchangeSink} of the stream.
 *
 *     undecided ──last answer──────────────────────────────────▶ ended (JSON)
 *         ├──other message, closeStream(), sseAfterMs, 'sse'──▶ streaming ──last answer──▶ ended
 *         ├──all requests cancelled─────────────────────────▶ ended (an SSE head, and its end)
 *         └──refused, client gone───────────────────────────▶ ended
 *
 * Invariants: the reply is given exactly once; each request is settled exactly once, when its answer is handed to the sink,
 * not when it is delivered; the stream ends with the last settlement, in the same write.
 */
export class Exchange implements McpExchange {
  /** The reply, once it is given. */
  #given: McpReply | undefined;
  /** Waits for the reply; a refusal rejects it. */
  #waiting: Deferred<McpReply> | undefined;
  #state: ExchangeState = { is: 'undecided', answers: [], settled: [], timer: undefined };
  #unsettled: number;
  #headOnly = false;

  constructor(
    private readonly requests: readonly RequestId[],
    private readonly form: ExchangeForm,
  ) {
    this.#unsettled = requests.length;
  }

  get reply(): MaybePromise<McpReply> {
    return this.#given ?? (this.#waiting ??= deferred<McpReply>()).promise;
  }

  /** Makes it a stream after `sseAfterMs`. Called when its requests are dispatched: those that were answered need no timer. */
  streamLater(): void {
    const state = this.#state;
    const { mode, clock, sseAfterMs } = this.form;
    if (state.is !== 'undecided' || mode !== 'auto') return;
    state.timer = clock.setTimeout(() => this.stream(), sseAfterMs);
  }

  get carries(): 'messages' | 'answers' | 'nothing' {
    if (this.#state.is === 'ended') return 'nothing';
    return this.form.mode === 'json' ? 'answers' : 'messages';
  }

  /** The sink, while the exchange is a stream. */
  get sink(): ExchangeSink | undefined {
    return this.#state.is === 'streaming' ? this.#state.sink : undefined;
  }

  send(data: string, eager = false): Promise<void> {
    if (this.carries !== 'messages') return DONE;
    const state = this.#state;
    const entry: SinkEntry = eager ? { data, eager } : { data };
    return state.is === 'undecided' ? this.#begin(state, entry) : this.sink!.write(entry);
  }

  answer(id: RequestId, data: string, refusal?: HttpRefusal): void {
    // A stream begins as late as possible, so that a refusal has an HTTP status.
    if (this.form.mode === 'sse' && !refusal) this.stream();
    const last = --this.#unsettled === 0;
    const state = this.#state;
    if (state.is === 'undecided') {
      state.answers.push({ data, settles: id });
      if (last) this.#replyWithJson(state, this.form.batch ? undefined : refusal);
    } else if (state.is === 'streaming') {
      if (last) this.#state = ENDED;
      // The log reports its failures itself.
      void quiet(state.sink.write({ data, settles: id, end: last }));
    }
  }

  settle(id: RequestId): void {
    const last = --this.#unsettled === 0;
    const state = this.#state;
    if (state.is === 'undecided') {
      state.settled.push(id);
      if (last) this.#replyWithJson(state);
    } else if (state.is === 'streaming') {
      if (last) this.#state = ENDED;
      void quiet(state.sink.write({ settles: id, end: last }));
    }
  }

  refuse(error: Error): boolean {
    const state = this.#state;
    if (state.is !== 'undecided' || this.requests.length > 1) return false;
    this.form.clock.clear(state.timer);
    this.#state = ENDED;
    (this.#waiting ??= deferred<McpReply>()).reject(error);
    return true;
  }

  closeStream(): boolean {
    if (this.carries !== 'messages' || !this.form.clientsComeBack()) return false;
    if (!this.stream()!.disconnect()) this.#headOnly = true;
    return true;
  }

  /**
   * Ends the exchange of a client that has disconnected. Unless a response was opened, it has no event id to resume
   * from.
   */
  cancel(): void {
    const state = this.#state;
    if (state.is === 'ended' || (state.is === 'streaming' && state.opened)) return;
    this.#state = ENDED;
    if (state.is === 'streaming') state.sink.end();
    else {
      this.form.clock.clear(state.timer);
      this.#give({ kind: 'accepted' });
    }
    this.form.clientGone?.();
  }

  /** Makes the exchange a stream, whose head is sent at once. @returns `undefined` when the exchange has ended */
  stream(): ExchangeSink | undefined {
    if (this.#state.is === 'undecided') void this.#begin(this.#state, {});
    return this.sink;
  }

  /** Makes the exchange a stream of the answers so far, and this entry. @returns settles when there is room for more */
  #begin({ timer, settled, answers }: Undecided, entry: SinkEntry): Promise<void> {
    this.form.clock.clear(timer);
    // Cancelled requests are settled: the log does not wait for them.
    const open = settled.length > 0 ? this.requests.filter((id) => !settled.includes(id)) : this.requests;
    const sink = this.form.sink(open, () => this.#cut());
    const streaming: ExchangeState = { is: 'streaming', sink, opened: false };
    this.#state = streaming;
    // An empty entry makes the stream begin, and so does an answer.
    const entries = entry.data === undefined && answers.length > 0 ? answers : [...answers, entry];
    let written = DONE;
    for (const one of entries) written = quiet(sink.write(one));
    this.#give({
      kind: 'events',
      open: (flow) => {
        streaming.opened = true;
        return sink.events$(flow, this.#headOnly);
      },
    });
    return written;
  }

  /** Ends the exchange when the response of an unlogged stream has closed before its end. */
  #cut(): void {
    if (this.#state.is === 'ended') return;
    this.#state = ENDED;
    this.form.clientGone?.();
  }

  #replyWithJson({ answers, timer }: Undecided, refusal?: HttpRefusal): void {
    this.form.clock.clear(timer);
    this.#state = ENDED;
    if (answers.length === 0) return this.#give({ kind: 'events', open: () => EMPTY });
    const body = this.form.batch ? `[${answers.map(({ data }) => data).join(',')}]` : answers[0]!.data;
    this.#give(refusal ? { kind: 'json', body, ...refusal } : { kind: 'json', body });
  }

  #give(reply: McpReply): void {
    this.#given = reply;
    this.#waiting?.resolve(reply);
  }
}

export interface ExchangeForm {
  readonly clock: McpClock;
  readonly mode: McpResponseMode;
  readonly sseAfterMs: number;
  /** Whether the answer is an array, even if it has one element. */
  readonly batch: boolean;
  /** Returns whether clients resume when a connection is closed, as from 2025-11-25 on (G9, G10). */
  clientsComeBack(): boolean;
  /**
   * Makes the stream, once.
   *
   * @param requests the ids of the requests that it will answer
   * @param cut to be called when no client will read the rest, by a sink that cannot be resumed
   */
  sink(requests: readonly RequestId[], cut: () => void): ExchangeSink;
  /** Called when no answer can be delivered: the client has disconnected, and cannot resume. */
  clientGone?(): void;
}

/** Takes the messages of an exchange once it is a stream: for the log of a session, or for the response itself. */
export interface ExchangeSink {
  /** Takes a message, the settlement of a request, the end, or any of them together. @returns settles when there is room for more */
  write(entry: SinkEntry): Promise<void>;
  /** Returns the events of the response. @param headOnly only the event with the client's cursor */
  events$(flow: StreamFlow, headOnly: boolean): Observable<McpEvent>;
  /** Closes the response of a stream that can be resumed. @returns whether there was one */
  disconnect(): boolean;
  /** Ends the stream, because no response will read it. */
  end(): void;
}

export interface SinkEntry {
  readonly data?: string;
  /** Its sender goes on before a log has it, while few bytes wait for the log. */
  readonly eager?: boolean;
  readonly settles?: RequestId;
  readonly end?: boolean;
}

type ExchangeState = Undecided | { is: 'streaming'; sink: ExchangeSink; opened: boolean } | { is: 'ended' };

interface Undecided {
  readonly is: 'undecided';
  readonly answers: { readonly data: string; readonly settles: RequestId }[];
  readonly settled: RequestId[];
  timer: ClockTimer | undefined;
}

const ENDED: ExchangeState = { is: 'ended' };
