import { HttpException } from '@nestjs/common';

/**
 * A guard did not let the caller in: status 401 or 403. While nothing of the answer was sent, that is the HTTP status; after
 * that, and for a message of a batch, it is a JSON-RPC error.
 *
 * @internal
 */
export class HandlerDeniedError extends Error {
  override readonly name = 'HandlerDeniedError';
  /** Of the JSON-RPC error, where the SDK takes it from: MCP's code for a refusal that has none of its own. */
  readonly code = -32000;

  constructor(
    readonly status: number,
    message: string,
    /** What was set on the response on the way, such as `WWW-Authenticate`. Names in lower case. */
    readonly headers: Readonly<Record<string, string>>,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Whether an exception says that a caller may not do what he asks. */
export function isDenial(error: unknown): error is HttpException {
  return error instanceof HttpException && (error.getStatus() === 401 || error.getStatus() === 403);
}
