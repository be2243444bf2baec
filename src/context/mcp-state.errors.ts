import { callMessages } from './mcp-execution-context.js';

/**
 * Why there is no state, or why it was not changed.
 *
 * - `UNKNOWN_STATE`: the handle is of no state of this caller (any more); always an {@link UnknownStateError}
 * - `NO_PRINCIPAL`: state of the principal was asked for, and the caller is anonymous
 * - `STATE_TOO_LARGE`: the data would have more than `maxStateBytes` as JSON
 * - `TOO_MANY_STATES`: the principal has as many states as it may have, or the anonymous callers have together
 * - `STORE_UNAVAILABLE`: the state store did not do what it was asked; its error is the `cause`. A change may have been made
 *
 * @publicApi
 */
export type McpStateErrorCode =
  'UNKNOWN_STATE' | 'NO_PRINCIPAL' | 'STATE_TOO_LARGE' | 'TOO_MANY_STATES' | 'STORE_UNAVAILABLE';

/** State that cannot be had. Its message is meant for the client: a tool that throws it reports it. @publicApi */
export class McpStateError extends Error {
  override readonly name: string = 'McpStateError';
  constructor(
    readonly code: McpStateErrorCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/**
 * The handle is of no state, of one that is gone, or of another principal's: callers do not learn which.
 *
 * @publicApi
 */
export class UnknownStateError extends McpStateError {
  override readonly name = 'UnknownStateError';
  constructor(readonly handle: string) {
    super('UNKNOWN_STATE', callMessages.unknownState(handle));
  }
}
