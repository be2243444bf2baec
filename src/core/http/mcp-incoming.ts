import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { McpClock } from '../common/clock.js';
import { after, type MaybePromise } from '../common/promises.js';
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
import { type BodyReaderOptions, discardBody, type InterruptBody, readBody } from './edge/body-reader.js';
import { type RequestState, stateOf } from './edge/endpoint-route.js';
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

/** Returns what is known of a request. @param request the platform's */
function known(request: object): RequestState {
  return stateOf(rawRequest(request as PlatformRequest));
}

/** Returns what was read of a request before it was refused: its caller, and its message unless it is one of a batch. */
export function readOf(request: object): {
  readonly principal: string | undefined;
  readonly message: JsonRpcNotification | JsonRpcRequest | undefined;
} {
  const { incoming, body } = known(request);
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
    const state = known(request);
    state.isServed = true;
    const { incoming } = state;
    if (!incoming)
      throw new Error(
        'The session guard did not run. A class given as "sessionGuard" must call super.canActivate(context).',
      );
    return incoming;
  }

  /** Returns whether the controller has begun to serve a request. */
  isServed(request: object): boolean {
    return known(request).isServed;
  }

  /** Releases the messages of a request that is answered as a stream, which may last for hours. */
  release(request: object): void {
    const state = known(request);
    state.incoming = state.body = undefined;
  }

  /** Returns the messages of a request, also of a refused one: the error for it carries its id. */
  bodyOf(request: object): IncomingBody | undefined {
    return known(request).body;
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
  read(request: PlatformRequest, response?: ServerResponse): MaybePromise<McpIncoming> {
    const { method, headers } = request;
    if (method === 'GET' && !acceptsMediaTypes(headers.accept, SSE_TYPE)) {
      throw notAcceptable(headers.accept, 'a GET must accept "text/event-stream"');
    }
    if (method !== 'POST') {
      known(request).body = NO_BODY;
      return this.#identified(request, NO_BODY);
    }
    // The principal is computed before the body is read only if it decides whether to read it.
    const { strained } = this.admission;
    const counts = this.held !== undefined && response !== undefined && !isSmall(headers);
    if (!strained && !counts) {
      return after(this.#text(request), (text) => this.#identified(request, this.#messages(request, text)));
    }
    return after(this.options.principal(request), (early: unknown) => {
      const refusal = strained ? this.#refusal(request, early) : undefined;
      const held = counts ? this.#hold(request, response, this.held, early) : undefined;
      return after(this.#text(request, refusal, held), (text) => {
        const body = this.#messages(request, text);
        if (refusal && body.messages.some(beginsCall)) throw refusal;
        return this.#incoming(request, body, early, held);
      });
    });
  }

  /** Reads the messages of a POST, and keeps them on the request. */
  #messages(request: PlatformRequest, text: string): IncomingBody {
    const body = readMessages(text, this.options.maxBodyValues);
    known(request).body = body;
    const { accept } = request.headers;
    if (body.messages.some(listens) && !acceptsMediaTypes(accept, SSE_TYPE))
      throw notAcceptable(accept, 'a POST of "subscriptions/listen" must accept "text/event-stream"');
    return body;
  }

  #identified(request: PlatformRequest, body: IncomingBody): MaybePromise<McpIncoming> {
    return after(this.options.principal(request), (returned: unknown) => this.#incoming(request, body, returned));
  }

  /** @param returned what `principal` has returned */
  #incoming(request: PlatformRequest, body: IncomingBody, returned: unknown, held?: HeldBody): McpIncoming {
    const { method, headers, params: routeParams } = request;
    const principal = this.#principal(returned, request);
    const protocolVersion = singleHeader(headers[PROTOCOL_VERSION_HEADER]);
    const era = method === 'POST' ? classifyPost({ protocolVersion }, body) : 'legacy';
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
    known(request).incoming = incoming;
    return incoming;
  }

  /** Returns why a call of this request would be refused. */
  #refusal(request: PlatformRequest, returned: unknown): McpError | undefined {
    return this.admission.refusal(principalText(returned), singleHeader(request.headers[SESSION_ID_HEADER]));
  }

  /** Reads the body. @param refusal of calls of this caller: only what may be an answer or a notification is read */
  #text(request: PlatformRequest, refusal?: McpError, held?: HeldBody): MaybePromise<string> {
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
    const read = { maxBytes, timeoutMs, minBytesPerSecond, clock, platform: request, underWay: this.#underWay, held };
    return refusal ? answerOf(rawRequest(request), read, refusal) : readBody(rawRequest(request), read);
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

/** Reads the body of a caller whose calls are refused. @throws the refusal for a body that is too large for an answer */
async function answerOf(request: IncomingMessage, options: BodyReaderOptions, refusal: McpError): Promise<string> {
  try {
    return await readBody(request, options);
  } catch (error) {
    throw error instanceof McpError && error.code === 'PAYLOAD_TOO_LARGE' ? refusal : error;
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
