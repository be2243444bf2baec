import { Inject, Injectable } from '@nestjs/common';
import { FORMATS } from '../../common/formats.js';
import { isThenable } from '../../common/promises.js';
import { randomToken } from '../../common/random-token.js';
import { MCP_OPTIONS } from '../../common/options.js';
import type { McpHttpCall, McpSessionInfo } from '../../calls/mcp-call.js';
import type { McpReply, PendingReply } from '../../calls/reply.js';
import { logError } from '../../calls/operator-log.js';
import { type KnownSession, type LiveSession, LiveSessions } from '../../sessions/running/live-sessions.js';
import { McpSession } from '../../sessions/running/mcp-session.js';
import type { InitializeParams } from '../../sessions/running/session-state.js';
import { SessionRuntime } from '../../sessions/session-runtime.js';
import {
  type McpCreateOutcome,
  type McpNewSessionRecord,
  McpSessionStore,
  type McpSessionCaps,
} from '../../sessions/store/session-store.js';
import { McpServerFactoryError } from '../../sessions/session.errors.js';
import { capsFor, type ResolvedSessionOptions, type SessionLimits } from '../../sessions/session.options.js';
import { arePlainCapabilities, isPlainInfo } from '../../protocol/era.js';
import { excerpt, limitReached, McpError, retryLater, shutdownRefusal, shown } from '../../protocol/errors.js';
import {
  PROTOCOL_VERSION_HEADER,
  type RequestHeaders,
  SESSION_ID_HEADER,
  singleHeader,
} from '../../protocol/headers.js';
import { isInitializeRequest, type IncomingBody, type JsonRpcRequest } from '../../protocol/json-rpc.js';
import { isLegacyRevision, LEGACY_REVISIONS, negotiated } from '../../protocol/revisions.js';
import { checkedBySpec } from '../../protocol/spec.js';
import { parseEventId } from '../../protocol/events.js';

/**
 * Serves the legacy era (2025-03-26 to 2025-11-25): everything happens in a session, which `initialize` begins.
 *
 * The session guard has already checked access: a request with a session may use it.
 */
@Injectable()
export class LegacyEndpoint {
  constructor(
    @Inject(LiveSessions) readonly sessions: LiveSessions,
    @Inject(McpSessionStore) readonly store: McpSessionStore,
    @Inject(SessionRuntime) readonly runtime: SessionRuntime,
    @Inject(MCP_OPTIONS) readonly limits: SessionLimits & Pick<ResolvedSessionOptions, 'sessionIdGenerator'>,
  ) {}

  /**
   * @param known the session that the caller named and may use; `undefined` for an `initialize`
   * @throws McpError among others UNAVAILABLE while a store is unavailable, as all methods of this class
   */
  post(http: McpHttpCall, body: IncomingBody, known: KnownSession | undefined): PendingReply | Promise<PendingReply> {
    if (!known) return new Initialization(this, http, body);
    const live = this.sessions.enter(known);
    if (!live || live.ready || live.session.over) return this.#post(http, body, known);
    const handedOn = live.session.handOn(body);
    return handedOn ? handedOn.then(() => live.session.receive(http, body)) : live.session.receive(http, body);
  }

  /** Serves messages for a session that has yet to be made ready. */
  async #post(http: McpHttpCall, body: IncomingBody, known: KnownSession): Promise<PendingReply> {
    const session = await this.#session(known);
    await session.handOn(body);
    return session.receive(http, body);
  }

  /** Returns whether a cursor belongs to the stream on which a running call of this node is answered. */
  leadsToRunningCall(session: McpSessionInfo, lastEventId: string | undefined): boolean {
    const cursor = lastEventId === undefined ? undefined : parseEventId(lastEventId);
    return (
      cursor !== undefined && (this.sessions.peek(session.id)?.session.streams.isOfRunningCall(cursor.stream) ?? false)
    );
  }

  async get(known: KnownSession, lastEventId: string | undefined): Promise<McpReply> {
    return (await this.#session(known)).open(lastEventId);
  }

  delete({ info: { id } }: KnownSession): Promise<void> {
    return this.#asking(id, () => this.sessions.end(id, 'deleted')).then((ended) => {
      if (!ended) throw unknownSession();
    });
  }

  #asking<T>(sessionId: string, ask: () => Promise<T>): Promise<T> {
    return this.runtime.ask(sessionId, ask);
  }

  async #session(known: KnownSession): Promise<McpSession> {
    const { sessions } = this;
    const live: LiveSession | undefined = sessions.enter(known) ?? (await sessions.acquire(known.info.id));
    await live?.ready;
    if (!live || live.session.over) throw unknownSession();
    return live.session;
  }
}

/**
 * Returns whether a body is a lone `initialize`, the one message that needs no session (E9: it is never part of a
 * batch).
 */
export function beginsSession({ batch, messages }: IncomingBody): boolean {
  return !batch && isInitializeRequest(messages[0]!);
}

/** Returns one error for sessions that are unknown, ended, or of another caller (S6, S7). */
export function unknownSession(): McpError {
  const text = 'Session not found. It may have ended; start a new one with "initialize".';
  return new McpError('SESSION_NOT_FOUND', text);
}

/** The first revision of the transport had no header for the revision. */
const WITHOUT_HEADER = '2025-03-26';

/**
 * Returns the revision of a legacy request (S9, S10).
 *
 * @param negotiated that of its session; without a session any legacy revision will do
 * @throws McpError BAD_REQUEST: the header names another one
 */
export function revisionOf(headers: RequestHeaders, negotiated?: string): string {
  const requested = singleHeader(headers[PROTOCOL_VERSION_HEADER]);
  if (requested === undefined) return negotiated ?? WITHOUT_HEADER;
  if (requested === negotiated) return requested;
  const known = isLegacyRevision(requested);
  if (known && negotiated === undefined) return requested;
  const text = known
    ? `MCP-Protocol-Version is ${shown(requested)}, but this session negotiated "${negotiated}". Send the negotiated version.`
    : `MCP-Protocol-Version ${shown(requested)} is not supported. Supported: ${LEGACY_REVISIONS.join(', ')}.`;
  throw new McpError('BAD_REQUEST', text, { data: { supported: LEGACY_REVISIONS, requested: excerpt(requested) } });
}

/** The parameters of `initialize` may have so many bytes as JSON: small objects take many times that in memory. */
const MAX_INITIALIZE = 4 * 1024;

/** Session ids are long, so that they are unguessable; the specification requires visible ASCII. */
const SESSION_ID = /^[\x21-\x7e]{16,256}$/;

const FAILED = 'The session could not be started. See the server log.';

/**
 * # One `initialize`: how a session comes to be
 *
 *     recording ──▶ answering ──▶ begun
 *         └────────────┴──▶ ended (refused, failed, or the client went away)
 *
 * The record is created first, so that caps hold for concurrent requests. Later failures remove it and everything else
 * (S2); the record of a node that dies meanwhile expires.
 */
class Initialization implements PendingReply {
  readonly reply: Promise<McpReply>;
  readonly #id: string;
  #session: McpSession | undefined;
  #begun = false;
  #gone = false;

  constructor(
    private readonly endpoint: LegacyEndpoint,
    private readonly http: McpHttpCall,
    private readonly body: IncomingBody,
  ) {
    this.#id = makeSessionId(endpoint.limits.sessionIdGenerator);
    this.reply = this.#run();
  }

  cancel(): void {
    this.#gone = true;
    if (!this.#begun) return void this.#session?.end('initialize-failed');
    // The session exists, but its client will never receive its id.
    this.endpoint.sessions.end(this.#id, 'initialize-failed').catch((error: unknown) => logError(error));
  }

  async #run(): Promise<McpReply> {
    const asked = this.body.messages[0] as JsonRpcRequest;
    const sent = keepable(asked);
    assertInitialize(asked);
    const request = negotiated(asked);
    const { protocolVersion } = request.params as InitializeParams;
    const initialize = request === asked ? sent : JSON.stringify(request.params);
    const { principal, routeParams } = this.http;
    const record = { id: this.#id, principal, routeParams, protocolVersion, initialize, format: FORMATS.sessions };
    try {
      await this.#record(record);
      return await this.#begin(request, record);
    } catch (error) {
      if (this.#gone) return { kind: 'accepted' };
      if (this.endpoint.sessions.closing) throw shutdownRefusal();
      if (error instanceof McpError) throw error;
      logError(error);
      throw new McpError('INTERNAL_ERROR', FAILED, { cause: error });
    }
  }

  /** Creates the record of the session. @throws McpError UNAVAILABLE, TOO_MANY_SESSIONS (E13) */
  async #record(record: McpNewSessionRecord): Promise<void> {
    const { sessions, store, limits } = this.endpoint;
    const caps = capsFor(this.http.principal, limits);
    const create = (): Promise<McpCreateOutcome> => this.#asking(() => store.create(record, caps));
    let outcome: McpCreateOutcome;
    try {
      outcome = await create();
      // The record is tried again, because another newcomer may take the place first.
      while (outcome === 'total-cap' && (await this.#asking(() => this.#makeRoom(caps)))) outcome = await create();
    } catch (error) {
      await sessions.discard(this.#id, undefined);
      throw error;
    }
    if (outcome !== 'created') throw this.#refusal(outcome, caps);
  }

  /** Ends another session, which gives way to this one. @returns whether there was one */
  async #makeRoom({ perPrincipal }: McpSessionCaps): Promise<boolean> {
    const { sessions, store } = this.endpoint;
    const { principal } = this.http;
    const newcomer = { id: this.#id, principal };
    if (await sessions.endUnused(newcomer)) return true;
    if (principal === undefined || !store.claimAnonymous) return false;
    // A caller at its own cap would be refused nevertheless.
    const own = perPrincipal === Infinity ? 0 : (await store.list({ principal })).length;
    return own < perPrincipal && sessions.endAnonymous(newcomer);
  }

  #refusal(outcome: Exclude<McpCreateOutcome, 'created'>, { total, perPrincipal }: McpSessionCaps): McpError {
    switch (outcome) {
      case 'total-cap':
        return limitReached('UNAVAILABLE', { of: 'server', max: total, what: 'sessions', option: 'maxSessions' });
      case 'principal-cap': {
        const limit = { max: perPrincipal, what: 'sessions' };
        if (this.http.principal === undefined) {
          const advice = '. Sign in, or try again later.';
          const option = 'maxAnonymousSessions';
          return limitReached('TOO_MANY_SESSIONS', { ...limit, of: 'anonymous', option, advice });
        }
        const advice = '. End a session with DELETE, or wait until an idle session expires.';
        const option = 'maxSessionsPerPrincipal';
        return limitReached('TOO_MANY_SESSIONS', { ...limit, of: 'caller', option, advice });
      }
      case 'taken': {
        const text =
          'The option "sessionIdGenerator" returned an id that is already in use: session ids must be unguessable and unique.';
        logError(new McpServerFactoryError(text));
        return new McpError('INTERNAL_ERROR', FAILED);
      }
    }
  }

  /** Begins the session. @returns the answer: with the id of the session, if it has begun */
  async #begin(request: JsonRpcRequest, record: McpNewSessionRecord): Promise<McpReply> {
    const { sessions, store, runtime } = this.endpoint;
    const session = (this.#session = new McpSession(record, runtime));
    sessions.begin(session);
    if (this.#gone) void session.end('initialize-failed');
    try {
      await this.#asking(() => runtime.store.open(this.#id));
      this.#assertOpen();
      const served = session.receive(this.http, { batch: false, messages: [request] }).reply;
      const reply = isThenable(served) ? await served : served;
      this.#assertOpen();
      if (!session.initialized || reply.kind !== 'json') return reply;
      const { protocolVersion } = session.info;
      if (protocolVersion !== record.protocolVersion)
        await this.#asking(() => store.patch(this.#id, { protocolVersion }));
      if (!sessions.add(session)) throw retryLater('UNAVAILABLE', FAILED, 5);
      this.#begun = true;
      runtime.event({ type: 'created', sessionId: this.#id, session: session.info });
      return { ...reply, headers: { [SESSION_ID_HEADER]: this.#id } };
    } finally {
      if (!this.#begun) await sessions.discard(this.#id, session);
    }
  }

  /**
   * Throws once the shutdown has begun: it ends the existing sessions, and none may begin after it.
   *
   * @throws McpError UNAVAILABLE
   */
  #assertOpen(): void {
    if (this.endpoint.sessions.closing) throw shutdownRefusal();
  }

  #asking<T>(ask: () => Promise<T>): Promise<T> {
    return this.endpoint.runtime.ask(this.#id, ask);
  }
}

/** Returns an id of the application's generator, or a random one of 131 bits. */
function makeSessionId(generate: (() => string) | undefined): string {
  const id: unknown = generate ? generate() : randomToken();
  if (typeof id === 'string' && SESSION_ID.test(id)) return id;
  throw new McpServerFactoryError(
    `The option "sessionIdGenerator" returned ${shown(id)}: a session id must be 16 to 256 visible ASCII characters.`,
  );
}

/** Returns the parameters as JSON, which is kept for as long as the session is. @throws McpError INVALID_PARAMS: there are too many */
function keepable({ params = {} }: JsonRpcRequest): string {
  const json = JSON.stringify(params);
  const size = Buffer.byteLength(json);
  if (size <= MAX_INITIALIZE) return json;
  const text = `The parameters of "initialize" have ${size} bytes as JSON; the maximum is ${MAX_INITIALIZE}. Send less information about the client.`;
  throw new McpError('INVALID_PARAMS', text);
}

/** Checks the parameters of `initialize`. @throws McpError INVALID_PARAMS */
export function assertInitialize({ params = {} }: JsonRpcRequest): void {
  const { protocolVersion, capabilities, clientInfo } = params as Partial<InitializeParams>;
  const plain = typeof protocolVersion === 'string' && arePlainCapabilities(capabilities) && isPlainInfo(clientInfo);
  const { problem } = plain ? {} : checkedBySpec('InitializeRequest', { method: 'initialize', params });
  if (!problem) return;
  const { path, message } = problem;
  const got = path.split('.').reduce<unknown>((value, name) => (value as Record<string, unknown> | undefined)?.[name], {
    params,
  });
  // Ids of extensions have dots: the path cannot be followed behind one.
  const is = got === undefined ? '' : ` is ${shown(got)}`;
  const text = `"initialize" does not match the specification: "${path}"${is}: ${message}. See the specification, "Lifecycle".`;
  throw new McpError('INVALID_PARAMS', text);
}
