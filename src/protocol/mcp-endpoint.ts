import type { McpHttpCall, McpSessionInfo } from '../context/mcp-call.js';
import { ACCEPTED, type McpReply, type McpServing } from '../context/mcp-reply.js';
import { McpError, shutdownRefusal } from '../wire/errors.js';
import { PROTOCOL_VERSION_META_KEY } from '../wire/era.js';
import { PROTOCOL_VERSION_HEADER, singleHeader, type RequestHeaders } from '../wire/header.js';
import { isNotification, isRequest, type IncomingBody } from '../wire/json-rpc.js';
import { LEGACY_REVISIONS, MODERN_REVISIONS } from '../wire/revisions.js';
import type { InitializationHost } from './legacy/initialization.js';
import { LegacyEndpoint } from './legacy/legacy-endpoint.js';
import { unsupportedRevision } from './modern/modern-classification.js';
import { ModernEndpoint, type ModernEndpointParts } from './modern/modern-endpoint.js';
import type { RunningCalls } from '../session/running-calls.js';
import { protocolMessages } from './protocol.messages.js';
import type { Eras } from './protocol.options.js';

/**
 * One endpoint: takes what HTTP brings, hands it to the era it belongs to, and says what to answer.
 *
 *     open ──drain()──▶ draining (503 to what is no part of a running call) ──▶ stopped (503 to everything)
 */
export class McpEndpoint {
  readonly legacy: LegacyEndpoint;
  readonly modern: ModernEndpoint;
  readonly #running: RunningCalls;

  constructor(
    private readonly host: InitializationHost,
    modern: ModernEndpointParts,
    readonly eras: Eras,
    /** How long running calls have to end when the app shuts down. */
    private readonly drainMs: number,
  ) {
    this.#running = host.environment.running;
    this.legacy = new LegacyEndpoint(host);
    this.modern = new ModernEndpoint(modern);
  }

  /**
   * @param session the session that the caller named and may use, if any
   * @throws McpError
   */
  post(
    http: McpHttpCall,
    body: IncomingBody,
    headers: RequestHeaders,
    session: McpSessionInfo | undefined,
  ): McpServing | Promise<McpServing> {
    this.assertTaken('POST', body);
    if (http.era === 'modern') {
      return this.eras === 'legacy' ? refuseModern(body) : this.modern.post(http, body, headers);
    }
    return this.eras === 'modern' ? refuseLegacy(body, headers) : this.legacy.post(http, body, session);
  }

  async get(session: McpSessionInfo, lastEventId: string | undefined): Promise<McpReply> {
    this.assertTaken('GET');
    if (this.#running.state === 'draining' && !this.legacy.leadsToRunningCall(session, lastEventId)) {
      throw shutdownRefusal();
    }
    const [opened] = await Promise.allSettled([this.legacy.get(session, lastEventId)]);
    // While the log was asked the session may have ended here: a response would be empty, or would never end.
    if (this.#running.state === 'stopped') throw shutdownRefusal();
    if (opened.status === 'rejected') throw opened.reason;
    return opened.value;
  }

  async delete(session: McpSessionInfo): Promise<McpReply> {
    this.assertTaken('DELETE');
    return this.legacy.delete(session);
  }

  /** Takes no more calls, and lets those that run end, for `drainMs` at most. */
  drain(): Promise<void> {
    return this.#running.drain(this.drainMs, this.host.environment.clock);
  }

  /** After `drain()`: answers every open call and ends every stream of this node. */
  async close(): Promise<void> {
    this.modern.close();
    await this.host.sessions.shutdown();
  }

  /**
   * While running calls may end, answers and cancellations are taken, and GETs looked at: they may belong to one.
   *
   * @throws McpError UNAVAILABLE from the moment on when shutdown begins (E13)
   */
  assertTaken(method: string, { messages }: IncomingBody = NO_BODY): void {
    const { state } = this.#running;
    if (state === 'open') return;
    const accompanies = method === 'GET' || (method === 'POST' && !messages.some(isRequest));
    if (state === 'stopped' || !accompanies) throw shutdownRefusal();
  }

  /** Why a request is refused: while a node stops its sessions vanish, and 404 would have their clients start over (E13). */
  refusalFor(error: unknown): unknown {
    const vanished = error instanceof McpError && error.code === 'SESSION_NOT_FOUND';
    return vanished && this.#running.state !== 'open' ? shutdownRefusal() : error;
  }
}

const NO_BODY: IncomingBody = { batch: false, messages: [] };

/** An endpoint that serves sessions only: modern clients are told what it speaks, and fall back (behaviour §0, M3). */
export function refuseModern(body: IncomingBody): McpServing {
  const [message] = body.messages;
  if (body.batch) throw new McpError('INVALID_REQUEST', protocolMessages.modernBatch());
  if (isNotification(message!)) return ACCEPTED;
  if (!isRequest(message!)) throw new McpError('INVALID_REQUEST', protocolMessages.modernResponse());
  const requested = message.params?._meta?.[PROTOCOL_VERSION_META_KEY];
  throw unsupportedRevision(requested ?? null, LEGACY_REVISIONS, message.id);
}

/** An endpoint that serves no sessions: clients of the legacy era are told what it speaks (M3). */
function refuseLegacy({ batch, messages }: IncomingBody, headers: RequestHeaders): McpServing {
  const [message] = messages;
  const text = protocolMessages.legacyUnsupported(MODERN_REVISIONS);
  if (batch) throw new McpError('INVALID_REQUEST', text);
  if (isNotification(message!)) return ACCEPTED;
  if (!isRequest(message!)) throw new McpError('INVALID_REQUEST', text);
  const { protocolVersion } = (message.params ?? {}) as { protocolVersion?: unknown };
  const named = typeof protocolVersion === 'string' ? protocolVersion : undefined;
  const requested = named ?? singleHeader(headers[PROTOCOL_VERSION_HEADER]);
  const data = { supported: MODERN_REVISIONS, ...(requested !== undefined && { requested }) };
  throw new McpError('UNSUPPORTED_PROTOCOL_VERSION', text, { requestId: message.id, data });
}

/** The id that an error about the whole POST is reported under. */
export function loneRequestId({ batch, messages }: IncomingBody): string | number | null {
  const [message] = messages;
  return !batch && message && isRequest(message) ? message.id : null;
}
