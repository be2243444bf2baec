import { randomToken } from '../../common/random-token.js';
import type { McpHttpCall, McpSessionInfo } from '../../context/mcp-call.js';
import type { McpReply, PendingReply } from '../../context/mcp-exchange.js';
import { asking } from '../../session/asking.js';
import type { LiveSession, LiveSessions } from '../../session/live-sessions.js';
import { McpSession } from '../../session/mcp-session.js';
import { ServerFactoryError } from '../../session/session.errors.js';
import { capsFor, type SessionEnvironment, type SessionLimits } from '../../session/session.options.js';
import type { InitializeParams, McpSessionStore } from '../../session/session-store.js';
import { McpError, shutdownRefusal } from '../../wire/errors.js';
import { SESSION_ID_HEADER } from '../../wire/headers.js';
import type { IncomingBody, JsonRpcRequest } from '../../wire/json-rpc.js';
import { arePlainCapabilities, isPlainInfo } from '../../wire/era.js';
import { checkedBySpec } from '../../wire/spec.js';
import { protocolMessages } from '../endpoint.messages.js';

/** Seconds after which a refused newcomer may try again. */
const RETRY_AFTER = { 'Retry-After': '5' };

/** Characters that the parameters of `initialize` may have as JSON. */
const MAX_INITIALIZE = 16 * 1024;

/** Unguessable ids are long ids; the specification wants visible ASCII. */
const SESSION_ID = /^[\x21-\x7e]{16,256}$/;

/**
 * # One `initialize`: how a session comes to be
 *
 *     reserving ──▶ answering ──▶ recorded
 *          └────────────┴──▶ undone (refused, failed, or the client went away)
 *
 * The place is reserved before anything is made, so that caps hold also for many at once; the record is written when the
 * dispatcher has said yes. Whatever goes wrong on the way leaves nothing behind (behaviour S2).
 */
export class Initialization implements PendingReply {
  readonly reply: Promise<McpReply>;
  readonly #id: string;
  #live: LiveSession | undefined;
  #begun = false;
  #gone = false;

  constructor(
    private readonly host: InitializationHost,
    private readonly http: McpHttpCall & Pick<McpSessionInfo, 'routeParams'>,
    private readonly body: IncomingBody,
  ) {
    this.#id = host.newSessionId();
    this.reply = this.#run();
  }

  abandon(): void {
    this.#gone = true;
    if (!this.#begun) {
      return void this.#live?.session.end('initialize-failed');
    }
    // The session is there, but nobody will ever know its id.
    this.host.sessions.end(this.#id, 'initialize-failed').catch((error: unknown) => this.host.report(error));
  }

  async #run(): Promise<McpReply> {
    const request = this.body.messages[0] as JsonRpcRequest;
    assertKeepable(request);
    const params = initializeParams(request);
    await this.#reserve(request);
    try {
      const reply = await this.#serve(params);
      if (reply) return reply;
    } catch (error) {
      await this.#undo();
      if (this.host.sessions.closing) throw shutdownRefusal().withRequestId(request.id);
      throw error instanceof McpError ? error.withRequestId(request.id) : this.#failure(error, request);
    }
    return this.#undo();
  }

  async #reserve({ id: requestId }: JsonRpcRequest): Promise<void> {
    const { store, limits } = this.host;
    const { principal } = this.http;
    const caps = capsFor(principal, limits);
    const refused = { requestId, headers: RETRY_AFTER };
    switch (await this.#asking(() => store.reserve(this.#id, principal, caps))) {
      case 'reserved':
        return;
      case 'total-cap': {
        const message = protocolMessages.tooManySessions(caps.total);
        throw new McpError('UNAVAILABLE', message, { ...refused, option: 'maxSessions' });
      }
      case 'principal-cap': {
        const anonymous = principal === undefined;
        const option = anonymous ? 'maxAnonymousSessions' : 'maxSessionsPerPrincipal';
        const say = anonymous ? protocolMessages.tooManyAnonymous : protocolMessages.tooManyOfPrincipal;
        throw new McpError('TOO_MANY_SESSIONS', say(caps.perPrincipal), { ...refused, option });
      }
      case 'taken':
        this.host.report(new ServerFactoryError(protocolMessages.sessionIdTaken()));
        throw new McpError('INTERNAL_ERROR', protocolMessages.initializeFailed(), { requestId });
    }
  }

  /** @returns the answer with the new session's id; `undefined` if there will be no session */
  async #serve(params: InitializeParams): Promise<McpReply | undefined> {
    const { sessions, store, environment } = this.host;
    await this.#asking(() => environment.store.open(this.#id));
    this.#assertOpen();
    if (this.#gone) return undefined;
    const { principal, routeParams } = this.http;
    const live = (this.#live = sessions.begin(new McpSession({ id: this.#id, principal, routeParams }, environment)));
    const reply = await live.session.receive(this.http, this.body).reply;
    this.#assertOpen();
    if (this.#gone || reply.kind !== 'json') return undefined;
    if (!live.session.initialized) {
      await this.#undo();
      return reply;
    }
    const { protocolVersion } = live.session.info;
    const record = { id: this.#id, principal, routeParams, protocolVersion, initialize: params };
    await this.#asking(() => store.create(record));
    if (this.#gone) return undefined;
    this.#assertOpen();
    if (!sessions.add(live))
      throw new McpError('UNAVAILABLE', protocolMessages.initializeFailed(), { headers: RETRY_AFTER });
    this.#begun = true;
    environment.event({ type: 'created', sessionId: this.#id, session: live.session.info });
    return { ...reply, headers: { [SESSION_ID_HEADER]: this.#id } };
  }

  /** The shutdown ends the sessions that it finds: none may begin after it. @throws McpError UNAVAILABLE */
  #assertOpen(): void {
    if (this.host.sessions.closing) throw shutdownRefusal();
  }

  /** Nothing of it was ever there. */
  async #undo(): Promise<McpReply> {
    const { store, sessions } = this.host;
    if (this.#live) await sessions.discard(this.#live.session);
    // A store that fails at this must not hide what went wrong first.
    const undone = await Promise.allSettled([store.release(this.#id), store.delete(this.#id)]);
    const failed = undone.filter((outcome) => outcome.status === 'rejected');
    for (const { reason } of failed) this.#fault(reason);
    // There may be a record that nobody knows of: it will expire.
    if (failed.length > 0) sessions.watch();
    void sessions.forget(this.#id);
    return { kind: 'accepted' };
  }

  #asking<T>(ask: () => Promise<T>): Promise<T> {
    return asking(this.host.environment, this.#id, ask);
  }

  #fault(error: unknown): void {
    const sessionId = this.#id;
    this.host.environment.event({ type: 'store-fault', sessionId, streamId: '', fatal: false, error });
  }

  #failure(error: unknown, { id: requestId }: JsonRpcRequest): McpError {
    this.host.report(error);
    return new McpError('INTERNAL_ERROR', protocolMessages.initializeFailed(), { requestId, cause: error });
  }
}

/** What an `initialize` needs of its endpoint. */
export interface InitializationHost {
  readonly sessions: LiveSessions;
  readonly store: McpSessionStore;
  readonly environment: SessionEnvironment;
  readonly limits: SessionLimits;
  newSessionId(): string;
  /** Tells the operator. */
  report(error: unknown): void;
}

/** An id of the application's generator, or a random one of 131 bits. */
export function makeSessionId(generate: (() => string) | undefined): string {
  const id: unknown = generate ? generate() : randomToken();
  if (typeof id === 'string' && SESSION_ID.test(id)) return id;
  throw new ServerFactoryError(protocolMessages.badSessionId(id));
}

/** The parameters are kept for as long as the session is. @throws McpError INVALID_REQUEST */
function assertKeepable({ id: requestId, params = {} }: JsonRpcRequest): void {
  const size = JSON.stringify(params).length;
  if (size > MAX_INITIALIZE) {
    throw new McpError('INVALID_REQUEST', protocolMessages.initializeTooLarge(size, MAX_INITIALIZE), { requestId });
  }
}

/** @throws McpError INVALID_PARAMS */
export function initializeParams({ id: requestId, params = {} }: JsonRpcRequest): InitializeParams {
  const { protocolVersion, capabilities, clientInfo } = params as Partial<InitializeParams>;
  const { name, version } = clientInfo ?? {};
  const refuse = (what: string, got: unknown): never => {
    throw new McpError('INVALID_PARAMS', protocolMessages.badInitialize(what, got), { requestId });
  };
  if (typeof protocolVersion !== 'string') return refuse('protocolVersion, a string', protocolVersion);
  if (!isPlainObject(capabilities)) return refuse('capabilities, an object', capabilities);
  if (typeof name !== 'string' || typeof version !== 'string') {
    return refuse('clientInfo with a name and a version', clientInfo);
  }
  if (!arePlainCapabilities(capabilities) || !isPlainInfo(clientInfo)) {
    const { problem } = checkedBySpec('InitializeRequest', { method: 'initialize', params });
    if (problem) throw new McpError('INVALID_PARAMS', protocolMessages.malformedInitialize(problem), { requestId });
  }
  return params as InitializeParams;
}

function isPlainObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
