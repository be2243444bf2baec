import { BadRequestException, HttpException } from '@nestjs/common';
import { RefusedCall } from '../protocol/errors.js';

/** MCP's JSON-RPC code for a refusal that has none of its own: the specification leaves denials to HTTP. */
const DENIED = -32000;

/** A handler that cannot be served; the app does not start. @publicApi */
export class McpHandlerDefinitionError extends Error {
  override readonly name = 'McpHandlerDefinitionError';
  readonly code = 'HANDLER_DEFINITION';
  constructor(
    /** Which handler: `OrderTools.find`. */
    readonly origin: string,
    reason: string,
    options?: ErrorOptions,
  ) {
    super(`The MCP handler ${origin} cannot be served: ${reason}`, options);
  }
}

/** Two handlers of one endpoint have the same name. @publicApi */
export class McpDuplicateHandlerError extends Error {
  override readonly name = 'McpDuplicateHandlerError';
  readonly code = 'HANDLER_DUPLICATE';
  constructor(
    readonly kind: string,
    readonly key: string,
    first: string,
    second: string,
  ) {
    super(
      `Two MCP handlers of kind "${kind}" have the name "${key}": ${first} and ${second}. Rename one, or assign them to different endpoints (option "name").`,
    );
  }
}

/**
 * A handler returned a value that cannot be sent: a defect of the server, whose details are not sent to the client.
 *
 * @publicApi
 */
export class McpHandlerResultError extends Error {
  override readonly name = 'McpHandlerResultError';
  readonly code = 'HANDLER_RESULT';
}

/**
 * A handler ran, or waited for its turn, longer than its `timeoutMs`. The client gets its text; the signal of the call has it
 * as its `reason`.
 *
 * @publicApi
 */
export class McpHandlerTimeoutError extends Error {
  override readonly name = 'McpHandlerTimeoutError';
  readonly code = 'HANDLER_TIMEOUT';
}

/** One thing that is wrong with the arguments of a call. @internal */
export interface McpArgumentProblem {
  /** Where, such as `address.street`; empty: in the arguments as a whole. */
  readonly path: string;
  readonly message: string;
}

/**
 * The arguments of a call do not match the schema of its handler. A `BadRequestException`, so that the filters of an app
 * treat it as what a `ValidationPipe` throws.
 *
 * @publicApi
 */
export class McpArgumentsError extends BadRequestException {
  override readonly name = 'McpArgumentsError';
  readonly code = 'ARGUMENTS';

  constructor(
    /** All of them; the message names the first ones, shortened. */
    readonly problems: readonly McpArgumentProblem[],
  ) {
    super(`The arguments are not valid: ${problemsText(problems)}.`);
  }
}

/**
 * A guard refused the caller: status 401 or 403. That of a tool becomes a result, unless it {@link challenges} or the
 * option `denials` says otherwise. Any other is the HTTP status while nothing of the answer was sent; after that, and
 * for a message of a batch, it is a JSON-RPC error.
 *
 * @internal
 */
export class HandlerDeniedError extends RefusedCall {
  override readonly name = 'HandlerDeniedError';

  /** @param headers those that the guard has set on the response */
  constructor(
    status: number,
    message: string,
    headers: Readonly<Record<string, string>>,
    options?: ErrorOptions & { readonly data?: unknown },
  ) {
    super(DENIED, message, status, headers, options);
  }

  /** Whether the client must authorize first, which it does over HTTP. */
  get challenges(): boolean {
    return this.status === 401 || 'www-authenticate' in this.headers;
  }
}

/** Whether a guard refused the caller, and asks for nothing. A Proxy may throw when it is inspected; then it did not. */
export function isPlainDenial(error: unknown): error is HandlerDeniedError {
  try {
    return error instanceof HandlerDeniedError && !error.challenges;
  } catch {
    return false;
  }
}

/**
 * Property of a denying exception for `data` of the JSON-RPC error. A symbol, because exceptions of apps have
 * properties that clients must not receive.
 *
 * @internal
 */
export const DENIAL_DATA: unique symbol = Symbol('nestjs-mcp-streamable:denial-data');

/** Whether an exception says that the caller may not do what it asks. */
export function isDenial(error: unknown): error is HttpException {
  return isHttpException(error) && (error.getStatus() === 401 || error.getStatus() === 403);
}

/** A Proxy may throw when it is inspected; then it is not an HttpException. */
export function isHttpException(error: unknown): error is HttpException {
  try {
    return error instanceof HttpException;
  } catch {
    return false;
  }
}

/**
 * Thrown to leave a handler without a failure: filters of the app do not see it, and it is not logged. A `catch` that
 * handles failures should rethrow it: `if (error instanceof McpHandlerSignal) throw error;`.
 *
 * @publicApi
 */
export abstract class McpHandlerSignal extends Error {}

/** The call is over; its result is not needed. @internal */
export class HandlerCancelled extends McpHandlerSignal {
  override readonly name = 'HandlerCancelled';
  constructor(cause: unknown) {
    super('The call was cancelled.', { cause });
  }
}

/** The client must answer first; the handler runs again when it has. @internal */
export class HandlerSuspended extends McpHandlerSignal {
  override readonly name = 'HandlerSuspended';
}

/** How many problems a message names. */
const MAX_PROBLEMS = 8;
const MAX_PROBLEM_CHARACTERS = 200;

/** The first problems, shortened. */
export function problemsText(problems: readonly McpArgumentProblem[]): string {
  const first = problems.slice(0, MAX_PROBLEMS).map(({ path, message }) => {
    // The messages of some libraries already begin with the path.
    const text = (path === '' || message.startsWith(path) ? message : `${path}: ${message}`).replace(/\.$/, '');
    return text.length <= MAX_PROBLEM_CHARACTERS ? text : `${text.slice(0, MAX_PROBLEM_CHARACTERS)}…`;
  });
  const more = problems.length - first.length;
  return first.join('; ') + (more > 0 ? `; and ${more} more` : '');
}

export function namesText(known: readonly string[]): string {
  return known.length === 0 ? 'None is available.' : `Available: ${known.map((name) => `"${name}"`).join(', ')}.`;
}
