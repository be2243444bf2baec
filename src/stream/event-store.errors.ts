import { streamMessages } from './stream.messages.js';

/** A final refusal of an event store; anything else that it throws is taken for a passing fault. @publicApi */
export abstract class EventStoreError extends Error {
  abstract readonly code: string;
  override get name(): string {
    return this.constructor.name;
  }
}

/** The session was never opened, or was dropped. @publicApi */
export class SessionGoneError extends EventStoreError {
  readonly code = 'SESSION_GONE';
  constructor(readonly session: string) {
    super(streamMessages.sessionGone());
  }
}

/** The stream was never written to, or is forgotten. @publicApi */
export class StreamNotFoundError extends EventStoreError {
  readonly code = 'STREAM_NOT_FOUND';
  constructor(readonly stream: string) {
    super(streamMessages.streamNotFound(stream));
  }
}

/** The stream has ended: it takes no more events. @publicApi */
export class StreamEndedError extends EventStoreError {
  readonly code = 'STREAM_ENDED';
  constructor(readonly stream: string) {
    super(streamMessages.streamEnded(stream));
  }
}

/** A reader that was too slow: its next event was evicted (P13). Its response is cut, and its client comes back. @internal */
export class EventsEvictedError extends EventStoreError {
  readonly code = 'EVENTS_EVICTED';
  constructor(
    readonly stream: string,
    readonly after: number,
    /** Index of the oldest event that is kept. */
    readonly oldest: number,
  ) {
    super(streamMessages.eventsEvicted(stream, after, oldest));
  }
}

/** The inbox of a session is full: it evicts nothing. @publicApi */
export class EventLogFullError extends EventStoreError {
  readonly code = 'EVENT_LOG_FULL';
  constructor(
    readonly stream: string,
    readonly limit: string,
  ) {
    super(streamMessages.eventLogFull(stream, limit));
  }
}

/** The log could not be written for so long that what waits for it would grow without bound. @publicApi */
export class StreamOverflowError extends EventStoreError {
  readonly code = 'STREAM_OVERFLOW';
  constructor(
    readonly stream: string,
    readonly maxQueuedBytes: number,
  ) {
    super(streamMessages.streamOverflow(stream, maxQueuedBytes));
  }
}
