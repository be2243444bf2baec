import type { McpHttpCall } from '../../context/mcp-call.js';
import { ServedCall, type ClientIdentity, type OutboundMessage } from '../../context/served-call.js';
import { ServerRequestError } from '../../context/server-request.error.js';
import { CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, LOG_LEVEL_META_KEY } from '../../wire/era.js';
import type { JsonRpcRequest, RequestId } from '../../wire/json-rpc.js';
import { reachesLevel } from '../../wire/log-levels.js';
import { MODERN_REVISIONS } from '../../wire/revisions.js';
import { protocolMessages } from '../protocol.messages.js';

/** A modern client need not say its name. */
const UNNAMED = { name: 'unknown', version: '' };

/**
 * One modern request while it is served, as its handler sees it. It has no session, and ends with its connection.
 *
 *     open ──cancel()──▶ cancelled
 */
export class ModernCall extends ServedCall {
  readonly session = undefined;

  constructor(
    http: McpHttpCall,
    readonly message: JsonRpcRequest,
    /** Sends a notification on the response of the request. */
    private readonly send: (notification: OutboundMessage) => Promise<void>,
  ) {
    super(http);
  }

  override get requestId(): RequestId {
    return this.message.id;
  }

  /** Checked before the request is dispatched (M2). */
  get client(): ClientIdentity {
    const { [CLIENT_INFO_META_KEY]: clientInfo = UNNAMED, [CLIENT_CAPABILITIES_META_KEY]: capabilities = {} } = this
      .#envelope as {
      [CLIENT_INFO_META_KEY]?: ClientIdentity['clientInfo'];
      [CLIENT_CAPABILITIES_META_KEY]?: ClientIdentity['capabilities'];
    };
    return { protocolVersion: MODERN_REVISIONS[0], capabilities, clientInfo };
  }

  /** A client gets log messages only with requests that ask for them (M9). */
  wantsLog(level: string): boolean {
    const wanted = this.#envelope[LOG_LEVEL_META_KEY];
    return typeof wanted === 'string' && reachesLevel(level, wanted);
  }

  notify(notification: OutboundMessage): Promise<void> {
    return this.send(notification);
  }

  /** Questions travel in results: nothing can be asked while a request is open. */
  ask({ method }: OutboundMessage): Promise<never> {
    return Promise.reject(new ServerRequestError('NO_STREAM', protocolMessages.noModernRequests(method)));
  }

  /** There is nothing to come back to: a modern connection is its request. */
  closeStream(): boolean {
    return false;
  }

  cancel(reason: unknown): void {
    this.abort(reason);
  }

  get #envelope(): Readonly<Record<string, unknown>> {
    return this.message.params?._meta ?? {};
  }
}
