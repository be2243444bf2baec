/** The stream of what belongs to no request; a GET without a cursor opens it. @internal */
export const STANDALONE_STREAM = '0';

/** A place on a stream: right behind the message with this index. @internal */
export interface Cursor {
  /** `0`, or the 22 characters of a POST's stream. */
  stream: string;
  /** Messages are dense from 1; 0 is the cursor before the first. */
  index: number;
}

/** 22 characters are the length of the ids that `randomToken` makes. No leading zeros: one cursor has one spelling. */
const EVENT_ID = /^(0|[A-Za-z0-9]{22})_(0|[1-9][0-9]{0,15})$/;

/**
 * The SSE event id of a message (behaviour.md §4).
 *
 * @param stream `0`, or the id of a POST's stream
 * @param index of the message, from 1; 0 for the cursor before the first
 * @internal
 */
export function formatEventId(stream: string, index: number): string {
  return `${stream}_${index}`;
}

/**
 * Reads a `Last-Event-ID` (behaviour.md §4 and G3). Says nothing about whether such a stream exists.
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
