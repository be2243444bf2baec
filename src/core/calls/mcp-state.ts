import { shown } from '../protocol/errors.js';

/**
 * State that belongs to a principal is the same in all of its calls, from any client.
 *
 * The data is one object of plain JSON. Nothing is stored before the first `patch`.
 *
 * @publicApi
 */
export interface McpPrincipalState {
  /**
   * The data at the time when the state was opened, or after the last `patch` through this object; empty while nothing
   * is stored.
   */
  readonly data: Readonly<Record<string, unknown>>;

  /**
   * Changes the data: merged key by key, `null` removes a key. Changes that other calls on this node make at the same
   * time to other keys take effect as well; if two nodes change one state at the same time, the later change wins.
   *
   * @param changes plain JSON; values that `JSON.stringify` omits are omitted
   * @returns the data after the change
   * @throws McpUnknownStateError when a state with a handle was deleted, or was not used for `idleTimeoutMs`
   * @throws McpStateError `STATE_TOO_LARGE` beyond `maxStateBytes`, `TOO_MANY_STATES` when there is no room for a new one;
   *   nothing has changed then
   * @throws TypeError when `changes` are no object, or cannot be JSON
   */
  patch(changes: Record<string, unknown>): Promise<Readonly<Record<string, unknown>>>;

  /** Deletes the data. @returns whether there was any */
  delete(): Promise<boolean>;
}

/**
 * State with a handle, which the server creates, and which the client passes back, for example as an argument of a tool.
 *
 * @publicApi
 */
export interface McpState extends McpPrincipalState {
  /**
   * The handle is unguessable: 22 characters of `[A-Za-z0-9]`. A caller with the same principal and this handle can use
   * the state.
   */
  readonly handle: string;
}

/**
 * The code says why there is no state, or why it was not changed.
 *
 * - `UNKNOWN_STATE`: the state does not exist, has expired, or belongs to another principal; always an
 *   {@link McpUnknownStateError}
 * - `NO_PRINCIPAL`: state of the principal was asked for, and the caller is anonymous
 * - `STATE_TOO_LARGE`: the data would have more than `maxStateBytes` as JSON
 * - `TOO_MANY_STATES`: the principal has as many states as it may have, or the anonymous callers have together
 * - `STORE_UNAVAILABLE`: the state store failed; its error is the `cause`. A change may have been stored
 *
 * @internal
 */
export type McpStateErrorCode =
  'UNKNOWN_STATE' | 'NO_PRINCIPAL' | 'STATE_TOO_LARGE' | 'TOO_MANY_STATES' | 'STORE_UNAVAILABLE';

/**
 * Thrown when state could not be opened or changed. Its message is for the client: a tool that throws it reports it.
 * @publicApi
 */
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
 * The state does not exist, has expired, or belongs to another principal: callers cannot tell which.
 *
 * @publicApi
 */
export class McpUnknownStateError extends McpStateError {
  override readonly name = 'McpUnknownStateError';
  constructor(readonly handle: string) {
    super(
      'UNKNOWN_STATE',
      `State with the handle ${shown(handle)} not found: it expired, was deleted, or never existed. Call again without a handle to create a new state, and use the handle that is returned.`,
    );
  }
}
