/**
 * Thrown to leave a handler without a failure: filters of the app do not see it, and it is not logged. A `catch` that
 * handles failures should rethrow it: `if (error instanceof McpHandlerSignal) throw error;`.
 *
 * @publicApi
 */
export abstract class McpHandlerSignal extends Error {}

/** Thrown when the call has ended: its result is not needed. @internal */
export class HandlerCancelled extends McpHandlerSignal {
  override readonly name = 'HandlerCancelled';
  constructor(cause: unknown) {
    super('The call was cancelled.', { cause });
  }
}

/** Thrown when the client must answer first; the handler runs again when it has. @internal */
export class HandlerSuspended extends McpHandlerSignal {
  override readonly name = 'HandlerSuspended';
}

/** Thrown when the call is answered without its method, such as by an earlier result. @internal */
export class HandlerSkipped extends McpHandlerSignal {
  override readonly name = 'HandlerSkipped';
}
