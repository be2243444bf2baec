/** Id of a request: a string, or an integer that a double holds exactly (MCP allows no `null`). @internal */
export type RequestId = string | number;

/** An error response as we send it: its `id` is `null`, as JSON-RPC 2.0 §5 has it, when there is none to echo. @internal */
export interface JsonRpcErrorBody {
  jsonrpc: '2.0';
  id: RequestId | null;
  error: { code: number; message: string; data?: unknown };
}

/**
 * A request has this JSON-RPC code that ended before it was answered: its session, connection or node has ended.
 *
 * @internal
 */
export const REQUEST_FAILED = -32000;

/** A request that took too long has this JSON-RPC code, as in the SDKs. @internal */
export const REQUEST_TIMEOUT = -32001;

/** The HTTP status and the JSON-RPC code of every {@link McpErrorCode}: the one place where they are decided. */
const ANSWERS = Object.freeze({
  PARSE_ERROR: { status: 400, rpcCode: -32700 },
  INVALID_REQUEST: { status: 400, rpcCode: -32600 },
  BAD_REQUEST: { status: 400, rpcCode: -32000 },
  INVALID_PARAMS: { status: 400, rpcCode: -32602 },
  HEADER_MISMATCH: { status: 400, rpcCode: -32020 },
  MISSING_CLIENT_CAPABILITY: { status: 400, rpcCode: -32021 },
  UNSUPPORTED_PROTOCOL_VERSION: { status: 400, rpcCode: -32022 },
  UNAUTHORIZED: { status: 401, rpcCode: -32000 },
  INSUFFICIENT_SCOPE: { status: 403, rpcCode: -32000 },
  PRINCIPAL_MISMATCH: { status: 403, rpcCode: -32000 },
  FORBIDDEN_HOST: { status: 403, rpcCode: -32000 },
  FORBIDDEN_ORIGIN: { status: 403, rpcCode: -32000 },
  SESSION_NOT_FOUND: { status: 404, rpcCode: -32001 },
  METHOD_NOT_FOUND: { status: 404, rpcCode: -32601 },
  METHOD_NOT_ALLOWED: { status: 405, rpcCode: -32000 },
  NOT_ACCEPTABLE: { status: 406, rpcCode: -32000 },
  REQUEST_TIMEOUT: { status: 408, rpcCode: -32000 },
  PAYLOAD_TOO_LARGE: { status: 413, rpcCode: -32000 },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, rpcCode: -32000 },
  TOO_MANY_REQUESTS: { status: 429, rpcCode: -32000 },
  TOO_MANY_SESSIONS: { status: 429, rpcCode: -32000 },
  INTERNAL_ERROR: { status: 500, rpcCode: -32603 },
  UNAVAILABLE: { status: 503, rpcCode: -32000 },
} as const);

/** Codes of JSON-RPC and MCP that answers have, and refusals do not. The last one is "URL elicitation required". */
const OTHER_CODES = [REQUEST_FAILED, REQUEST_TIMEOUT, -32002, -32042];
const KNOWN_CODES: ReadonlySet<number> = new Set([
  ...Object.values(ANSWERS).map(({ rpcCode }) => rpcCode),
  ...OTHER_CODES,
]);

/**
 * Tells whether JSON-RPC, MCP or this library defines a JSON-RPC code. Clients and handlers may choose any other.
 *
 * @internal
 */
export function isKnownCode(code: number): boolean {
  return KNOWN_CODES.has(code);
}

/**
 * The kind of an error, as a name that stays the same from version to version; texts may change.
 *
 * @publicApi
 */
export type McpErrorCode = keyof typeof ANSWERS;

/** Details that an {@link McpError} may carry besides its code and message. @internal */
export interface McpErrorOptions {
  /** Becomes `error.data` of the JSON-RPC body; must be JSON, and is read by the client. */
  data?: unknown;
  /** The HTTP response has these headers, such as `Allow` (RFC 9110 §10.2.1) or `Retry-After` in seconds (§10.2.3). */
  headers?: Record<string, string>;
  /** The request that is refused. @default the one that was sent, if its id could be read and there is not more than one */
  requestId?: RequestId | null;
  /** The cause is for logs, and is never sent. */
  cause?: unknown;
  /**
   * The option of the endpoint that decides about the request: the first such refusal is a warning in the log, which
   * names it.
   */
  option?: string | undefined;
}

/**
 * Refuses a request: every 4xx and 5xx response of the transport is created from it.
 *
 * The HTTP status and the JSON-RPC code follow from {@link code}. The message is sent to the client: it says what was
 * wrong, with the value, and what to do. It must not contain a stack or a secret.
 *
 * @see docs/protocol-rules.md for which case has which code
 * @publicApi
 */
export class McpError extends Error {
  /** HTTP status of the answer, 400 to 503. */
  readonly status: number;
  /** `error.code` of the JSON-RPC body (JSON-RPC 2.0 §5.1; the codes around -32000 are MCP's). */
  readonly rpcCode: number;
  /** `error.data` of the JSON-RPC body; left out when `undefined`. */
  readonly data?: unknown;
  /** The HTTP response has these headers. */
  readonly headers?: Record<string, string>;
  /** The option of the endpoint that decides about the request, for logs. */
  readonly option?: string | undefined;
  /**
   * The id of the refused request, if it is known; otherwise the answer has that of the one request that was sent, or
   * `null`.
   */
  readonly requestId: RequestId | null;

  /**
   * @param code decides status and JSON-RPC code
   * @param message for the client: what happened, the value, what to do
   * @param options see {@link McpErrorOptions}
   */
  constructor(
    readonly code: McpErrorCode,
    message: string,
    options: McpErrorOptions = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.status = ANSWERS[code].status;
    this.rpcCode = ANSWERS[code].rpcCode;
    this.data = options.data;
    this.headers = options.headers;
    this.option = options.option;
    this.requestId = options.requestId ?? null;
  }

  override get name(): string {
    return 'McpError';
  }

  /** Makes the body of the answer: a JSON-RPC error response (JSON-RPC 2.0 §5.1). Headers and status are not in it. */
  toResponse(): JsonRpcErrorBody {
    return errorResponse(this.requestId, this.rpcCode, this.message, this.data);
  }
}

/**
 * Makes the refusal of a request that may be repeated (RFC 9110 §10.2.3). Its data says when, too: many clients do not show headers.
 *
 * @param afterS seconds after which it may succeed: 1 where room comes back by itself, 5 where others must leave first
 * @internal
 */
export function retryLater(
  code: McpErrorCode,
  message: string,
  afterS: number,
  options?: Pick<McpErrorOptions, 'cause' | 'option'>,
): McpError {
  return new McpError(code, message, {
    ...options,
    headers: { 'Retry-After': String(afterS) },
    data: { retryAfter: afterS },
  });
}

/** A limit that is reached and that an option sets. @internal */
export interface ReachedLimit {
  /** `anonymous`: all anonymous callers together. */
  readonly of: 'server' | 'caller' | 'anonymous';
  readonly max: number;
  /** Names the counted things in the plural: `sessions`. */
  readonly what: string;
  readonly option: string;
  /** Ends the sentence, and says what to do. @default '. Try again later.' */
  readonly advice?: string;
}

const HAVE_REACHED: Readonly<Record<ReachedLimit['of'], string>> = {
  server: 'This server has reached its limit',
  caller: 'This caller has reached its limit',
  anonymous: 'The anonymous callers of this server have reached their common limit',
};

/** @internal */
export function limitText({ of, max, what, option, advice = '. Try again later.' }: ReachedLimit): string {
  return `${HAVE_REACHED[of]} of ${max} ${what} ("${option}")${advice}`;
}

/** Makes the refusal of one more than a limit allows. @internal */
export function limitReached(code: McpErrorCode, limit: ReachedLimit): McpError {
  return retryLater(code, limitText(limit), 5, { option: limit.option });
}

/**
 * Runs a command of a store on behalf of a request.
 *
 * @param fault reports an error of the store
 * @throws McpError UNAVAILABLE (503, `Retry-After`) with the store's error as its cause
 * @internal
 */
export async function askStore<T>(
  ask: () => Promise<T>,
  fault: (error: unknown) => void,
  message = 'The storage of this server is unavailable. Try again soon.',
  afterS = 5,
): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof McpError) throw error;
    fault(error);
    throw retryLater('UNAVAILABLE', message, afterS, { cause: error });
  }
}

/**
 * Makes the refusal of a server that stops (E13). Its client repeats the request, and another node may take it at once.
 *
 * @internal
 */
export function shutdownRefusal(): McpError {
  return retryLater('UNAVAILABLE', 'This server is shutting down. Try again in a moment.', 1);
}

/**
 * Makes a JSON-RPC error response (JSON-RPC 2.0 §5.1).
 *
 * @param id of the request, or `null` when it could not be read
 * @param code one of JSON-RPC's or MCP's error codes
 * @param message for the client
 * @param data JSON; left out when `undefined`
 * @internal
 */
export function errorResponse(id: RequestId | null, code: number, message: string, data?: unknown): JsonRpcErrorBody {
  return { jsonrpc: '2.0', id, error: data === undefined ? { code, message } : { code, message, data } };
}

/** A JSON-RPC response has it as its `error`. @internal */
export interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

/**
 * Returns the JSON-RPC error of a thrown value that has a JSON-RPC code of its own, from any copy of any package.
 *
 * @returns `undefined` for anything else: its text is not meant for clients
 * @internal
 */
export function rpcErrorOf(thrown: unknown): RpcError | undefined {
  if (thrown instanceof McpError) return { code: thrown.rpcCode, message: thrown.message, data: thrown.data };
  try {
    const { code, message, data } = thrown as { code?: unknown; message?: unknown; data?: unknown };
    if (!Number.isSafeInteger(code) || typeof message !== 'string') return undefined;
    // "Resource not found" of revisions before 2026-07-28; both eras say "invalid params" by now.
    return { code: code === -32002 ? -32602 : (code as number), message, data };
  } catch {
    // `undefined`, `null`, or an object whose getters throw.
    return undefined;
  }
}

/** The status and the headers of an answer that refuses. @internal */
export interface HttpRefusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Answers one call with an error that has a status of its own: HTTP says it too while nothing of the answer was sent
 * and the response answers no other request.
 *
 * @internal
 */
export class RefusedCall extends Error implements HttpRefusal {
  override readonly name: string = 'RefusedCall';
  readonly data: unknown;

  constructor(
    /** The code of the JSON-RPC error. */
    readonly code: number,
    message: string,
    readonly status: number,
    /** Headers such as `www-authenticate`, with names in lower case. */
    readonly headers: Readonly<Record<string, string>> = {},
    options?: ErrorOptions & { /** The data of the JSON-RPC error. */ readonly data?: unknown },
  ) {
    super(message, options);
    this.data = options?.data;
  }
}

/**
 * Returns the HTTP refusal for a thrown value: an {@link McpError}, or, from any copy of the SDK, the error for a
 * client that lacks a capability (M6).
 *
 * @returns `undefined` for anything else: it has no HTTP status
 * @internal
 */
export function refusalOf(thrown: unknown): McpError | undefined {
  if (thrown instanceof McpError) return thrown;
  const rpcError = rpcErrorOf(thrown);
  if (rpcError?.code !== ANSWERS.MISSING_CLIENT_CAPABILITY.rpcCode) return undefined;
  return new McpError('MISSING_CLIENT_CAPABILITY', rpcError.message, { data: rpcError.data, cause: thrown });
}

/** Longer values are truncated, so that they do not fill the log. */
const SHOWN_CHARACTERS = 100;

/**
 * Formats a value for an error text: its JSON, cut to 100 characters, with invisible characters escaped.
 *
 * @returns `nothing` for `undefined`; never throws
 * @internal
 */
export function shown(value: unknown): string {
  if (value === undefined) return 'nothing';
  // A long string is truncated first, to save escaping all of it.
  const json = toJson(typeof value === 'string' ? value.slice(0, SHOWN_CHARACTERS + 1) : value);
  return printable(excerpt(json, SHOWN_CHARACTERS));
}

/** Longer texts of other libraries are truncated. */
const EXCERPT_CHARACTERS = 200;

/**
 * Shortens a text that another library has made, and that may quote what a client has sent.
 *
 * @param longest the number of characters that are kept
 * @internal
 */
export function excerpt(text: string, longest = EXCERPT_CHARACTERS): string {
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}

/**
 * Escapes the characters of a text that could change how a terminal shows the text around them, as JSON does. Tabs and ends of
 * lines stay: stacks and texts of several lines have them.
 *
 * @internal
 */
export function printable(text: string): string {
  return text.replace(UNSEEN, (characters) =>
    characters.replace(/./gs, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`),
  );
}

/** Control characters, separators of lines, characters that hide or turn texts around, and tags, which have two units. */
const UNSEEN =
  // oxlint-disable-next-line no-control-regex -- that is the point
  /[\0-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udfff]/g;

/**
 * `JSON.parse` accepts any depth, but `JSON.stringify` overflows the stack: an error text must not cause a second
 * error.
 */
function toJson(value: unknown): string {
  if (typeof value === 'bigint') return String(value);
  try {
    return JSON.stringify(value) ?? `a ${typeof value}`;
  } catch (error) {
    return error instanceof RangeError
      ? 'a value that is nested too deeply to be shown'
      : 'a value that cannot be written as JSON';
  }
}
