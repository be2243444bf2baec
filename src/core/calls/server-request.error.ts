/**
 * The code says why a request was not sent to the client, or has no answer.
 *
 * - `NO_STREAM`: no response is open that could carry it
 * - `CALL_OVER`: the client request that it belongs to is over
 * - `CLIENT_LACKS_CAPABILITY`: the client did not declare the capability that it needs
 * - `SESSION_OVER`: the session has ended
 * - `STORE_UNAVAILABLE`: a store failed; its error is the `cause`. Notifications, and all methods of `McpSessionService`, also fail with it
 * - `CANCELLED`: the `signal` of the request has aborted
 * - `INVALID_ANSWER`: the answer of the client does not match the request
 * - `CLIENT_ERROR`: the client answered with a JSON-RPC error, which is the `cause`, a `ProtocolError` of the SDK
 *
 * @internal
 */
export type McpServerRequestErrorCode =
  | 'NO_STREAM'
  | 'CALL_OVER'
  | 'CLIENT_LACKS_CAPABILITY'
  | 'SESSION_OVER'
  | 'STORE_UNAVAILABLE'
  | 'CANCELLED'
  | 'INVALID_ANSWER'
  | 'CLIENT_ERROR';

/** Thrown when a request of the server was not sent to the client, or has no valid answer. @publicApi */
export class McpServerRequestError extends Error {
  override readonly name = 'McpServerRequestError';
  constructor(
    readonly code: McpServerRequestErrorCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Makes the error that an app gets when a store has failed. A handler that does not catch it sends its text to the client. */
export function storeUnavailable(cause: unknown): McpServerRequestError {
  const text = 'The storage of this server is unavailable. The request may be repeated: try again soon.';
  return new McpServerRequestError('STORE_UNAVAILABLE', text, { cause });
}
