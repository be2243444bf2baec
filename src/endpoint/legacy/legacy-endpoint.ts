import { Inject, Injectable } from '@nestjs/common';
import type { McpHttpCall, McpSessionInfo } from '../../context/mcp-call.js';
import type { McpReply, PendingReply } from '../../context/mcp-exchange.js';
import { asking } from '../../session/asking.js';
import { type KnownSession, type LiveSession, LiveSessions } from '../../session/live-sessions.js';
import type { McpSession } from '../../session/mcp-session.js';
import { SessionRuntime } from '../../session/session-runtime.js';
import { McpSessionStore } from '../../session/session-store.js';
import { type ResolvedSessionOptions, SESSION_OPTIONS } from '../../session/session.options.js';
import { McpError } from '../../wire/errors.js';
import { PROTOCOL_VERSION_HEADER, type RequestHeaders, singleHeader } from '../../wire/headers.js';
import { parseEventId } from '../../wire/sse.js';
import { isInitializeRequest, type IncomingBody } from '../../wire/json-rpc.js';
import { isLegacyRevision, LEGACY_REVISIONS } from '../../wire/revisions.js';
import { shown } from '../../wire/wire.messages.js';
import { Initialization, type InitializationHost } from './initialization.js';

/**
 * The legacy era (2025-03-26 to 2025-11-25): everything happens in a session, which `initialize` begins.
 *
 * Access was decided before: a request that gets here with a session may use it.
 */
@Injectable()
export class LegacyEndpoint implements InitializationHost {
  constructor(
    @Inject(LiveSessions) readonly sessions: LiveSessions,
    @Inject(McpSessionStore) readonly store: McpSessionStore,
    @Inject(SessionRuntime) readonly environment: SessionRuntime,
    @Inject(SESSION_OPTIONS) readonly limits: ResolvedSessionOptions,
  ) {}

  /**
   * @param known the session that the caller named and may use; `undefined` for an `initialize`
   * @throws McpError among others UNAVAILABLE, as everything here does, while a store is away
   */
  post(
    http: McpHttpCall & Pick<McpSessionInfo, 'routeParams'>,
    body: IncomingBody,
    known: KnownSession | undefined,
  ): PendingReply | Promise<PendingReply> {
    if (!known) return new Initialization(this, http, body);
    const live = this.sessions.enter(known);
    const alone = live && !live.ready && this.environment.store.scope === 'node';
    return alone ? live.session.receive(http, body) : this.#post(http, body, known);
  }

  /** To a session that has yet to be made ready, or may be live elsewhere too. */
  async #post(http: McpHttpCall, body: IncomingBody, known: KnownSession): Promise<PendingReply> {
    const session = await this.#session(known);
    if (this.environment.store.scope === 'shared') await session.handOn(body);
    return session.receive(http, body);
  }

  /** Whether a cursor is one of the stream on which a call that runs here is answered. */
  leadsToRunningCall(session: McpSessionInfo, lastEventId: string | undefined): boolean {
    const cursor = lastEventId === undefined ? undefined : parseEventId(lastEventId);
    return (
      cursor !== undefined && (this.sessions.peek(session.id)?.session.streams.isOfRunningCall(cursor.stream) ?? false)
    );
  }

  async get(known: KnownSession, lastEventId: string | undefined): Promise<McpReply> {
    return (await this.#session(known)).open(lastEventId);
  }

  async delete({ info: { id } }: KnownSession): Promise<void> {
    if (!(await this.#asking(id, () => this.sessions.end(id, 'deleted')))) throw unknownSession();
  }

  #asking<T>(sessionId: string, ask: () => Promise<T>): Promise<T> {
    return asking(this.environment, sessionId, ask);
  }

  async #session(known: KnownSession): Promise<McpSession> {
    const { sessions } = this;
    const live: LiveSession | undefined = sessions.enter(known) ?? (await sessions.acquire(known.info.id));
    await live?.ready;
    if (!live || live.session.over) throw unknownSession();
    return live.session;
  }
}

/** A lone `initialize` is the one message that needs no session (E9: it is never part of a batch). */
export function beginsSession({ batch, messages }: IncomingBody): boolean {
  return !batch && isInitializeRequest(messages[0]!);
}

/** One body for sessions that are unknown, ended, or of another caller (S6, S7). */
export function unknownSession(): McpError {
  const text = 'There is no such session. It may have ended; start a new one with "initialize".';
  return new McpError('SESSION_NOT_FOUND', text);
}

/** The first revision of the transport had no header for it. */
const WITHOUT_HEADER = '2025-03-26';

/**
 * The revision that a legacy request speaks (S9, S10).
 *
 * @param negotiated that of its session; without a session any legacy revision will do
 * @throws McpError BAD_REQUEST: the header names another one
 */
export function revisionOf(headers: RequestHeaders, negotiated?: string): string {
  const requested = singleHeader(headers[PROTOCOL_VERSION_HEADER]);
  if (requested === undefined) return negotiated ?? WITHOUT_HEADER;
  const known = isLegacyRevision(requested);
  if (requested === negotiated || (known && negotiated === undefined)) return requested;
  const text = known
    ? `MCP-Protocol-Version is ${shown(requested)}, but this session negotiated "${negotiated}". Send that.`
    : `MCP-Protocol-Version ${shown(requested)} is not supported. Supported: ${LEGACY_REVISIONS.join(', ')}.`;
  throw new McpError('BAD_REQUEST', text, { data: { supported: LEGACY_REVISIONS, requested } });
}
