import { EMPTY, Observable, type Subscriber } from 'rxjs';
import type { Clock, ClockTimer } from '../../base/clock.js';
import { deferred, type Deferred } from '../../base/deferred.js';
import type { McpReply, McpServing, StreamFlow } from '../../context/mcp-reply.js';
import type { ResponseMode } from '../../session/session.options.js';
import { messageFrame } from '../../wire/sse-frame.js';
import type { HttpRefusal } from '../../context/served-call.js';

/**
 * # One modern request, from its arrival to its answer
 *
 * The request is its connection: there is no log, no event id, and nobody comes back. It decides late how to answer, as a
 * POST of the legacy era does.
 *
 *     undecided ──answer──────────────────────────────▶ over (JSON, with the status that fits)
 *         ├──other message, sseAfterMs, mode 'sse'──▶ streaming ──answer──▶ over
 *         └──client gone, cancelled──────────────────▶ over
 *     streaming ──client gone, or too slow──▶ over
 *
 * Invariants: the reply is given exactly once; `onOver` is called exactly once, `unanswered` when nobody will read an answer
 * any more; frames that wait for a slow reader are counted, and one more on top of `maxBufferedBytes` cuts the connection.
 */
export class ModernExchange implements McpServing {
  readonly #reply = deferred<McpReply>();
  #state: ExchangeState;

  constructor(private readonly host: ModernExchangeHost) {
    const { mode, sseAfterMs, clock } = host;
    this.#state = {
      is: 'undecided',
      timer: mode === 'auto' ? clock.setTimeout(() => this.stream(), sseAfterMs) : undefined,
    };
  }

  get reply(): Promise<McpReply> {
    return this.#reply.promise;
  }

  get over(): boolean {
    return this.#state.is === 'over';
  }

  /** The head of a stream is due, whatever comes first. */
  stream(): FrameQueue | undefined {
    const state = this.#state;
    if (state.is === 'over') return undefined;
    if (state.is === 'streaming') return state.frames;
    this.host.clock.clear(state.timer);
    const frames = new FrameQueue(this.host.maxBufferedBytes, () => this.#end('unanswered'));
    this.#state = { is: 'streaming', frames };
    this.#reply.resolve({ kind: 'stream', open: (flow) => frames.open(flow) });
    return frames;
  }

  /**
   * Sends a message that is not the answer.
   *
   * @param data JSON
   * @returns when the client can take more; at once if it never will
   */
  send(data: string): Promise<void> {
    // A JSON answer carries nothing else (behaviour P3); what comes after the answer is dropped (P8).
    if (this.host.mode === 'json') return DONE;
    return this.stream()?.push(messageFrame(undefined, data)) ?? DONE;
  }

  /**
   * @param data the response as JSON
   * @param http what HTTP shall say of it, while it still can
   */
  answer(data: string, http?: Partial<HttpRefusal>): void {
    const state = this.#state;
    if (state.is === 'over') return;
    if (state.is === 'streaming') {
      void state.frames.push(messageFrame(undefined, data));
      state.frames.complete();
    } else this.#reply.resolve({ kind: 'json', body: data, ...http });
    this.#end('answered');
  }

  /** Refuses the request, if nothing of an answer is out yet. @returns whether it did */
  refuse(error: Error): boolean {
    if (this.#state.is !== 'undecided') return false;
    this.#reply.reject(error);
    this.#end('answered');
    return true;
  }

  /** The client has gone. */
  abandon(): void {
    if (this.#state.is === 'undecided') this.#reply.resolve({ kind: 'stream', open: () => EMPTY });
    // A stream hears of it by being unsubscribed, unless it was never opened.
    if (this.#state.is !== 'streaming' || !this.#state.frames.opened) this.#end('unanswered');
  }

  #end(how: ExchangeEnd): void {
    const state = this.#state;
    if (state.is === 'over') return;
    if (state.is === 'undecided') this.host.clock.clear(state.timer);
    this.#state = OVER;
    // Whoever waits for room in it would wait for ever: it may never have been opened.
    if (state.is === 'streaming' && how === 'unanswered') state.frames.close();
    this.host.onOver(how);
  }
}

/** What an exchange needs of who serves it. */
export interface ModernExchangeHost {
  readonly clock: Clock;
  readonly mode: ResponseMode;
  readonly sseAfterMs: number;
  readonly maxBufferedBytes: number;
  onOver(how: ExchangeEnd): void;
}

export type ExchangeEnd = 'answered' | 'unanswered';

type ExchangeState =
  { is: 'undecided'; timer: ClockTimer | undefined } | { is: 'streaming'; frames: FrameQueue } | { is: 'over' };

const OVER: ExchangeState = { is: 'over' };
const DONE = Promise.resolve();

/**
 * The frames of one stream: handed over at once while its response takes them, kept while it does not.
 *
 *     waiting ──open()──▶ flowing ⇄ paused ──complete(), and all written──▶ closed
 *        any ──unsubscribed, overflow──▶ closed
 */
export class FrameQueue {
  #kept: string[] = [];
  #keptCharacters = 0;
  #subscriber: Subscriber<string> | undefined;
  #flow: StreamFlow | undefined;
  #completed = false;
  #closed = false;
  #room: Deferred<void> | undefined;

  constructor(
    private readonly maxBufferedBytes: number,
    /** Nobody reads any more, and not all was said. */
    private readonly onLost: () => void,
  ) {}

  get opened(): boolean {
    return this.#flow !== undefined;
  }

  open(flow: StreamFlow): Observable<string> {
    this.#flow = flow;
    return new Observable<string>((subscriber) => {
      // More came before there was a response than may wait for one.
      if (this.#closed) return subscriber.error(new Error('The client does not read.'));
      this.#subscriber = subscriber;
      subscriber.add(flow.resumed$.subscribe(() => this.#release()));
      subscriber.add(() => this.close());
      this.#release();
    });
  }

  /** @returns when there is room for more */
  push(frame: string): Promise<void> {
    if (this.#closed || this.#completed) return DONE;
    const subscriber = this.#subscriber;
    if (subscriber && !this.#flow!.paused) {
      subscriber.next(frame);
      return this.#flow!.paused ? this.#whenRoom() : DONE;
    }
    if (this.#keptCharacters > this.maxBufferedBytes) {
      // There is no log to read it from later: the connection ends, and the call with it (P13).
      this.#subscriber?.error(new Error('The client does not read.'));
      this.close();
      return DONE;
    }
    this.#kept.push(frame);
    this.#keptCharacters += frame.length;
    return this.#whenRoom();
  }

  complete(): void {
    this.#completed = true;
    this.#release();
  }

  #release(): void {
    const subscriber = this.#subscriber;
    if (!subscriber || this.#closed) return;
    while (this.#kept.length > 0 && !this.#flow!.paused) {
      const frame = this.#kept.shift()!;
      this.#keptCharacters -= frame.length;
      subscriber.next(frame);
    }
    if (this.#kept.length > 0 || this.#flow!.paused) return;
    this.#room?.resolve();
    this.#room = undefined;
    if (this.#completed) subscriber.complete();
  }

  /** Nothing more is taken, and nobody waits for room any more. Idempotent. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#kept = [];
    this.#room?.resolve();
    if (!this.#completed) this.onLost();
  }

  #whenRoom(): Promise<void> {
    return (this.#room ??= deferred()).promise;
  }
}
