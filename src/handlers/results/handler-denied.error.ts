import { HttpException } from '@nestjs/common';

/**
 * A guard did not let the caller in: status 401 or 403. That of a tool becomes a result, unless it {@link challenges} or
 * the option `denials` says otherwise. Any other is the HTTP status while nothing of the answer was sent; after that, and
 * for a message of a batch, it is a JSON-RPC error.
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

  /** The client is to authorize first, which is between it and HTTP. */
  get challenges(): boolean {
    return this.status === 401 || 'www-authenticate' in this.headers;
  }
}

/** Whether an exception says that a caller may not do what he asks. */
export function isDenial(error: unknown): error is HttpException {
  return isHttpException(error) && (error.getStatus() === 401 || error.getStatus() === 403);
}

/** A Proxy may throw when it is looked at; it is none. */
export function isHttpException(error: unknown): error is HttpException {
  try {
    return error instanceof HttpException;
  } catch {
    return false;
  }
}
