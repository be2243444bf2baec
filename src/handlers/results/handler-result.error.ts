/** A handler returned what cannot be sent: a mistake of the server, of which the client learns nothing. @publicApi */
export class HandlerResultError extends Error {
  override readonly name = 'HandlerResultError';
  readonly code = 'HANDLER_RESULT';
}
