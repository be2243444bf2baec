/**
 * Leaves a handler by being thrown, and is no failure: no filter of the app sees it, nothing is logged, and it reaches
 * whoever serves the call as it is. A `catch` that would undo something may want to let it pass:
 * `if (error instanceof HandlerSignal) throw error;`.
 *
 * @publicApi
 */
export abstract class HandlerSignal extends Error {}

/** The call is over; nobody waits for the result. @internal */
export class HandlerCancelled extends HandlerSignal {
  override readonly name = 'HandlerCancelled';
  constructor(cause: unknown) {
    super('The call was cancelled.', { cause });
  }
}

/** The client must answer first; the handler runs again when it has. @internal */
export class HandlerSuspended extends HandlerSignal {
  override readonly name = 'HandlerSuspended';
}
