import type { Server, ServerCapabilities } from '@modelcontextprotocol/server';
import { firstValueFrom } from 'rxjs';
import { quiet } from '../core/common/promises.js';
import type { McpCall, McpHttpCall } from '../core/calls/mcp-call.js';
import type { McpDispatchedSession, McpDispatcher, McpSessionSettings } from '../core/calls/mcp-dispatcher.js';
import type { McpSession } from '../core/sessions/running/mcp-session.js';
import { withoutSessions } from '../core/protocol/client-capabilities.js';
import { McpError, RefusedCall, rpcErrorOf } from '../core/protocol/errors.js';
import { METHODS } from '../core/protocol/methods.js';
import { LEGACY_REVISIONS, MODERN_REVISIONS } from '../core/protocol/revisions.js';
import { sdk } from '../core/protocol/spec.js';
import { RequestTransport } from './request-transport.js';
import { lowLevelServer, type McpServerContext, type McpServerFunction } from './server-factory.js';
import { SessionTransport } from './session-transport.js';

export interface SdkDispatcherParts {
  /** Makes a new server. */
  readonly make: (context: Omit<McpServerContext, 'sessions'>) => ReturnType<McpServerFunction>;
  /** Reports an error to the operator. */
  readonly report: (error: unknown) => void;
  /** Is called when a server supports older revisions only. */
  readonly onLegacyServer: () => void;
}

/**
 * # Serves calls by servers of the app (option `server`)
 *
 * Legacy: one per live session, made for its `initialize`, or when the session is rebuilt; then the settings of the
 * client are replayed to it. Modern, and without sessions: one per request, since servers may have state, and may
 * differ by caller.
 */
export class SdkDispatcher implements McpDispatcher {
  readonly #sessions = new Map<McpDispatchedSession, SessionTransport>();
  /** The rebuilt sessions whose server is yet to be made, or is being made. */
  readonly #rebuilding = new WeakMap<McpDispatchedSession, Rebuilding>();

  constructor(private readonly parts: SdkDispatcherParts) {}

  request(call: McpCall): Promise<object> {
    if (call.era === 'modern') return this.#serveModern(call);
    if (!call.session) return this.#serveSessionless(call);
    const session = call.from as McpSession;
    if (this.#rebuilding.has(session)) return this.#rebuilt(session, call);
    return this.#sessions.get(session)?.request(call) ?? this.#initialize(session, call);
  }

  notification(call: McpCall): void {
    if (!call.session) return;
    const session = call.from as McpSession;
    const take = (): void => this.#sessions.get(session)?.notification(call);
    const made = this.#rebuilding.get(session)?.made;
    // A rebuild that fails is reported there.
    if (made) made.then(take, () => {});
    else take();
  }

  sessionEnded(session: McpDispatchedSession): void {
    const transport = this.#sessions.get(session);
    this.#sessions.delete(session);
    transport?.ended();
  }

  /** Creates the server at once, since it may send notifications; requests wait for it. */
  sessionRebuilt(session: McpDispatchedSession, settings: McpSessionSettings): void {
    const rebuilding: Rebuilding = { settings: [settings], made: undefined };
    this.#rebuilding.set(session, rebuilding);
    void quiet(this.#rebuild(session as McpSession, rebuilding));
  }

  sessionChanged(session: McpDispatchedSession, settings: McpSessionSettings): void {
    const rebuilding = this.#rebuilding.get(session);
    if (rebuilding) rebuilding.settings.push(settings);
    else void this.#sessions.get(session)?.replay(settings);
  }

  /**
   * Returns the capabilities that the server of a caller declares.
   *
   * @throws McpError UNSUPPORTED_PROTOCOL_VERSION as a request would be answered
   */
  async capabilities(http: McpHttpCall): Promise<ServerCapabilities> {
    const { server } = await this.#connectModern(http, undefined);
    retire(server, this.parts.report);
    return server.getCapabilities();
  }

  /** Connects a server to a session before its `initialize`. @throws (rejects) McpServerFactoryError */
  async connect(session: McpSession): Promise<void> {
    await this.#connect(session, undefined);
  }

  /**
   * Serves a request of a rebuilt session.
   *
   * @throws (rejects) ProtocolError -32603 when no server can be made for it; the next one tries again
   */
  async #rebuilt(session: McpSession, call: McpCall): Promise<object> {
    let status: number | undefined;
    try {
      await this.#rebuild(session, this.#rebuilding.get(session)!);
    } catch {
      status = 500;
    }
    // The server would not receive this cancellation any more.
    call.signal.throwIfAborted();
    const transport = this.#sessions.get(session);
    if (!transport) throw failure(NOT_REBUILT, status);
    return transport.request(call);
  }

  /** Rebuilds the server in one attempt for all concurrent requests; a failure is reported once. */
  #rebuild(session: McpSession, rebuilding: Rebuilding): Promise<void> {
    return (rebuilding.made ??= this.#remake(session, rebuilding).catch((error: unknown) => {
      rebuilding.made = undefined;
      this.sessionEnded(session);
      if (!session.over) this.parts.report(error);
      throw error;
    }));
  }

  async #remake(session: McpSession, { settings }: Rebuilding): Promise<void> {
    const transport = await this.#connect(session, undefined);
    // It may grow meanwhile.
    for (const part of settings) await transport?.replay(part);
    this.#rebuilding.delete(session);
  }

  /** Serves an `initialize`. If no server can be made, the client gets a generic error; the cause is logged. */
  async #initialize(session: McpSession, call: McpCall): Promise<object> {
    let transport: SessionTransport | undefined;
    try {
      transport = await this.#connect(session, call.request);
    } catch (error) {
      this.parts.report(error);
      throw failure(INITIALIZE_FAILED, 500);
    }
    if (!transport) throw failure(INITIALIZE_FAILED);
    return transport.request(call);
  }

  /**
   * Makes and connects a server; the factory of the app may be asynchronous.
   *
   * @returns `undefined` if the session ended meanwhile
   */
  async #connect(session: McpSession, request: unknown): Promise<SessionTransport | undefined> {
    const { info } = session;
    const making = this.#make({ era: 'legacy', session: info, principal: info.principal, request });
    const ended = firstValueFrom(session.closed$).then(() => undefined);
    const server = await Promise.race([making, ended]);
    if (!server || session.over) return undefined;
    const transport = new SessionTransport(session);
    this.#sessions.set(session, transport);
    try {
      await server.connect(transport);
    } catch (error) {
      this.#sessions.delete(session);
      throw error;
    }
    return transport;
  }

  async #serveModern(call: McpCall): Promise<object> {
    const { server, transport } = await this.#connectModern(call, call);
    return this.#serveOnce(server, transport, call);
  }

  /** Serves a request of the legacy era where there are no sessions (S17). */
  async #serveSessionless(call: McpCall): Promise<object> {
    const { method, principal, request } = call;
    if (METHODS.get(method)?.patchesSession)
      throw new sdk.ProtocolError(sdk.ProtocolErrorCode.MethodNotFound, 'Method not found');
    let server: Server;
    let transport: RequestTransport;
    try {
      server = await this.#make({ era: 'legacy', session: undefined, principal, request });
      transport = await RequestTransport.connectLegacy(server, call);
    } catch (error) {
      const rpcError = rpcErrorOf(error);
      if (!rpcError) this.parts.report(error);
      throw rpcError
        ? new RefusedCall(rpcError.code, rpcError.message, 500, {}, { data: rpcError.data })
        : failure(NOT_MADE, 500);
    }
    const result = await this.#serveOnce(server, transport, call);
    if (method !== 'initialize') return result;
    const { capabilities } = result as { capabilities: ServerCapabilities };
    return { ...result, capabilities: withoutSessions(capabilities) };
  }

  async #serveOnce(server: Server, transport: RequestTransport, call: McpCall): Promise<object> {
    try {
      call.signal.throwIfAborted();
      return await transport.serve();
    } finally {
      retire(server, this.parts.report);
    }
  }

  /** @throws McpError UNSUPPORTED_PROTOCOL_VERSION when the server does not speak the revision */
  async #connectModern(
    { principal, request }: McpHttpCall,
    call: McpCall | undefined,
  ): Promise<{ server: Server; transport: RequestTransport }> {
    const server = await this.#make({ era: 'modern', session: undefined, principal, request });
    const transport = await RequestTransport.connectModern(server, call);
    if (transport) return { server, transport };
    await server.close();
    this.parts.onLegacyServer();
    const data = { supported: LEGACY_REVISIONS, requested: MODERN_REVISIONS[0] };
    throw new McpError('UNSUPPORTED_PROTOCOL_VERSION', OLDER_ONLY, { data });
  }

  async #make(context: Omit<McpServerContext, 'sessions'>): Promise<Server> {
    return lowLevelServer(await this.parts.make(context));
  }
}

/**
 * Notifies the server that it is closed, and leaves it connected to a transport that drops all messages (P8). Without a
 * transport, messages of its handlers would be rejected, and an unhandled rejection ends the process: any client could
 * cause that by closing its connection.
 */
function retire(server: Server, report: (error: unknown) => void): void {
  // Without a transport, the server has closed itself.
  if (!server.transport) return;
  try {
    server.onclose?.();
  } catch (error) {
    report(error);
  }
}

/** @param status of HTTP, if it says it too */
function failure(text: string, status?: number): Error {
  const code = sdk.ProtocolErrorCode.InternalError;
  return status === undefined ? new sdk.ProtocolError(code, text) : new RefusedCall(code, text, status);
}

interface Rebuilding {
  /** The state of the record, then the messages that other nodes have taken since: its server gets them. */
  readonly settings: McpSessionSettings[];
  made: Promise<void> | undefined;
}

const INITIALIZE_FAILED = 'The session could not be started. See the server log.';
const NOT_MADE = 'The server could not process this message. See the server log.';
const NOT_REBUILT = 'The session could not be rebuilt. See the server log.';
const OLDER_ONLY =
  'Protocol revision "2026-07-28" is not supported here. Use one of the revisions in "data.supported".';
