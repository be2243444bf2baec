import { handlerMessages } from './handlers.messages.js';

/** A handler that cannot be served; the app does not start. @publicApi */
export class HandlerDefinitionError extends Error {
  override readonly name = 'HandlerDefinitionError';
  readonly code = 'HANDLER_DEFINITION';
  constructor(
    /** Which handler: `OrderTools.find`. */
    readonly origin: string,
    reason: string,
    options?: ErrorOptions,
  ) {
    super(handlerMessages.definition(origin, reason), options);
  }
}

/** Two handlers of one endpoint have the same name. @publicApi */
export class DuplicateHandlerError extends Error {
  override readonly name = 'DuplicateHandlerError';
  readonly code = 'HANDLER_DUPLICATE';
  constructor(
    readonly kind: string,
    readonly key: string,
    first: string,
    second: string,
  ) {
    super(handlerMessages.duplicate(kind, key, first, second));
  }
}
