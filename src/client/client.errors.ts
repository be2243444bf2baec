import { ProtocolError, ProtocolErrorCode, SdkError, SdkErrorCode, SdkHttpError } from '@modelcontextprotocol/server';
import { shown } from '../core/protocol/errors.js';
import type { McpAuthChallenge } from './auth-challenge.js';

/**
 * Thrown when the server, or a proxy, answered a message with an HTTP error that contains no JSON-RPC error for the
 * call. The session stays usable.
 *
 * It is an `SdkHttpError` of the MCP SDK, with the codes that the SDK's own transport gives: its era negotiation reads
 * the status.
 *
 * @publicApi
 */
export class McpHttpStatusError extends SdkHttpError {
  override readonly name: string = 'McpHttpStatusError';

  constructor(
    message: string,
    response: { status: number; statusText?: string; text?: string | undefined },
    /** The server asks to wait for so many milliseconds (`Retry-After`, RFC 9110 §10.2.3). */
    readonly retryAfterMs?: number,
    code: SdkErrorCode = SdkErrorCode.ClientHttpNotImplemented,
  ) {
    super(code, message, response);
  }
}

/**
 * Thrown for HTTP 401 or 403, after `onUnauthorized` was called.
 *
 * The SDK recognises a connection that failed for lack of credentials by this `name`.
 *
 * @see RFC 6750 §3, RFC 9728 §5.1
 * @publicApi
 */
export class McpHttpUnauthorizedError extends McpHttpStatusError {
  override readonly name = 'UnauthorizedError';

  constructor(
    message: string,
    response: { status: number; statusText?: string; text?: string | undefined },
    /** The parsed `WWW-Authenticate`; `undefined` without that header. */
    readonly challenge: McpAuthChallenge | undefined,
  ) {
    const denied = response.status === 403;
    const code = denied ? SdkErrorCode.ClientHttpForbidden : SdkErrorCode.ClientHttpAuthentication;
    super(message, response, undefined, code);
  }
}

/**
 * Thrown when the server answered 2xx with a body that is not JSON-RPC. The call fails, the session stays usable.
 * @publicApi
 */
export class McpUnexpectedContentError extends SdkError {
  override readonly name: string = 'McpUnexpectedContentError';

  constructor(message: string, contentType: string | null, cause?: unknown) {
    super(SdkErrorCode.ClientHttpUnexpectedContent, message, { contentType }, { cause });
  }
}

/**
 * The stable code of a failure of the transport.
 *
 * - `SESSION_LOST`, `STREAM_LOST`: see {@link McpSessionLostError}, {@link McpStreamLostError}
 * - `SESSION_CHANGED`: the server answered for another session, or gave an id that cannot be sent
 * - `NO_ANSWER`: no connection, or one that was lost before the answer; `cause` is the error of `fetch`
 * - `MESSAGE_TOO_LARGE`: above `maxMessageBytes` or `maxMessageValues`
 * - `SILENT`, `TIMEOUT`: no byte, or no answer, arrived in time
 * - `CANCELLED`: by the caller
 * - `TOO_MANY_REQUESTS`: a request of the server was dropped, because too many of its requests have no answer yet
 * - `NOT_CONNECTED`: not started, or closed
 *
 * @publicApi
 */
export type McpClientTransportErrorCode =
  | 'SESSION_LOST'
  | 'SESSION_CHANGED'
  | 'STREAM_LOST'
  | 'NO_ANSWER'
  | 'MESSAGE_TOO_LARGE'
  | 'SILENT'
  | 'TIMEOUT'
  | 'CANCELLED'
  | 'TOO_MANY_REQUESTS'
  | 'NOT_CONNECTED';

/** Thrown for a failure of the transport itself. @publicApi */
export class McpClientTransportError extends Error {
  override readonly name: string = 'McpClientTransportError';

  constructor(
    readonly code: McpClientTransportErrorCode,
    message: string,
    options?: ErrorOptions,
    /** Whether the server may have carried out the request. */
    readonly mayHaveRun = false,
  ) {
    super(message, options);
  }
}

/** Thrown for HTTP 404 for a session that was live (2025-11-25, Transports, "Session Management" 3). @publicApi */
export class McpSessionLostError extends McpClientTransportError {
  override readonly name = 'McpSessionLostError';

  constructor(
    /** The session that was lost. */
    readonly sessionId: string,
    mayHaveRun: boolean,
    message = `The server no longer knows this session${mayHaveRun ? '; the request may have been carried out' : ''}. Connect again, or set the option "recover".`,
    options?: ErrorOptions,
  ) {
    super('SESSION_LOST', message, options, mayHaveRun);
  }
}

/** Thrown when a response ended before the answer, and could not be resumed. The session stays usable. @publicApi */
export class McpStreamLostError extends McpClientTransportError {
  override readonly name = 'McpStreamLostError';

  constructor(reason: string, options?: ErrorOptions) {
    const message = `The response ended before the answer, ${reason}. The request may have been carried out: repeat it if that does no harm.`;
    super('STREAM_LOST', message, options, true);
  }
}

/** Thrown by a check of a result; the official client passes on a `ProtocolError` as it is. */
export class UncheckedResult extends ProtocolError {
  constructor(reason: string) {
    super(ProtocolErrorCode.InvalidParams, reason);
  }
}

/**
 * Thrown by clients of `McpClientModule` when the check of a result by the output schema of its tool was given up. The tool
 * has run. The session stays usable.
 *
 * @publicApi
 */
export class McpOutputSchemaError extends ProtocolError {
  override readonly name = 'McpOutputSchemaError';

  constructor(
    /** The name of the tool. */
    readonly tool: string,
    reason: string,
  ) {
    const message = `The tool ${shown(tool)} has run, but its result could not be checked by its output schema: ${reason}. Report it to the author of the server, or check results yourself (\`client: { jsonSchemaValidator }\`).`;
    super(ProtocolErrorCode.InvalidParams, message);
  }
}

/** Returns the error of every operation on a transport that is closing or closed. */
export const closedError = (): McpClientTransportError =>
  new McpClientTransportError(
    'NOT_CONNECTED',
    'The transport is closed: no message can be sent or received. Create a new transport.',
  );
