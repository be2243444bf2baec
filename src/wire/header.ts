/** Header of the session id, in the lower case of Node's header objects. @internal */
export const SESSION_ID_HEADER = 'mcp-session-id';

/** Header of the protocol revision, in the lower case of Node's header objects. @internal */
export const PROTOCOL_VERSION_HEADER = 'mcp-protocol-version';

/** Header of the cursor to resume from, in the lower case of Node's header objects. @internal */
export const LAST_EVENT_ID_HEADER = 'last-event-id';

/** Header that mirrors the method of a modern request, in the lower case of Node's header objects. @internal */
export const METHOD_HEADER = 'mcp-method';

/** Header that mirrors what a modern request names, in the lower case of Node's header objects. @internal */
export const NAME_HEADER = 'mcp-name';

/** Headers of a request as Node gives them: names in lower case. @internal */
export type RequestHeaders = Readonly<Record<string, string | string[] | undefined>>;

/**
 * The value of a header that may occur once.
 *
 * Several lines are joined as RFC 9110 §5.2 says, rather than one of them chosen: contradicting lines then fail their
 * validation, and no proxy in front can be made to read another value than we do.
 *
 * @param value as Node gives it
 * @returns the value, or `undefined` if the header is absent
 * @internal
 */
export function singleHeader(value: string | string[] | undefined): string | undefined {
  if (!Array.isArray(value)) return value;
  return value.length === 0 ? undefined : value.join(', ');
}
