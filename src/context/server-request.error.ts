/**
 * Why a request could not be sent to the client, or stayed without an answer.
 *
 * - `NO_STREAM`: no response is open that could carry it
 * - `CALL_OVER`: the request on whose behalf it was sent is over
 * - `CLIENT_LACKS_CAPABILITY`: the client did not declare that it understands it
 * - `SESSION_OVER`: the session has ended
 * - `STORE_UNAVAILABLE`: the event store did not do what it was asked; its error is the `cause`. A notification too fails so
 * - `CANCELLED`: the `signal` of the request gave it up
 * - `INVALID_ANSWER`: the client answered with something else than what it was asked for
 *
 * @publicApi
 */
export type ServerRequestErrorCode =
  | 'NO_STREAM'
  | 'CALL_OVER'
  | 'CLIENT_LACKS_CAPABILITY'
  | 'SESSION_OVER'
  | 'STORE_UNAVAILABLE'
  | 'CANCELLED'
  | 'INVALID_ANSWER';

/** A request of the server that the client will not see, or has no answer to. @publicApi */
export class ServerRequestError extends Error {
  override readonly name = 'ServerRequestError';
  constructor(
    readonly code: ServerRequestErrorCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}
