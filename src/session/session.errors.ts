import { sessionMessages } from './session.messages.js';

/**
 * Why a request could not be sent to the client, or stayed without an answer.
 *
 * - `NO_STREAM`: no response is open that could carry it
 * - `CALL_OVER`: the request on whose behalf it was sent is over
 * - `CLIENT_LACKS_CAPABILITY`: the client did not declare that it understands it
 * - `SESSION_OVER`: the session has ended
 * - `STORE_UNAVAILABLE`: the event store did not do what it was asked; its error is the `cause`. A notification too fails so
 *
 * @publicApi
 */
export type ServerRequestErrorCode =
  'NO_STREAM' | 'CALL_OVER' | 'CLIENT_LACKS_CAPABILITY' | 'SESSION_OVER' | 'STORE_UNAVAILABLE';

/** A request of the server that the client will not see. Nothing was sent. @publicApi */
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

/** The option `server` returned something that cannot serve a session. @publicApi */
export class ServerFactoryError extends Error {
  override readonly name = 'ServerFactoryError';
  readonly code = 'SERVER_FACTORY';
}

/** @publicApi */
export class UnknownSessionError extends Error {
  override readonly name = 'UnknownSessionError';
  readonly code = 'UNKNOWN_SESSION';
  constructor(readonly sessionId: string) {
    super(sessionMessages.unknownSession(sessionId));
  }
}
