import { isProgress, type ToolLog, type ToolProgress } from './tool-event.js';

/** How many reports wait before those of progress are merged: far more than a source emits in one go. */
const MAX_WAITING = 256;

/**
 * Sends the reports of a source that cannot be paused: one after the other, the first at once.
 *
 * While many wait for a slow client, a report of progress takes the place of the one before it: each says more than
 * the last. So a source that only reports progress holds a few hundred in memory, however slow the client is. Log
 * messages are never dropped: a source that logs faster than its client reads should be an async iterable, which is asked
 * for the next report only when the last one is sent.
 */
export class EventQueue {
  #waiting: (ToolProgress | ToolLog)[] = [];
  #sending: Promise<void> | undefined;
  #ended = false;

  constructor(
    private readonly send: (event: ToolProgress | ToolLog) => Promise<void>,
    /** A report could not be sent; those behind it are not sent either. */
    private readonly failed: (error: unknown) => void,
  ) {}

  push(event: ToolProgress | ToolLog): void {
    const last = this.#waiting.length - 1;
    if (last + 1 >= MAX_WAITING && isProgress(event) && isProgress(this.#waiting[last]!)) this.#waiting[last] = event;
    else this.#waiting.push(event);
    this.#sending ??= this.#sendAll();
  }

  /** Settles when nothing waits. Never rejects. */
  flushed(): Promise<void> {
    return this.#sending ?? Promise.resolve();
  }

  /** Nothing more is sent. */
  end(): void {
    this.#ended = true;
    this.#waiting = [];
  }

  /** Runs to its first `await` before `push` returns: that is what sends the first report at once. */
  async #sendAll(): Promise<void> {
    try {
      while (this.#waiting.length > 0) {
        const batch = this.#waiting;
        this.#waiting = [];
        for (const event of batch) if (!this.#ended) await this.send(event);
      }
    } catch (error) {
      this.end();
      this.failed(error);
    } finally {
      this.#sending = undefined;
    }
  }
}
