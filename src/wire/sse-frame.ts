/**
 * The SSE frame of one JSON-RPC message (behaviour.md P11).
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
 * The priming event: gives a client its cursor before there is any message (2025-11-25, behaviour.md §4).
 *
 * @param id the cursor that the response continues from
 * @param retryMs whole milliseconds after which the client may come back
 * @internal
 */
export function primingFrame(id: string, retryMs: number): string {
  return `id: ${id}\nretry: ${retryMs}\ndata:\n\n`;
}

/**
 * A comment: clients skip it, proxies take it for traffic (behaviour.md P12).
 *
 * @param text anything; line breaks become spaces, so that it cannot turn into fields of an event
 * @internal
 */
export function commentFrame(text = ''): string {
  return text === '' ? ':\n\n' : `: ${text.replace(/[\r\n]+/g, ' ')}\n\n`;
}
