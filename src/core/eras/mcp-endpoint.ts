import { Inject, Injectable } from '@nestjs/common';
import { MCP_OPTIONS } from '../common/options.js';
import type { ShutdownState } from '../common/shutdown-state.js';
import type { McpHttpCall } from '../calls/mcp-call.js';
import { ACCEPTED, type McpReply, type PendingReply } from '../calls/reply.js';
import type { Calls } from '../calls/calls.js';
import type { KnownSession } from '../sessions/running/live-sessions.js';
import { PluginHost } from '../plugins/plugin-host.js';
import { SessionRuntime } from '../sessions/session-runtime.js';
import type { ResolvedSessionOptions } from '../sessions/session.options.js';
import { excerpt, McpError, shutdownRefusal } from '../protocol/errors.js';
import { beginsCall } from '../protocol/extensions.js';
import { type McpEra, PROTOCOL_VERSION_META_KEY } from '../protocol/era.js';
import { cursorOf, PROTOCOL_VERSION_HEADER, singleHeader, type RequestHeaders } from '../protocol/headers.js';
import { isNotification, isRequest, type IncomingBody } from '../protocol/json-rpc.js';
import { LEGACY_REVISIONS, MODERN_REVISIONS } from '../protocol/revisions.js';
import { LegacyEndpoint } from './legacy/legacy-endpoint.js';
import { SessionlessEndpoint } from './legacy/sessionless-endpoint.js';
import { loneCall, ModernEndpoint, unsupportedRevision } from './modern/modern-endpoint.js';
import { Subscriptions } from './modern/subscriptions.js';
import type { McpEras, ResolvedProtocolOptions } from './protocol.options.js';

/** The default of `drainMs` with a shared session store, where other nodes continue the sessions. */
const SHARED_DRAIN_MS = 10_000;
/** The default of `drainMs` on one node: `docker stop` kills a process after 10 s. */
const LOCAL_DRAIN_MS = 5_000;
/** With these values of `NODE_ENV`, a node without shared stores waits for no call: tests end, and watchers restart it. */
const IMPATIENT: readonly unknown[] = ['test', 'development'];

/** The default of `shutdownDelayMs` with a shared session store, where a balancer stands in front of several nodes. */
const DEFAULT_SHUTDOWN_DELAY_MS = 3_000;

/** One HTTP request to the endpoint, read and checked. */
export interface McpIncoming extends McpHttpCall {
  readonly method: string;
  readonly headers: RequestHeaders;
  /** The messages of a POST; other requests have none. */
  readonly body: IncomingBody;
  /** The session that the caller named and may use; the session guard sets it. */
  session: KnownSession | undefined;
}

/**
 * Passes each HTTP request of one endpoint to the era that it belongs to, and returns the reply.
 *
 *     open ──leave()──▶ leaving ──drain()──▶ draining (503, except for messages of running calls) ──▶ stopped (503)
 */
@Injectable()
export class McpEndpoint {
  private readonly sessionless: SessionlessEndpoint | undefined;
  private readonly eras: McpEras;
  /** The endpoint is `leaving` for so many milliseconds when a signal stops the app. */
  readonly shutdownDelayMs: number;
  readonly #drainMs: number | undefined;
  #usualDrainMs: number;
  readonly #calls: Calls;

  constructor(
    @Inject(LegacyEndpoint) readonly legacy: LegacyEndpoint,
    @Inject(ModernEndpoint) readonly modern: ModernEndpoint,
    @Inject(Subscriptions) private readonly subscriptions: Subscriptions,
    @Inject(SessionlessEndpoint) sessionless: SessionlessEndpoint,
    @Inject(SessionRuntime) { calls }: SessionRuntime,
    @Inject(MCP_OPTIONS)
    { sessions, drainMs, shutdownDelayMs, eras }: ResolvedSessionOptions & Pick<ResolvedProtocolOptions, 'eras'>,
    @Inject(PluginHost) private readonly plugins: PluginHost,
  ) {
    this.sessionless = sessions === 'off' ? sessionless : undefined;
    this.eras = eras;
    this.#calls = calls;
    const shared = legacy.runtime.sharedRecords;
    this.#drainMs = drainMs;
    const localMs = IMPATIENT.includes(process.env['NODE_ENV']) ? 0 : LOCAL_DRAIN_MS;
    this.#usualDrainMs = shared ? SHARED_DRAIN_MS : localMs;
    this.shutdownDelayMs = shutdownDelayMs ?? (shared ? DEFAULT_SHUTDOWN_DELAY_MS : 0);
  }

  /**
   * Takes the messages of a POST.
   *
   * @returns how it will be answered
   * @throws McpError
   */
  post(incoming: McpIncoming): PendingReply | Promise<PendingReply> {
    const { era, body, headers, session } = incoming;
    this.assertTaken('POST', body);
    // Bodies that were read at the same time may hold more calls than there is room for (E14).
    const { admission } = this.#calls;
    const refusal =
      admission.strained && body.messages.some(beginsCall)
        ? admission.refusal(incoming.principal, session?.info.id)
        : undefined;
    if (refusal) throw refusal;
    if (era === 'modern') {
      return this.eras === 'legacy' ? refuseModern(body) : this.modern.post(incoming, body, headers);
    }
    if (this.eras === 'modern') return refuseLegacy(body, headers);
    assertNoCursor(headers);
    if (this.sessionless) return this.sessionless.post(incoming, body, headers);
    return this.legacy.post(incoming, body, session);
  }

  /** Takes a modern message of a transport without headers: its body has all information. @throws McpError */
  postWithoutHeaders(incoming: McpIncoming): PendingReply {
    const { body } = incoming;
    this.assertTaken('POST', body);
    return this.eras === 'legacy' ? refuseModern(body) : this.modern.postWithoutHeaders(incoming, body);
  }

  /** Opens the stream that a GET asks for: the standalone stream, or the one of its cursor. @throws McpError G3, G4, E13 */
  async get({ session, headers }: McpIncoming): Promise<McpReply> {
    this.assertTaken('GET');
    const lastEventId = cursorOf(headers);
    if (this.#calls.shutdown.is === 'draining' && !this.legacy.leadsToRunningCall(session!.info, lastEventId)) {
      throw shutdownRefusal();
    }
    const [opened] = await Promise.allSettled([this.legacy.get(session!, lastEventId)]);
    // The session may have ended while the log was read: a response would be empty, or would never end.
    if (this.state === 'stopped') throw shutdownRefusal();
    if (opened.status === 'rejected') throw opened.reason;
    return opened.value;
  }

  /** Ends the session of a DELETE. @throws McpError SESSION_NOT_FOUND */
  delete({ session }: McpIncoming): Promise<void> {
    this.assertTaken('DELETE');
    return this.legacy.delete(session!);
  }

  /** Returns whether clients of an era have sessions here. */
  hasSessions(era: McpEra): boolean {
    return era === 'legacy' && this.eras !== 'modern' && !this.sessionless;
  }

  get state(): ShutdownState['is'] {
    return this.#calls.shutdown.is;
  }

  /**
   * Makes health checks report that this node stops. Calls are taken as before, since the balancer does not know it
   * yet.
   */
  leave(): void {
    this.#calls.shutdown.leave();
  }

  /** Makes 0 the default of `drainMs`: a call that a test has left behind ends with its app. */
  endCallsAtOnce(): void {
    this.#usualDrainMs = 0;
  }

  /** Refuses new calls, and waits for running calls, and the work of plugins, for `drainMs` at most. */
  async drain(): Promise<void> {
    const limitMs = this.#drainMs ?? this.#usualDrainMs;
    const ended = this.#calls.shutdown.drain(limitMs);
    await Promise.all([ended, this.plugins.drain(limitMs, ended)]);
  }

  /** Answers every open call and ends every stream of this node, after `drain()`. */
  async close(): Promise<void> {
    this.#calls.stop();
    this.subscriptions.close();
    await this.legacy.sessions.shutdown();
    await this.plugins.close();
  }

  /**
   * Refuses messages while the node stops. During the drain, answers, cancellations and GETs are still accepted if they
   * belong to a running call.
   *
   * @throws McpError UNAVAILABLE from the moment on when the drain begins (E13)
   */
  assertTaken(method: string, { messages }: IncomingBody = NO_BODY): void {
    if (this.#calls.shutdown.takes) return;
    const accompanies = method === 'GET' || (method === 'POST' && !messages.some(isRequest));
    if (this.state === 'stopped' || !accompanies) throw shutdownRefusal();
  }

  /**
   * Returns the error that refuses a request: while a node stops, its sessions end, and a 404 would make their clients
   * initialize again (E13).
   */
  refusalFor(error: unknown): unknown {
    const vanished = error instanceof McpError && error.code === 'SESSION_NOT_FOUND';
    return vanished && !this.#calls.shutdown.takes ? shutdownRefusal() : error;
  }
}

const NO_BODY: IncomingBody = { batch: false, messages: [] };

/**
 * Answers a modern client of an endpoint that serves sessions only: it gets the supported revisions, and falls back
 * (§0, M3).
 */
export function refuseModern(body: IncomingBody): PendingReply {
  const message = loneCall(body);
  if (!isRequest(message)) return ACCEPTED;
  const requested = message.params?._meta?.[PROTOCOL_VERSION_META_KEY];
  throw unsupportedRevision(requested ?? null, LEGACY_REVISIONS);
}

/** Refuses a POST with a cursor: a stream is resumed by GET. @throws McpError BAD_REQUEST (E10) */
export function assertNoCursor(headers: RequestHeaders): void {
  if (cursorOf(headers) === undefined) return;
  const text = 'Last-Event-ID was sent with a POST. A stream is resumed by GET; send the message without the header.';
  throw new McpError('BAD_REQUEST', text);
}

/** Answers a legacy client of an endpoint that serves no sessions: it gets the supported revisions (M3). */
function refuseLegacy({ batch, messages }: IncomingBody, headers: RequestHeaders): PendingReply {
  const [message] = messages;
  const text = `This endpoint serves no sessions. Send requests of revision ${MODERN_REVISIONS.join(' or ')}, each with its "_meta".`;
  if (batch) throw new McpError('INVALID_REQUEST', text);
  if (isNotification(message!)) return ACCEPTED;
  if (!isRequest(message!)) throw new McpError('INVALID_REQUEST', text);
  const { protocolVersion } = (message.params ?? {}) as { protocolVersion?: unknown };
  const named = typeof protocolVersion === 'string' ? protocolVersion : undefined;
  const requested = named ?? singleHeader(headers[PROTOCOL_VERSION_HEADER]);
  const data = { supported: MODERN_REVISIONS, ...(requested !== undefined && { requested: excerpt(requested) }) };
  throw new McpError('UNSUPPORTED_PROTOCOL_VERSION', text, { data });
}

/** Returns the id that an error about the whole POST is reported under. */
export function loneRequestId({ batch, messages }: IncomingBody): string | number | null {
  const [message] = messages;
  return !batch && message && isRequest(message) ? message.id : null;
}
