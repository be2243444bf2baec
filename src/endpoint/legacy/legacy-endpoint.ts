import type { McpHttpCall, McpSessionInfo } from '../../context/mcp-call.js';
import type { McpReply, PendingReply } from '../../context/mcp-exchange.js';
import { asking } from '../../session/asking.js';
import type { KnownSession, LiveSession } from '../../session/live-sessions.js';
import type { McpSession } from '../../session/mcp-session.js';
import { sessionMessages } from '../../session/session.messages.js';
import { McpError } from '../../wire/errors.js';
import { parseEventId } from '../../wire/sse.js';
import { isInitializeRequest, isRequest, type IncomingBody } from '../../wire/json-rpc.js';
import { protocolMessages } from '../endpoint.messages.js';
import { Initialization, type InitializationHost } from './initialization.js';

/**
 * The legacy era (2025-03-26 to 2025-11-25): everything happens in a session, which `initialize` begins.
 *
 * Access was decided before: a request that gets here with a session may use it.
 */
export class LegacyEndpoint {
  constructor(private readonly host: InitializationHost) {}

  /** What is known of a session, live or not. @throws McpError (rejects) UNAVAILABLE while the store is away */
  lookup(id: string): KnownSession | undefined | Promise<KnownSession | undefined> {
    return this.host.sessions.lookup(id);
  }

  /**
   * @param known the session that the caller named and may use; `undefined` for an `initialize`
   * @throws McpError among others UNAVAILABLE, as everything here does, while a store is away
   */
  post(
    http: McpHttpCall & Pick<McpSessionInfo, 'routeParams'>,
    body: IncomingBody,
    known: KnownSession | undefined,
  ): PendingReply | Promise<PendingReply> {
    if (!known) return new Initialization(this.host, http, body);
    const live = this.host.sessions.enter(known);
    const alone = live && !live.ready && this.host.environment.store.scope === 'node';
    return alone ? live.session.receive(http, body) : this.#post(http, body, known);
  }

  /** To a session that has yet to be made ready, or may be live elsewhere too. */
  async #post(http: McpHttpCall, body: IncomingBody, known: KnownSession): Promise<PendingReply> {
    const session = await this.#session(known);
    if (this.host.environment.store.scope === 'shared') {
      await this.#assertNotElsewhere(session, body);
      await session.handOn(body);
    }
    return session.receive(http, body);
  }

  /** Whether a cursor is one of the stream on which a call that runs here is answered. */
  leadsToRunningCall(session: McpSessionInfo, lastEventId: string | undefined): boolean {
    const cursor = lastEventId === undefined ? undefined : parseEventId(lastEventId);
    return (
      cursor !== undefined &&
      (this.host.sessions.peek(session.id)?.session.streams.isOfRunningCall(cursor.stream) ?? false)
    );
  }

  async get(known: KnownSession, lastEventId: string | undefined): Promise<McpReply> {
    return (await this.#session(known)).open(lastEventId);
  }

  async delete({ info: { id } }: KnownSession): Promise<void> {
    if (!(await this.#asking(id, () => this.host.sessions.end(id, 'deleted')))) throw unknownSession();
  }

  /**
   * A request that another node runs is in flight too; it is known of if it is logged (S11).
   *
   * @throws McpError UNAVAILABLE while that cannot be known
   */
  async #assertNotElsewhere({ sessionId }: McpSession, { messages }: IncomingBody): Promise<void> {
    const requests = messages.filter(isRequest);
    if (requests.length === 0) return;
    const { store } = this.host.environment;
    const open = await this.#asking(sessionId, () => store.openRequests({ session: sessionId }));
    const duplicate = requests.find(({ id }) => open.some((request) => request.id === id));
    if (!duplicate) return;
    const { id: requestId } = duplicate;
    throw new McpError('INVALID_REQUEST', sessionMessages.duplicateId(requestId), { requestId });
  }

  #asking<T>(sessionId: string, ask: () => Promise<T>): Promise<T> {
    return asking(this.host.environment, sessionId, ask);
  }

  async #session(known: KnownSession): Promise<McpSession> {
    const { sessions } = this.host;
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
  return new McpError('SESSION_NOT_FOUND', protocolMessages.unknownSession());
}
