import { BadRequestException, HttpException } from '@nestjs/common';
import { excerpt, RefusedCall } from '../protocol/errors.js';
import { isLarger } from '../protocol/values.js';

/** MCP's JSON-RPC code for a refusal that has none of its own: the specification leaves denials to HTTP. */
const DENIED = -32000;

/** Thrown for a handler that cannot be served; the app does not start. @publicApi */
export class McpHandlerDefinitionError extends Error {
  override readonly name = 'McpHandlerDefinitionError';
  readonly code = 'HANDLER_DEFINITION';
  constructor(
    /** Names the handler, such as `OrderTools.find`. */
    readonly origin: string,
    reason: string,
    options?: ErrorOptions,
  ) {
    super(`The MCP handler ${origin} cannot be served: ${reason}`, options);
  }
}

/** Thrown when two handlers of one endpoint have the same name. @publicApi */
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
 * Thrown when a handler returned a value that cannot be sent: a defect of the server, whose details are not sent to the client.
 *
 * @publicApi
 */
export class McpHandlerResultError extends Error {
  override readonly name = 'McpHandlerResultError';
  readonly code = 'HANDLER_RESULT';
}

/**
 * Thrown when a handler ran, or waited for its turn, longer than its `timeoutMs`. The client gets the text; the signal
 * of the call has the error as its `reason`.
 *
 * @publicApi
 */
export class McpHandlerTimeoutError extends Error {
  override readonly name = 'McpHandlerTimeoutError';
  readonly code = 'HANDLER_TIMEOUT';
}

/** A problem that the arguments of a call have. @internal */
export interface McpArgumentProblem {
  /** The place of the problem, such as `address.street`; empty: the arguments as a whole. */
  readonly path: string;
  readonly message: string;
}

/**
 * Thrown when the arguments of a call do not match the schema of its handler. It is a `BadRequestException`, so that
 * the filters of an app treat it like the error of a `ValidationPipe`.
 *
 * @publicApi
 */
export class McpArgumentsError extends BadRequestException {
  override readonly name = 'McpArgumentsError';
  readonly code = 'ARGUMENTS';

  /** Lists the first 100 problems, with shortened texts; the message names fewer. */
  readonly problems: readonly McpArgumentProblem[];

  constructor(problems: readonly McpArgumentProblem[]) {
    super(`The arguments are not valid: ${problemsText(problems)}.`);
    this.problems = problems.slice(0, MAX_KEPT_PROBLEMS).map(({ path, message }) => ({
      path: excerpt(path),
      message: excerpt(message),
    }));
  }
}

/** @throws McpArgumentsError for arguments that have more values */
export function assertValues(args: unknown, max: number): void {
  if (!isLarger(args, max)) return;
  const message = `they have more than ${max} values ("maxValues"). Send fewer at once, or as one text`;
  throw new McpArgumentsError([{ path: '', message }]);
}

/**
 * Thrown when a guard refused the caller: status 401 or 403. The denial of a tool becomes a result, unless it {@link
 * challenges} or the option `denials` decides otherwise. Any other denial is the HTTP status while nothing of the
 * answer was sent; after that, and for a message of a batch, it is a JSON-RPC error.
 *
 * @internal
 */
export class HandlerDeniedError extends RefusedCall {
  override readonly name = 'HandlerDeniedError';

  /** @param headers that the guard has set on the response */
  constructor(
    status: number,
    message: string,
    headers: Readonly<Record<string, string>>,
    options?: ErrorOptions & { readonly data?: unknown },
  ) {
    super(DENIED, message, status, headers, options);
  }

  /** Returns whether the client must authorize first, which it does over HTTP. */
  get challenges(): boolean {
    return this.status === 401 || 'www-authenticate' in this.headers;
  }
}

/**
 * Returns whether a guard refused the caller without a challenge. A Proxy may throw when it is inspected; then it did
 * not.
 */
export function isPlainDenial(error: unknown): error is HandlerDeniedError {
  try {
    return error instanceof HandlerDeniedError && !error.challenges;
  } catch {
    return false;
  }
}

/**
 * A denying exception holds `data` of the JSON-RPC error in this property. It is a symbol, because exceptions of apps have
 * properties that clients must not receive.
 *
 * @internal
 */
export const DENIAL_DATA: unique symbol = Symbol('nestjs-mcp-streamable:denial-data');

/** Returns whether an exception denies the caller what it asks. */
export function isDenial(error: unknown): error is HttpException {
  return isHttpException(error) && (error.getStatus() === 401 || error.getStatus() === 403);
}

/** Returns whether an error is an HttpException. A Proxy may throw when it is inspected; then it is none. */
export function isHttpException(error: unknown): error is HttpException {
  try {
    return error instanceof HttpException;
  } catch {
    return false;
  }
}

/** A message names at most so many problems. */
const MAX_PROBLEMS = 8;
const MAX_KEPT_PROBLEMS = 100;

/** Returns the first problems, shortened. */
export function problemsText(problems: readonly McpArgumentProblem[]): string {
  const first = problems.slice(0, MAX_PROBLEMS).map(({ path, message }) => {
    // The messages of some libraries already begin with the path.
    const text = (path === '' || message.startsWith(path) ? message : `${path}: ${message}`).replace(/\.$/, '');
    return excerpt(text);
  });
  const more = problems.length - first.length;
  return first.join('; ') + (more > 0 ? `; and ${more} more` : '');
}

export function namesText(known: readonly string[]): string {
  return known.length === 0 ? 'None is available.' : `Available: ${known.map((name) => `"${name}"`).join(', ')}.`;
}
