import { HttpException } from '@nestjs/common';
import { sdk } from '../../protocol/spec.js';
import { STATUS_CODES, validateHeaderName, validateHeaderValue } from 'node:http';
import { HANDLER_CALL, type McpHandlerCall } from '../../calls/mcp-execution-context.js';
import { McpError } from '../../protocol/errors.js';

/**
 * A denial cannot set these headers: those of the body and the connection, which the transport sets, and those that would give
 * the client another session or a cached answer.
 */
const OF_THE_TRANSPORT = new Set([
  'content-type',
  'content-length',
  'content-encoding',
  'transfer-encoding',
  'etag',
  'trailer',
  'connection',
  'keep-alive',
  'upgrade',
  'set-cookie',
  'mcp-session-id',
]);

/**
 * # The response that enhancers see
 *
 * The POST is answered by the transport, often with a stream, and may carry several calls. So a guard, an interceptor or
 * a filter must not write to its response: with the real one, a `BaseExceptionFilter` of the app would answer the whole
 * POST. This one has the methods of Express and of Fastify, and writes nothing:
 *
 * - status and headers are noted: those of a guard that denies become those of the HTTP answer
 * - a filter that "answers" an error decides which error the client receives: {@link errorFor}
 * - a call that succeeds changes nothing by it
 *
 * It is not an event emitter: `finish` and `close` never come. Cancellation is `McpContext.signal`.
 */
export class ResponseFacade<Call extends McpHandlerCall = McpHandlerCall> {
  statusCode = 200;
  /** Leads from the context of enhancers to the call. */
  readonly [HANDLER_CALL]: Call | undefined;
  /** Whether the error was answered; the first answer counts. */
  #answered = false;
  #body: unknown;
  #headers: Map<string, string> | undefined;
  constructor(
    /** Express' `Request`, or `FastifyRequest`. */
    readonly req: unknown,
    call?: Call,
    /** The request of HTTP: `req` may be a view of it. */
    private readonly real = req,
  ) {
    this[HANDLER_CALL] = call;
  }

  /** Returns Express' own object, if there is one: middleware stores values there for guards. */
  get locals(): unknown {
    return (this.real as { res?: { locals?: unknown } } | undefined)?.res?.locals ?? {};
  }
  get request(): unknown {
    return this.req;
  }
  get raw(): this {
    return this;
  }
  /** Returns Fastify's logger of the request. */
  get log(): unknown {
    return (this.req as { log?: unknown } | undefined)?.log;
  }
  get sent(): boolean {
    return this.#answered;
  }

  status(code: number): this {
    this.statusCode = code;
    return this;
  }

  /** Notes a header. @throws TypeError for what HTTP cannot carry, here and not when the denial is written */
  setHeader(name: string, value: unknown): this {
    const text = Array.isArray(value) ? value.join(', ') : String(value);
    validateHeaderName(name);
    validateHeaderValue(name, text);
    this.#headers ??= new Map();
    this.#headers.set(name.toLowerCase(), text);
    return this;
  }
  header(name: string | Record<string, unknown>, value?: unknown): this {
    if (typeof name === 'string') return this.setHeader(name, value);
    for (const [each, valueOfEach] of Object.entries(name)) this.setHeader(each, valueOfEach);
    return this;
  }
  appendHeader(name: string, value: unknown): this {
    const present = this.getHeader(name);
    return this.setHeader(name, present === undefined ? value : `${present}, ${String(value)}`);
  }
  getHeader(name: string): string | undefined {
    return this.#headers?.get(name.toLowerCase());
  }
  hasHeader(name: string): boolean {
    return this.getHeader(name) !== undefined;
  }
  getHeaders(): Record<string, string> {
    return Object.fromEntries(this.#headers ?? []);
  }
  /** Returns the headers of the HTTP answer to a denial. */
  get denialHeaders(): Record<string, string> {
    return Object.fromEntries([...(this.#headers ?? [])].filter(([name]) => !OF_THE_TRANSPORT.has(name)));
  }

  /** Returns when a caller may try again, as a guard has said it: also as `Retry-After-NAME`, which named throttlers set. */
  get retryAfter(): string | undefined {
    const [, value] = [...(this.#headers ?? [])].find(([name]) => /^retry-after(?:-|$)/.test(name)) ?? [];
    return value;
  }

  send(body?: unknown): this {
    if (!this.#answered) this.#body = body;
    this.#answered = true;
    return this;
  }
  sendStatus(code: number): this {
    return this.status(code).send();
  }
  /** Ignores parts of a body, its type, cookies (they belong to the answer of the POST) and listeners. */
  ignore(): this {
    return this;
  }

  /**
   * Returns the error of a call after a filter has answered it: a filter that answers a database error with 404 means 404, and
   * one that answers with another message means that message. An answer of 500 is less specific than the error itself, which is
   * kept; so is an error that has its own form on the wire.
   */
  errorFor(error: unknown): unknown {
    const status = this.statusCode;
    if (!this.#answered || status < 400 || error instanceof sdk.ProtocolError || error instanceof McpError)
      return error;
    const before = error instanceof HttpException ? error.getStatus() : 500;
    if (before >= 500 && status >= 500) return error;
    const body = bodyOf(this.#body);
    if (error instanceof HttpException && before === status && !hasOtherMessage(body, error)) return error;
    return new HttpException(body ?? STATUS_CODES[status] ?? '', status, { cause: error });
  }
}

/** Returns the answer as the response of an `HttpException`; `undefined` when there is none. */
function bodyOf(answer: unknown): string | object | undefined {
  if (typeof answer === 'object' && answer !== null) return answer;
  return typeof answer === 'string' && answer !== '' ? answer : undefined;
}

/**
 * Returns whether an answer has a message that is not the error's, such as a translation. An answer that repeats `error.message` says
 * less than the error, whose response may have a list of messages.
 */
function hasOtherMessage(body: string | object | undefined, error: HttpException): boolean {
  const message: unknown = typeof body === 'object' ? (body as { message?: unknown }).message : body;
  return Boolean(message) && message !== error.message;
}

/** Members have these other names in Express, in Fastify, or in Node's own response. */
const OTHER_NAMES = {
  status: ['code'],
  header: ['headers', 'set'],
  appendHeader: ['append'],
  getHeader: ['get'],
  send: ['json', 'end', 'redirect'],
  sent: ['headersSent', 'writableEnded', 'finished'],
  ignore: [
    'write',
    'writeHead',
    'flushHeaders',
    'hijack',
    'type',
    'contentType',
    'vary',
    'removeHeader',
    'cookie',
    'setCookie',
    'clearCookie',
    'on',
    'once',
    'off',
    'addListener',
    'removeListener',
  ],
} as const;

/** Maps the other names to the ones that the class has. */
export type OtherNames = typeof OTHER_NAMES;

for (const [name, others] of Object.entries(OTHER_NAMES)) {
  const member = Object.getOwnPropertyDescriptor(ResponseFacade.prototype, name)!;
  for (const other of others) Object.defineProperty(ResponseFacade.prototype, other, member);
}
