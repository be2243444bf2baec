/**
 * The SSE frame of one JSON-RPC message (P11).
 *
 * The text is not escaped, as there is nothing to escape: `JSON.stringify` without indentation writes line breaks inside
 * strings as `\n` and `\r`, and U+2028 and U+2029 end no line in SSE. Other text must not be given.
 *
 * @param id the event id, or `undefined` for a frame without one: an id is never invented
 * @param data the message as JSON on one line
 * @internal
 */
export function messageFrame(id: string | undefined, data: string): string {
  return id === undefined ? `event: message\ndata: ${data}\n\n` : `event: message\nid: ${id}\ndata: ${data}\n\n`;
}

/**
 * The priming event: gives a client its cursor before there is any message (2025-11-25, G9).
 *
 * @param id the cursor that the response continues from
 * @param retryMs whole milliseconds after which the client may reconnect
 * @internal
 */
export function primingFrame(id: string, retryMs: number): string {
  return `id: ${id}\nretry: ${retryMs}\ndata:\n\n`;
}

/** A comment: clients skip it, proxies take it for traffic (P12). @internal */
export function commentFrame(): string {
  return ':\n\n';
}

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
 * The SSE event id of a message (P11).
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
