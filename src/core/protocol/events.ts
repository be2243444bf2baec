/**
 * One event of a reply that streams, in the shape of Nest's `MessageEvent`. Only the room `http` writes it as SSE text.
 *
 * @internal
 */
export interface McpEvent {
  /** The event id of a logged message, or of the client's cursor. An id is never invented (P11). */
  readonly id?: string;
  /** One message as JSON. Empty: the event only moves the client's cursor (G9). Absent: the event is a comment (P12). */
  readonly data?: string;
  /** Milliseconds after which the client may reconnect, beside empty data. */
  readonly retry?: number;
}

/** The stream for messages that belong to no request; a GET without a cursor opens it. @internal */
export const STANDALONE_STREAM = '0';

/** A cursor is right behind the message with this index. @internal */
export interface Cursor {
  /** `0`, or the 22 characters of a POST's stream. */
  stream: string;
  /** The index of the message, from 1; 0 is the cursor before the first. */
  index: number;
}

/** 22 characters are the length of the ids that `randomToken` makes. No leading zeros: one cursor has one spelling. */
const EVENT_ID = /^(0|[A-Za-z0-9]{22})_(0|[1-9][0-9]{0,15})$/;

/**
 * Makes the SSE event id of a message (P11).
 *
 * @param stream `0`, or the id of a POST's stream
 * @param index of the message, from 1; 0 for the cursor before the first
 * @internal
 */
export function formatEventId(stream: string, index: number): string {
  return `${stream}_${index}`;
}

/**
 * Reads a `Last-Event-ID` (G3). Says nothing about whether such a stream exists.
 *
 * @param text the header's value
 * @returns the cursor, or `undefined` if the text is not exactly what {@link formatEventId} makes
 * @internal
 */
export function parseEventId(text: string): Cursor | undefined {
  const parts = EVENT_ID.exec(text);
  if (!parts) return undefined;
  const index = Number(parts[2]);
  // Sixteen digits reach beyond the safe integers, where two texts would mean the same number.
  return Number.isSafeInteger(index) ? { stream: parts[1]!, index } : undefined;
}
