/** Refuses a command of an event store for good; any other error of a store counts as a transient fault. @publicApi */
export abstract class McpEventStoreError extends Error {
  abstract readonly code: string;
  override get name(): string {
    return this.constructor.name;
  }
}

/** The session was never opened, or was dropped. @publicApi */
export class McpSessionGoneError extends McpEventStoreError {
  readonly code = 'SESSION_GONE';
  constructor(readonly session: string) {
    super('The session has ended: its event log can be neither read nor written. Start a new session.');
  }
}

/** The stream was never written to, or has been removed. @publicApi */
export class McpStreamNotFoundError extends McpEventStoreError {
  readonly code = 'STREAM_NOT_FOUND';
  constructor(readonly stream: string) {
    super(
      `Stream "${stream}" does not exist in this session: it was never started, or it finished and has expired. Repeat the request.`,
    );
  }
}

/** The stream has ended: it takes no more events. @publicApi */
export class McpStreamEndedError extends McpEventStoreError {
  readonly code = 'STREAM_ENDED';
  constructor(readonly stream: string) {
    super(`Stream "${stream}" has ended: no event can be added to it.`);
  }
}

/**
 * The reader was too slow: its next event was evicted (P13). Its response is destroyed, and its client reconnects.
 *
 * @internal
 */
export class EventsEvictedError extends McpEventStoreError {
  readonly code = 'EVENTS_EVICTED';
  constructor(
    readonly stream: string,
    readonly after: number,
    /** Index of the oldest event that is kept. */
    readonly oldest: number,
  ) {
    super(
      `The reader of stream "${stream}" was too slow: it has read up to event ${after}, and the oldest event kept is ${oldest}. Read faster, or raise "eventLog.maxEvents" or "eventLog.maxBytes".`,
    );
  }
}

/** The inbox of a session is full: it evicts nothing. @publicApi */
export class McpEventLogFullError extends McpEventStoreError {
  readonly code = 'EVENT_LOG_FULL';
  constructor(
    readonly stream: string,
    readonly limit: string,
  ) {
    super(
      `The event log of stream "${stream}" is full: more messages arrived within a minute than "${limit}" allows. Send fewer at a time, or raise the limit.`,
    );
  }
}

/** The log could not be written, and too many bytes wait for it. @publicApi */
export class McpStreamOverflowError extends McpEventStoreError {
  readonly code = 'STREAM_OVERFLOW';
  constructor(
    readonly stream: string,
    readonly maxQueuedBytes: number,
  ) {
    super(
      `More than ${maxQueuedBytes} bytes wait for stream "${stream}" while the event store fails: the stream is abandoned. Check the event store.`,
    );
  }
}

/**
 * The stream of a POST was given up, because the log did not take its messages (G13). It fails the responses that read the
 * stream, which end with the answers.
 *
 * @internal
 */
export class StreamGivenUpError extends Error {
  override readonly name = 'StreamGivenUpError';
  constructor(
    /** The answer of each open request as JSON, if it is known, otherwise an error. */
    readonly answers: readonly string[],
    cause: Error,
  ) {
    super('The stream was given up, because the event store did not take its messages.', { cause });
  }
}

/** Answers a request whose answer the event log has lost, or never got. */
export const ANSWER_LOST =
  'The storage of this server has failed and lost the answer to this request, which may have had its effect. Repeat it if that does no harm.';

/** Tells whether repeating the call would not help. */
export const isFinal = (error: unknown): error is McpEventStoreError => error instanceof McpEventStoreError;

/** Tells whether the stream or its session has ended, maybe on another node. */
export const isOver = (error: unknown): boolean =>
  error instanceof McpStreamEndedError || error instanceof McpSessionGoneError;
