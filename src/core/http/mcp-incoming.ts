import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { McpClock } from '../common/clock.js';
import { isThenable } from '../common/promises.js';
import type { McpIncoming } from '../eras/mcp-endpoint.js';
import type { CallAdmission } from '../calls/call-admission.js';
import type { McpResponseMode } from '../calls/exchange.js';
import { HeldBody, type HeldBytes, SMALL_BODY_BYTES } from '../calls/held-bytes.js';
import { acceptsMediaTypes, isJsonMediaType } from '../protocol/accept.js';
import { classifyPost } from '../protocol/era.js';
import { McpError, shutdownRefusal, shown } from '../protocol/errors.js';
import { beginsCall, isAboutTask } from '../protocol/extensions.js';
import { METHOD_HEADER, PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER, singleHeader } from '../protocol/headers.js';
import {
  type IncomingBody,
  type JsonRpcMessage,
  type JsonRpcNotification,
  type JsonRpcRequest,
  readMessages,
} from '../protocol/json-rpc.js';
import { addressOf } from '../protocol/local-caller.js';
import { isModernRevision } from '../protocol/revisions.js';
import { discardBody, type InterruptBody, readBody } from './edge/body-reader.js';
import type { ResolvedHttpOptions } from './http.options.js';
import { hasGone } from './responder.js';
import { kindOf, principalText, UnknownPrincipalError, userOf } from './principal.js';

const JSON_TYPE = 'application/json';
const SSE_TYPE = 'text/event-stream';
/** Nearly all clients send this value: it is compared without parsing. */
const AS_SPECIFIED = `${JSON_TYPE}, ${SSE_TYPE}`;
const NO_BODY: IncomingBody = { batch: false, messages: [] };

/**
 * The largest body that is read for a caller whose calls are refused, in bytes: it may be an answer or a cancellation
 * (E14).
 */
const MAX_ANSWER_BYTES = 64 * 1024;

const WITHOUT_LIMITS = { strained: false, refusal: () => undefined };

/** Express' `Request` or Fastify's `FastifyRequest`. */
export interface PlatformRequest {
  readonly headers: IncomingHttpHeaders;
  readonly method: string;
  /** The parameters of the path. */
  readonly params?: Readonly<Record<string, unknown>>;
  readonly raw?: IncomingMessage;
}

/** Returns Node's request behind the platform's. */
export function rawRequest(request: PlatformRequest): IncomingMessage {
  return request.raw ?? (request as unknown as IncomingMessage);
}

/**
 * A property of the request holds the result of reading it. A `WeakMap` of objects that live for one request would load the
 * garbage collector.
 */
const INCOMING = Symbol('nestjs-mcp-streamable:incoming');
const BODY = Symbol('nestjs-mcp-streamable:body');
const SERVED = Symbol('nestjs-mcp-streamable:served');

interface ReadRequest {
  [INCOMING]?: McpIncoming | undefined;
  [BODY]?: IncomingBody | undefined;
  [SERVED]?: true;
}

/** Returns what was read of a request before it was refused: its caller, and its message unless it is one of a batch. */
export function readOf(request: object): {
  readonly principal: string | undefined;
  readonly message: JsonRpcNotification | JsonRpcRequest | undefined;
} {
  const { [INCOMING]: incoming, [BODY]: body } = request as ReadRequest;
  const [message] = body?.messages.length === 1 ? body.messages : [];
  return { principal: incoming?.principal, message: message && 'method' in message ? message : undefined };
}

/**
 * Reads and checks a request once, after the app's guards (E4–E8, and its era).
 *
 * The result is stored on the request, for the guard, the controller and the filter.
 */
export class McpRequestReader {
  readonly #underWay = new Set<InterruptBody>();
  #closed = false;

  constructor(
    private readonly options: Pick<
      ResolvedHttpOptions,
      'maxBodyBytes' | 'maxBodyValues' | 'bodyTimeoutMs' | 'minBodyBytesPerSecond' | 'principal'
    > & { readonly responseMode: McpResponseMode },
    private readonly clock: McpClock,
    private readonly admission: Pick<CallAdmission, 'strained' | 'refusal'> = WITHOUT_LIMITS,
    /** Called for the first request of an anonymous caller. */
    private onAnonymous?: (() => void) | undefined,
    private readonly held?: HeldBytes,
  ) {}

  /** What one message may hold, over any transport. */
  get limits(): Pick<ResolvedHttpOptions, 'maxBodyBytes' | 'maxBodyValues'> {
    return this.options;
  }

  /** Fails bodies that have not arrived, when the server stops. */
  close(): void {
    this.#closed = true;
    for (const interrupt of Array.from(this.#underWay)) {
      interrupt(shutdownRefusal());
    }
  }

  /** Discards the rest of a body before its request is refused: see {@link discardBody}. @param response the raw one */
  discardRest(request: PlatformRequest, response: ServerResponse): void {
    discardBody(rawRequest(request), response, this.clock, this.#closed);
  }

  /** Returns the request as it was read, to the controller that serves it. @throws Error when no guard has read it */
  of(request: object): McpIncoming {
    (request as ReadRequest)[SERVED] = true;
    const incoming = (request as ReadRequest)[INCOMING];
    if (!incoming)
      throw new Error(
        'The session guard did not run. A class given as "sessionGuard" must call super.canActivate(context).',
      );
    return incoming;
  }

  /** Returns whether the controller has begun to serve a request. */
  isServed(request: object): boolean {
    return SERVED in request;
  }

  /** Releases the messages of a request that is answered as a stream, which may last for hours. */
  release(request: object): void {
    const read = request as ReadRequest;
    read[INCOMING] = read[BODY] = undefined;
  }

  /** Returns the messages of a request, also of a refused one: the error for it carries its id. */
  bodyOf(request: object): IncomingBody | undefined {
    return (request as ReadRequest)[BODY];
  }

  /**
   * Reads and checks a request, and stores the result on it.
   *
   * @param response the raw one: once it has closed, the request holds its body no longer
   * @throws McpError NOT_ACCEPTABLE, UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE, REQUEST_TIMEOUT, PARSE_ERROR,
   *   INVALID_REQUEST; UNAVAILABLE, TOO_MANY_REQUESTS for a call that is not admitted (E14), or a body for which there
   *   is no room (E15)
   * @throws UnknownPrincipalError
   */
  async read(request: PlatformRequest & ReadRequest, response?: ServerResponse): Promise<McpIncoming> {
    const { method, headers } = request;
    if (method === 'GET' && !acceptsMediaTypes(headers.accept, SSE_TYPE)) {
      throw notAcceptable(headers.accept, 'a GET must accept "text/event-stream"');
    }
    // The principal is computed before the body is read only if it decides whether to read it.
    const strained = method === 'POST' && this.admission.strained;
    const counts = method === 'POST' && this.held !== undefined && response !== undefined && !isSmall(headers);
    const early: unknown = strained || counts ? await this.options.principal(request) : undefined;
    const refusal = strained ? this.#refusal(request, early) : undefined;
    const held = counts ? this.#hold(request, response, this.held, early) : undefined;
    const { maxBodyValues } = this.options;
    const body = method === 'POST' ? readMessages(await this.#text(request, refusal, held), maxBodyValues) : NO_BODY;
    request[BODY] = body;
    if (body.messages.some(listens) && !acceptsMediaTypes(headers.accept, SSE_TYPE))
      throw notAcceptable(headers.accept, 'a POST of "subscriptions/listen" must accept "text/event-stream"');
    if (refusal && body.messages.some(beginsCall)) throw refusal;
    const returned: unknown = strained || counts ? early : this.options.principal(request);
    const principal = this.#principal(isThenable(returned) ? await returned : returned, request);
    const protocolVersion = singleHeader(headers[PROTOCOL_VERSION_HEADER]);
    const era = method === 'POST' ? classifyPost({ protocolVersion }, body) : 'legacy';
    const { params: routeParams } = request;
    const incoming: McpIncoming = {
      era,
      principal,
      request,
      method,
      headers,
      body,
      session: undefined,
      held,
      ...(routeParams && Object.keys(routeParams).length > 0 && { routeParams }),
    };
    request[INCOMING] = incoming;
    return incoming;
  }

  /** Returns why a call of this request would be refused. */
  #refusal(request: PlatformRequest, returned: unknown): McpError | undefined {
    return this.admission.refusal(principalText(returned), singleHeader(request.headers[SESSION_ID_HEADER]));
  }

  /** Reads the body. @param refusal of calls of this caller: only what may be an answer or a notification is read */
  #text(request: PlatformRequest, refusal: McpError | undefined, held: HeldBody | undefined): Promise<string> {
    const { accept, 'content-type': type } = request.headers;
    if (type !== JSON_TYPE && !isJsonMediaType(type)) {
      const text = `The Content-Type is ${shown(type)}; a POST needs "application/json".`;
      throw new McpError('UNSUPPORTED_MEDIA_TYPE', text);
    }
    const answers = this.options.responseMode === 'json' ? [JSON_TYPE] : [JSON_TYPE, SSE_TYPE];
    if (accept !== AS_SPECIFIED && !acceptsMediaTypes(accept, ...answers))
      throw notAcceptable(accept, `a POST must accept ${answers.map((type) => `"${type}"`).join(' and ')}`);
    const { maxBodyBytes, bodyTimeoutMs: timeoutMs, minBodyBytesPerSecond: minBytesPerSecond } = this.options;
    if (refusal && isModernCall(request.headers)) throw refusal;
    const maxBytes = refusal ? Math.min(maxBodyBytes, MAX_ANSWER_BYTES) : maxBodyBytes;
    const { clock } = this;
    const text = readBody(rawRequest(request), {
      maxBytes,
      timeoutMs,
      minBytesPerSecond,
      clock,
      platform: request,
      underWay: this.#underWay,
      held,
    });
    if (!refusal) return text;
    return text.catch((error: unknown) => {
      throw error instanceof McpError && error.code === 'PAYLOAD_TOO_LARGE' ? refusal : error;
    });
  }

  /** @param returned what `principal` has returned: its bytes count for the principal, or for the address without one */
  #hold(request: PlatformRequest, response: ServerResponse, held: HeldBytes, returned: unknown): HeldBody {
    const principal = principalText(returned);
    const body = new HeldBody(
      held,
      principal === undefined ? `address ${addressOf(request)}` : `principal ${principal}`,
    );
    let over = false;
    const release = (): void => {
      if (over) return;
      over = true;
      if (waits) socket.off('close', release);
      body.release();
    };
    const { socket } = response.req;
    // The connection of a serverless function is a plain object.
    const waits = response.socket === null && 'off' in socket;
    // The event does not come again when the client has left while the guards of the app ran.
    if (hasGone(response)) release();
    // A serverless function emits no "close".
    else response.once('close', release).once('finish', release);
    // Node 20 and 22 do not close a response that waits behind others of a pipelining client with its connection. There
    // may be many.
    if (waits) socket.setMaxListeners(0).once('close', release);
    return body;
  }

  #principal(returned: unknown, request: object): string | undefined {
    const principal = principalText(returned);
    if (principal !== undefined) return principal;
    const user = userOf(request);
    if (user === undefined) {
      this.onAnonymous?.();
      this.onAnonymous = undefined;
      return undefined;
    }
    const text = `A request was refused: its "request.user" is ${kindOf(user)}, and "principal" gives no id for it. As anonymous callers, such users would share their sessions. Set the option "principal" to a function that returns the id of the user, such as (request) => request.user.email; by default it is "sub", "id", "userId" or "_id".`;
    throw new UnknownPrincipalError(text);
  }
}

function notAcceptable(accept: string | undefined, rule: string): McpError {
  return new McpError('NOT_ACCEPTABLE', `The Accept header is ${shown(accept)}; ${rule}.`);
}

/** Returns whether a message is answered by a stream, whatever the `responseMode` is (M7). */
function listens(message: JsonRpcMessage): boolean {
  return 'method' in message && message.method === 'subscriptions/listen';
}

/** Returns whether a body is certainly one that does not count (E15); the parser holds it to the length that it declares. */
function isSmall({ 'content-length': length, 'transfer-encoding': encoding }: IncomingHttpHeaders): boolean {
  return encoding === undefined && length !== undefined && Number(length) <= SMALL_BODY_BYTES;
}

/**
 * Returns whether the headers are those of a modern call that needs a place: a client of 2026-07-28 POSTs requests and
 * notifications, and no answers.
 */
function isModernCall({ [PROTOCOL_VERSION_HEADER]: revision, [METHOD_HEADER]: method }: IncomingHttpHeaders): boolean {
  const name = singleHeader(method);
  return isModernRevision(revision) && !name?.startsWith('notifications/') && !isAboutTask(name);
}
