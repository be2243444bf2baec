import { EMPTY, type Observable } from 'rxjs';
import type { Clock, ClockTimer } from '../base/clock.js';
import { deferred } from '../base/deferred.js';
import type { McpReply, StreamFlow } from '../context/mcp-reply.js';
import type { McpStream, StreamClaim } from '../stream/mcp-stream.js';
import type { RequestId } from '../wire/json-rpc.js';
import type { HttpRefusal } from '../context/served-call.js';
import type { ResponseMode } from './session.options.js';

/**
 * # One POST that carries requests, from its arrival to its last answer
 *
 * It decides late how to answer: a lone answer that is quick becomes a JSON body and never touches the event log;
 * anything else becomes a stream.
 *
 *     undecided ──last answer──────────────────────────────────▶ settled (JSON)
 *         ├──other message, closeStream(), sseAfterMs, 'sse'──▶ streaming ──last answer──▶ settled
 *         ├──all requests cancelled─────────────────────────▶ settled (an SSE head, and its end)
 *         └──client gone────────────────────────────────────▶ abandoned ──last answer──▶ settled
 *
 * Invariants: the reply is given exactly once; each request is settled exactly once, when its answer is logged, not when
 * it is delivered; a streaming exchange ends its stream with the last settlement, in the same append.
 */
export class PostExchange {
  readonly #reply = deferred<McpReply>();
  #state: ExchangeState;
  #unsettled: number;

  constructor(
    private readonly host: ExchangeHost,
    private readonly requests: readonly RequestId[],
    private readonly form: ExchangeForm,
  ) {
    this.#unsettled = requests.length;
    const timer = form.mode === 'auto' ? host.clock.setTimeout(() => this.#commit(), form.sseAfterMs) : undefined;
    this.#state = { is: 'undecided', answers: [], dismissed: [], timer };
    if (form.mode === 'sse') this.#commit();
  }

  /** The HTTP answer, once it is clear what it will be. */
  get reply(): Promise<McpReply> {
    return this.#reply.promise;
  }

  /** What this exchange can carry beside answers. */
  get carries(): 'messages' | 'answers' | 'nothing' {
    if (this.#state.is === 'abandoned' || this.#state.is === 'settled') return 'nothing';
    return this.form.mode === 'json' ? 'answers' : 'messages';
  }

  /** The stream, if the exchange has become one. */
  get stream(): McpStream | undefined {
    return this.#state.is === 'streaming' ? this.#state.stream : undefined;
  }

  /** Sends a message that is not an answer. Only while `carries` is `messages`. */
  deliver(data: string): Promise<void> {
    return this.#commit().write({ data });
  }

  /**
   * Answers one of the requests.
   *
   * @param data the response as JSON
   * @param refusal how HTTP says the same, if it can: a lone answer that nothing went ahead of
   */
  answer(id: RequestId, data: string, refusal?: HttpRefusal): Promise<void> {
    const last = --this.#unsettled === 0;
    const state = this.#state;
    switch (state.is) {
      case 'undecided':
        state.answers.push({ data, settles: id });
        if (last) this.#replyWithJson(state, this.form.batch ? undefined : refusal);
        return DONE;
      case 'streaming':
        if (last) this.#state = SETTLED;
        return state.stream.write({ data, settles: id, end: last });
      default:
        if (last) this.#state = SETTLED;
        return DONE;
    }
  }

  /** One of the requests ends without an answer. */
  dismiss(id: RequestId): void {
    const last = --this.#unsettled === 0;
    const state = this.#state;
    if (state.is === 'undecided') {
      state.dismissed.push(id);
      if (last) this.#replyWithJson(state);
    } else {
      if (last) this.#state = SETTLED;
      // A failing log has its own way to say so.
      if (state.is === 'streaming') state.stream.write({ settles: id, end: last }).catch(() => {});
    }
  }

  /** Ends the connection, not the stream: the client comes back for the rest. */
  closeStream(): boolean {
    if (this.carries !== 'messages' || !this.host.clientsComeBack) return false;
    const stream = this.#commit();
    if (!stream.disconnectReaders()) this.#closeOnOpen = true;
    return true;
  }
  #closeOnOpen = false;

  /** The client left. Unless a response was opened it never learnt an id with which it could come back. */
  abandon(): void {
    const state = this.#state;
    if (state.is === 'undecided') {
      this.host.clock.clear(state.timer);
      this.#reply.resolve({ kind: 'accepted' });
    } else if (state.is !== 'streaming' || state.opened) return;
    // Nobody will ever read what was logged.
    else state.stream.write({ end: true }).catch(() => {});
    this.#state = { is: 'abandoned' };
  }

  #commit(): McpStream {
    const state = this.#state;
    if (state.is === 'streaming') return state.stream;
    if (state.is !== 'undecided') throw new Error(`A POST that is ${state.is} cannot become a stream.`);
    this.host.clock.clear(state.timer);
    // What was cancelled already is nothing that the log should wait for.
    const stream = this.host.streams.begin(this.requests.filter((id) => !state.dismissed.includes(id)));
    const streaming: ExchangeState = { is: 'streaming', stream, opened: false };
    this.#state = streaming;
    if (state.answers.length === 0) stream.write({}).catch(() => {});
    for (const answer of state.answers) stream.write(answer).catch(() => {});
    this.#reply.resolve({
      kind: 'stream',
      open: (flow) => {
        streaming.opened = true;
        return this.host.streams.frames$(stream, 0, { flow, headOnly: this.#closeOnOpen });
      },
    });
    return stream;
  }

  #replyWithJson({ answers, timer }: Extract<ExchangeState, { is: 'undecided' }>, refusal?: HttpRefusal): void {
    this.host.clock.clear(timer);
    this.#state = SETTLED;
    if (answers.length === 0) return this.#reply.resolve({ kind: 'stream', open: () => EMPTY });
    const texts = answers.map(({ data }) => data);
    const body = this.form.batch ? `[${texts.join(',')}]` : texts[0]!;
    this.#reply.resolve({ kind: 'json', body, ...refusal });
  }
}

/** What an exchange needs of its session. */
export interface ExchangeHost {
  readonly clock: Clock;
  /** From 2025-11-25 on clients take a closed connection for an invitation to resume (behaviour G9, G10). */
  readonly clientsComeBack: boolean;
  readonly streams: ExchangeStreams;
}

export interface ExchangeStreams {
  /** The stream of a POST that has become one. */
  begin(requests: readonly RequestId[]): McpStream;
  /** The frames of one response that reads a stream. */
  frames$(stream: McpStream, after: number, options: FrameOptions): Observable<string>;
}

export interface FrameOptions {
  readonly flow: StreamFlow;
  /** What tells the client where it is, and no more. */
  readonly headOnly?: boolean;
  /** Of a response that has made itself the reader of its stream. */
  readonly claim?: StreamClaim | undefined;
}

export interface ExchangeForm {
  readonly mode: ResponseMode;
  readonly sseAfterMs: number;
  /** The answer is an array even if it has one element. */
  readonly batch: boolean;
}

interface Answer {
  readonly data: string;
  readonly settles: RequestId;
}

type ExchangeState =
  | { is: 'undecided'; answers: Answer[]; dismissed: RequestId[]; timer: ClockTimer | undefined }
  | { is: 'streaming'; stream: McpStream; opened: boolean }
  | { is: 'abandoned' }
  | { is: 'settled' };

const SETTLED: ExchangeState = { is: 'settled' };
const DONE = Promise.resolve();
