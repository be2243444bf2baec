import { Observable, type Subscriber } from 'rxjs';
import { deferred, type Deferred, DONE } from '../common/promises.js';
import type { StreamFlow } from './reply.js';
import type { McpEvent } from '../protocol/events.js';
import type { ExchangeSink, SinkEntry } from './exchange.js';

/**
 * # The response itself as the stream of an exchange
 *
 * For clients without a session: there is no log and no event id, so a lost connection ends its requests. Messages are
 * handed over at once while the response takes them, and kept while it does not.
 *
 *     waiting ──events$()──▶ flowing ⇄ paused ──end, and all written──▶ closed
 *        any ──unsubscribed, overflow, abandoned──▶ closed (cut)
 *
 * Invariant: messages that wait for a slow reader are counted, and one more on top of `maxBufferedBytes` cuts the connection.
 */
export class ResponseSink implements ExchangeSink {
  #kept: string[] = [];
  #keptCharacters = 0;
  #subscriber: Subscriber<McpEvent> | undefined;
  #flow: StreamFlow | undefined;
  #ended = false;
  #closed = false;
  #room: Deferred<void> | undefined;

  constructor(
    private readonly maxBufferedBytes: number,
    /** Called when the client stops reading before the end. */
    private readonly cut: () => void,
  ) {}

  write({ data, end }: SinkEntry): Promise<void> {
    const room = data === undefined ? DONE : this.#push(data);
    if (end) {
      this.#ended = true;
      this.#release();
    }
    return room;
  }

  events$(flow: StreamFlow): Observable<McpEvent> {
    this.#flow = flow;
    return new Observable<McpEvent>((subscriber) => {
      // More than `maxBufferedBytes` arrived before there was a response.
      if (this.#closed) return subscriber.error(new Error('The client does not read.'));
      this.#subscriber = subscriber;
      subscriber.add(flow.resumed$.subscribe(() => this.#release()));
      subscriber.add(() => this.#close());
      this.#release();
    });
  }

  /** Closes nothing: the client could not resume. */
  disconnect(): boolean {
    return false;
  }

  end(): void {
    this.#close();
  }

  /** Writes data. @returns when there is room for more */
  #push(data: string): Promise<void> {
    if (this.#closed || this.#ended) return DONE;
    const subscriber = this.#subscriber;
    if (subscriber && !this.#flow!.paused) {
      subscriber.next({ data });
      return this.#flow!.paused ? this.#whenRoom() : DONE;
    }
    if (this.#keptCharacters > this.maxBufferedBytes) {
      // There is no log to read it from later: the connection ends, and the call with it (P13).
      this.#subscriber?.error(new Error('The client does not read.'));
      this.#close();
      return DONE;
    }
    this.#kept.push(data);
    this.#keptCharacters += data.length;
    return this.#whenRoom();
  }

  #release(): void {
    const subscriber = this.#subscriber;
    if (!subscriber || this.#closed) return;
    while (this.#kept.length > 0 && !this.#flow!.paused) {
      const data = this.#kept.shift()!;
      this.#keptCharacters -= data.length;
      subscriber.next({ data });
    }
    if (this.#kept.length > 0 || this.#flow!.paused) return;
    this.#room?.resolve();
    this.#room = undefined;
    if (this.#ended) subscriber.complete();
  }

  /** Ignores further messages from now on; a handler that waits for room continues. Idempotent. */
  #close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#kept = [];
    this.#room?.resolve();
    if (!this.#ended) this.cut();
  }

  #whenRoom(): Promise<void> {
    return (this.#room ??= deferred()).promise;
  }
}
