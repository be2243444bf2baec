import type { Observer, Subscriber } from 'rxjs';
import type { StoredEvent } from '../stream/event-store.js';
import { formatEventId, messageFrame } from '../wire/sse.js';

/** The events of a stream as frames, for one response: an object, since three functions would be three times as large. */
export class StreamFrames implements Observer<StoredEvent> {
  constructor(
    private readonly streamId: string,
    private readonly response: Subscriber<string>,
    private readonly owner: { suspect(error: unknown): void },
  ) {}

  next({ index, data }: StoredEvent): void {
    this.response.next(messageFrame(formatEventId(this.streamId, index), data));
  }

  error(error: unknown): void {
    this.owner.suspect(error);
    this.response.error(error);
  }

  complete(): void {
    this.response.complete();
  }
}
