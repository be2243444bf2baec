import { logError } from '../../context/operator-log.js';
import { randomToken } from '../../common/random-token.js';
import type { McpHttpCall, McpSessionInfo } from '../../context/mcp-call.js';
import type { McpReply, PendingReply } from '../../context/mcp-exchange.js';
import { asking } from '../../session/asking.js';
import type { LiveSessions } from '../../session/live-sessions.js';
import { McpSession } from '../../session/mcp-session.js';
import { ServerFactoryError } from '../../session/session.errors.js';
import {
  capsFor,
  type ResolvedSessionOptions,
  type SessionEnvironment,
  type SessionLimits,
} from '../../session/session.options.js';
import type { CreateOutcome, InitializeParams, McpSessionStore, SessionCaps } from '../../session/session-store.js';
import { McpError, shutdownRefusal } from '../../wire/errors.js';
import { SESSION_ID_HEADER } from '../../wire/headers.js';
import type { IncomingBody, JsonRpcRequest } from '../../wire/json-rpc.js';
import { negotiateLegacyRevision } from '../../wire/revisions.js';
import { arePlainCapabilities, isPlainInfo } from '../../wire/era.js';
import { checkedBySpec } from '../../wire/spec.js';
import { shown } from '../../wire/wire.messages.js';

/** Seconds after which a refused newcomer may try again. */
const RETRY_AFTER = { 'Retry-After': '5' };

/** Characters that the parameters of `initialize` may have as JSON. */
const MAX_INITIALIZE = 16 * 1024;

/** Unguessable ids are long ids; the specification wants visible ASCII. */
const SESSION_ID = /^[\x21-\x7e]{16,256}$/;

const FAILED = 'The session could not be started. The log of the server says why.';

/**
 * # One `initialize`: how a session comes to be
 *
 *     recording ──▶ answering ──▶ begun
 *         └────────────┴──▶ discarded (refused, failed, or the client went away)
 *
 * The record comes first, so that caps hold also for many at once. Whatever goes wrong afterwards leaves nothing behind
 * (S2); the record of a node that dies meanwhile expires.
 */
export class Initialization implements PendingReply {
  readonly reply: Promise<McpReply>;
  readonly #id: string;
  #session: McpSession | undefined;
  #begun = false;
  #gone = false;

  constructor(
    private readonly host: InitializationHost,
    private readonly http: McpHttpCall & Pick<McpSessionInfo, 'routeParams'>,
    private readonly body: IncomingBody,
  ) {
    this.#id = makeSessionId(host.limits.sessionIdGenerator);
    this.reply = this.#run();
  }

  abandon(): void {
    this.#gone = true;
    if (!this.#begun) return void this.#session?.end('initialize-failed');
    // The session is there, but no client will ever know its id.
    this.host.sessions.end(this.#id, 'initialize-failed').catch((error: unknown) => logError(error));
  }

  async #run(): Promise<McpReply> {
    const request = this.body.messages[0] as JsonRpcRequest;
    assertKeepable(request);
    const params = initializeParams(request);
    const revision = negotiateLegacyRevision(params.protocolVersion);
    try {
      await this.#record(params, revision);
      return await this.#begin(revision);
    } catch (error) {
      if (this.#gone) return { kind: 'accepted' };
      if (this.host.sessions.closing) throw shutdownRefusal().withRequestId(request.id);
      throw error instanceof McpError ? error.withRequestId(request.id) : this.#failure(error, request);
    }
  }

  /** @throws McpError UNAVAILABLE, TOO_MANY_SESSIONS (E13) */
  async #record(params: InitializeParams, protocolVersion: string): Promise<void> {
    const { sessions, store, limits } = this.host;
    const { principal, routeParams } = this.http;
    const record = { id: this.#id, principal, routeParams, protocolVersion, initialize: params };
    const caps = capsFor(principal, limits);
    const outcome = await this.#asking(() => store.create(record, caps)).catch(async (error: unknown) => {
      await sessions.discard(this.#id, undefined);
      throw error;
    });
    if (outcome !== 'created') throw this.#refusal(outcome, caps);
  }

  #refusal(outcome: Exclude<CreateOutcome, 'created'>, { total, perPrincipal }: SessionCaps): McpError {
    const headers = RETRY_AFTER;
    switch (outcome) {
      case 'total-cap': {
        const text = `This server has ${total} sessions, the most it may have ("maxSessions"). Try again later.`;
        return new McpError('UNAVAILABLE', text, { headers, option: 'maxSessions' });
      }
      case 'principal-cap': {
        const anonymous = this.http.principal === undefined;
        const option = anonymous ? 'maxAnonymousSessions' : 'maxSessionsPerPrincipal';
        const text = anonymous
          ? `The anonymous callers of this server have ${perPrincipal} sessions together, the most they may have ("${option}"). Sign in, or try again later.`
          : `This caller has ${perPrincipal} sessions, the most that one may have ("${option}"). End a session with DELETE, or wait until one is idle for long enough.`;
        return new McpError('TOO_MANY_SESSIONS', text, { headers, option });
      }
      case 'taken': {
        const text =
          'The option "sessionIdGenerator" returned an id that is in use: ids must be unguessable and unique.';
        logError(new ServerFactoryError(text));
        return new McpError('INTERNAL_ERROR', FAILED);
      }
    }
  }

  /** @returns the answer: with the id of the session, if it has begun */
  async #begin(recorded: string): Promise<McpReply> {
    const { sessions, environment } = this.host;
    const { principal, routeParams } = this.http;
    const session = (this.#session = new McpSession({ id: this.#id, principal, routeParams }, environment));
    sessions.begin(session);
    if (this.#gone) void session.end('initialize-failed');
    try {
      return await this.#serve(session, recorded);
    } finally {
      if (!this.#begun) await sessions.discard(this.#id, session);
    }
  }

  async #serve(session: McpSession, recorded: string): Promise<McpReply> {
    const { sessions, store, environment } = this.host;
    await this.#asking(() => environment.store.open(this.#id));
    this.#assertOpen();
    const reply = await session.receive(this.http, this.body).reply;
    this.#assertOpen();
    if (!session.initialized || reply.kind !== 'json') return reply;
    const { protocolVersion } = session.info;
    if (protocolVersion !== recorded) await this.#asking(() => store.patch(this.#id, { protocolVersion }));
    if (!sessions.add(session)) {
      throw new McpError('UNAVAILABLE', FAILED, { headers: RETRY_AFTER });
    }
    this.#begun = true;
    environment.event({ type: 'created', sessionId: this.#id, session: session.info });
    return { ...reply, headers: { [SESSION_ID_HEADER]: this.#id } };
  }

  /** The shutdown ends the sessions that it finds: none may begin after it. @throws McpError UNAVAILABLE */
  #assertOpen(): void {
    if (this.host.sessions.closing) throw shutdownRefusal();
  }

  #asking<T>(ask: () => Promise<T>): Promise<T> {
    return asking(this.host.environment, this.#id, ask);
  }

  #failure(error: unknown, { id: requestId }: JsonRpcRequest): McpError {
    logError(error);
    return new McpError('INTERNAL_ERROR', FAILED, { requestId, cause: error });
  }
}

/** What an `initialize` needs of its endpoint. */
export interface InitializationHost {
  readonly sessions: LiveSessions;
  readonly store: McpSessionStore;
  readonly environment: SessionEnvironment;
  readonly limits: SessionLimits & Pick<ResolvedSessionOptions, 'sessionIdGenerator'>;
}

/** An id of the application's generator, or a random one of 131 bits. */
function makeSessionId(generate: (() => string) | undefined): string {
  const id: unknown = generate ? generate() : randomToken();
  if (typeof id === 'string' && SESSION_ID.test(id)) return id;
  throw new ServerFactoryError(
    `The option "sessionIdGenerator" returned ${shown(id)}: a session id must be 16 to 256 visible ASCII characters.`,
  );
}

/** The parameters are kept for as long as the session is. @throws McpError INVALID_REQUEST */
function assertKeepable({ id: requestId, params = {} }: JsonRpcRequest): void {
  const size = JSON.stringify(params).length;
  if (size > MAX_INITIALIZE) {
    const text = `The parameters of "initialize" have ${size} characters as JSON; ${MAX_INITIALIZE} is the most. Say less of the client.`;
    throw new McpError('INVALID_REQUEST', text, { requestId });
  }
}

/** @throws McpError INVALID_PARAMS */
export function initializeParams({ id: requestId, params = {} }: JsonRpcRequest): InitializeParams {
  const { protocolVersion, capabilities, clientInfo } = params as Partial<InitializeParams>;
  const { name, version } = clientInfo ?? {};
  const refuse = (what: string, got: unknown): never => {
    const text = `"initialize" needs params.${what}; got ${shown(got)}. See the specification, "Lifecycle".`;
    throw new McpError('INVALID_PARAMS', text, { requestId });
  };
  if (typeof protocolVersion !== 'string') return refuse('protocolVersion, a string', protocolVersion);
  if (!isPlainObject(capabilities)) return refuse('capabilities, an object', capabilities);
  if (typeof name !== 'string' || typeof version !== 'string') {
    return refuse('clientInfo with a name and a version', clientInfo);
  }
  if (!arePlainCapabilities(capabilities) || !isPlainInfo(clientInfo)) {
    const { problem } = checkedBySpec('InitializeRequest', { method: 'initialize', params });
    if (problem) {
      const text = `"initialize" is not as the specification has it: "${problem.path}": ${problem.message}. See the specification, "Lifecycle".`;
      throw new McpError('INVALID_PARAMS', text, { requestId });
    }
  }
  return params as InitializeParams;
}

function isPlainObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
