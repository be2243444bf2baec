/** Longer values are cut: enough to recognise one's own, too short to fill a log. */
const SHOWN_CHARACTERS = 100;

/**
 * A value as an error shows it: its JSON, cut to 100 characters.
 *
 * @returns `nothing` for `undefined`; never throws
 * @internal
 */
export function shown(value: unknown): string {
  if (value === undefined) return 'nothing';
  // A long text is cut first, lest megabytes be escaped for nothing.
  const json = toJson(typeof value === 'string' ? value.slice(0, SHOWN_CHARACTERS + 1) : value);
  return json.length > SHOWN_CHARACTERS ? `${json.slice(0, SHOWN_CHARACTERS)}…` : json;
}

/** `JSON.parse` takes any depth, `JSON.stringify` overflows the stack: an error text must not become a second error. */
function toJson(value: unknown): string {
  try {
    return JSON.stringify(value) ?? `a ${typeof value}`;
  } catch {
    return 'a value that is nested too deeply to be shown';
  }
}

/** What users read of this room. */
export const wireMessages = {
  notificationOfOtherEra: (method: string, era: string) =>
    `"${method}" cannot be sent: ${era === 'modern' ? 'revision 2026-07-28' : 'the revision of this session'} has no such notification of a server.`,
  noUrlElicitation: (method: string) =>
    `"${method}" cannot be sent: the client did not declare the capability "elicitation.url".`,
  emptyBody: () => 'The body is empty. Send one JSON-RPC 2.0 message as JSON.',
  notJson: (text: string) => `The body is not JSON: ${shown(text)}. Send one JSON-RPC 2.0 message as JSON, in UTF-8.`,
  emptyBatch: () => 'The batch is empty: []. Send at least one JSON-RPC 2.0 message.',
  inBatch: (position: number, problem: string) => `Message ${position} of the batch (counted from 0): ${problem}`,
  notAnObject: (value: unknown) =>
    `A JSON-RPC message must be an object, but it is ${shown(value)}. Send an object with "jsonrpc": "2.0".`,
  wrongVersion: (value: unknown) =>
    `"jsonrpc" must be "2.0", but it is ${shown(value)}. Add "jsonrpc": "2.0" to the message.`,
  wrongId: (value: unknown) =>
    `"id" must be a string or an integer of at most 2^53 - 1 either way, but it is ${shown(value)}. Send another id, or none for a notification.`,
  missingId: (method: string) =>
    `${shown(method)} is a request, but the message has no "id", so it could not be answered. Add an "id".`,
  responseWithoutId: () =>
    'The message has a "result", but its "id" is missing. Add the "id" of the request that it answers.',
  noKind: (value: unknown) =>
    `The message has neither "method" nor "result" nor "error": ${shown(value)}. Send a request, a notification or a response.`,
  mixedKinds: (value: unknown) =>
    `The message has more than one of "method", "result" and "error": ${shown(value)}. Send either a request or a response, and in a response either a result or an error.`,
  wrongMethod: (value: unknown) =>
    `"method" must be a string, but it is ${shown(value)}. Send the name of a method, such as "tools/list".`,
  wrongParams: (value: unknown) =>
    `"params" must be an object, but it is ${shown(value)}. MCP names its parameters: send an object, or leave "params" out.`,
  wrongResult: (value: unknown) =>
    `"result" must be an object, but it is ${shown(value)}. Send an object, which may be empty.`,
  wrongError: (value: unknown) =>
    `"error" must be an object with an integer "code" and a string "message", but it is ${shown(value)}. Send both.`,
  wrongMeta: (value: unknown) =>
    `"_meta" must be an object, but it is ${shown(value)}. Send an object, or leave it out.`,
  wrongProgressToken: (value: unknown) =>
    `"_meta.progressToken" must be a string or an integer, but it is ${shown(value)}. Send such a token, or leave it out.`,
  wrongRelatedTask: (key: string, value: unknown) =>
    `${shown(key)} in "_meta" must be an object with a string "taskId", but it is ${shown(value)}. Send the task's id, or leave it out.`,
};
