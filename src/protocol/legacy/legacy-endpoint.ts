import type { McpHttpCall, McpSessionInfo } from '../../context/mcp-call.js';
import type { McpReply, McpServing } from '../../context/mcp-reply.js';
import { asking } from '../../session/asking.js';
import type { LiveSession } from '../../session/live-sessions.js';
import { infoOf, isSession } from '../../session/session-record.js';
import { McpError } from '../../wire/errors.js';
import { parseEventId } from '../../wire/event-id.js';
import { isInitializeRequest, type IncomingBody } from '../../wire/json-rpc.js';
import { protocolMessages } from '../protocol.messages.js';
import { Initialization, type InitializationHost } from './initialization.js';

/**
 * The legacy era (2025-03-26 to 2025-11-25): everything happens in a session, which `initialize` begins.
 *
 * Access was decided before: whoever gets here with a session may use it.
 */
export class LegacyEndpoint {
  constructor(private readonly host: InitializationHost) {}

  /** What is known of a session, live or not. */
  lookup(id: string): McpSessionInfo | undefined | Promise<McpSessionInfo | undefined> {
    return this.host.sessions.peek(id)?.session.info ?? this.#recorded(id);
  }

  /**
   * @param session the session that the caller named and may use; `undefined` for an `initialize`
   * @throws McpError among others UNAVAILABLE, as everything here does, while a store is away
   */
  post(http: McpHttpCall, body: IncomingBody, session: McpSessionInfo | undefined): McpServing | Promise<McpServing> {
    if (!session) return new Initialization(this.host, http, body);
    const { sessions, environment } = this.host;
    const live = environment.store.scope === 'node' ? sessions.use(session.id) : undefined;
    return live && !live.session.over ? live.session.receive(http, body) : this.#post(http, body, session);
  }

  /** To a session that has to be looked for, or may be live elsewhere too. */
  async #post(http: McpHttpCall, body: IncomingBody, session: McpSessionInfo): Promise<McpServing> {
    const live = await this.#live(session.id);
    if (this.host.environment.store.scope === 'shared') await live.session.handOn(body);
    return live.session.receive(http, body);
  }

  /** Whether a cursor is one of the stream on which a call that runs here is answered. */
  leadsToRunningCall(session: McpSessionInfo, lastEventId: string | undefined): boolean {
    const cursor = lastEventId === undefined ? undefined : parseEventId(lastEventId);
    return (
      cursor !== undefined &&
      (this.host.sessions.peek(session.id)?.session.streams.isOfRunningCall(cursor.stream) ?? false)
    );
  }

  async get(session: McpSessionInfo, lastEventId: string | undefined): Promise<McpReply> {
    const live = await this.#live(session.id);
    return live.session.open(lastEventId);
  }

  async delete(session: McpSessionInfo): Promise<McpReply> {
    const { id } = session;
    if (!(await this.#asking(id, () => this.host.sessions.end(id, 'deleted')))) throw unknownSession();
    return { kind: 'empty', status: 204 };
  }

  async #recorded(id: string): Promise<McpSessionInfo | undefined> {
    const record = await this.#asking(id, () => this.host.store.get(id));
    return isSession(record) ? infoOf(record) : undefined;
  }

  #asking<T>(sessionId: string, ask: () => Promise<T>): Promise<T> {
    return asking(this.host.environment, sessionId, ask);
  }

  async #live(id: string): Promise<LiveSession> {
    const live = await this.host.sessions.acquire(id);
    if (!live || live.session.over) throw unknownSession();
    return live;
  }
}

/** A lone `initialize` is the one message that needs no session (E9: it is never part of a batch). */
export function beginsSession({ batch, messages }: IncomingBody): boolean {
  return !batch && isInitializeRequest(messages[0]!);
}

/** One body for sessions that are unknown, ended, or somebody else's (S6, S7). */
export function unknownSession(): McpError {
  return new McpError('SESSION_NOT_FOUND', protocolMessages.unknownSession());
}
