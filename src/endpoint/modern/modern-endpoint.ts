import type { CallingClient, ClientIdentity, McpCall, McpHttpCall, OutboundMessage } from '../../context/mcp-call.js';
import { ACCEPTED, type PendingReply } from '../../context/mcp-exchange.js';
import { ServerRequestError } from '../../context/server-request.error.js';
import type { HandlerTable } from '../../handlers/registry/handler-table.js';
import { CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, LOG_LEVEL_META_KEY } from '../../wire/era.js';
import type { RequestHeaders } from '../../wire/headers.js';
import type { IncomingBody, JsonRpcRequest } from '../../wire/json-rpc.js';
import { checkParamHeaders, checkStandardHeaders } from '../../wire/modern-headers.js';
import { reachesLevel } from '../../wire/notifications.js';
import { MODERN_REVISIONS } from '../../wire/revisions.js';
import type { BareRequests } from '../bare-requests.js';
import { modernRequest } from './modern-classification.js';
import type { Subscriptions } from './subscriptions.js';

export interface ModernEndpointParts {
  readonly requests: BareRequests;
  readonly client: CallingClient;
  readonly table: HandlerTable;
  readonly subscriptions: Subscriptions;
}

/**
 * The modern era (2026-07-28): every request stands for itself, says who sends it and what that client can do, and ends with
 * its connection.
 *
 *     classified ─▶ headers checked ─▶ dispatched ─▶ answered, or given up
 */
export class ModernEndpoint {
  constructor(private readonly parts: ModernEndpointParts) {}

  /** @throws McpError rows M2 to M5 and M7; UNAVAILABLE when the endpoint was closed meanwhile */
  post(http: McpHttpCall, body: IncomingBody, headers: RequestHeaders): PendingReply {
    const { requests, client, subscriptions } = this.parts;
    const message = modernRequest(body, headers);
    if (!message) return ACCEPTED;
    checkStandardHeaders(headers, message);
    this.#checkParams(message, headers);
    if (message.method === 'subscriptions/listen') return subscriptions.listen(http, message);
    return requests.serve(http, [message], false, client);
  }

  /** @throws McpError HEADER_MISMATCH: arguments that a tool wants to see in headers too are not the same there (M4) */
  #checkParams({ method, params }: JsonRpcRequest, headers: RequestHeaders): void {
    if (method !== 'tools/call') return;
    const { name, arguments: args } = (params ?? {}) as { name?: unknown; arguments?: unknown };
    const declared = typeof name === 'string' ? this.parts.table.get('tool', name)?.paramHeaders : undefined;
    if (declared && declared.length > 0) checkParamHeaders(declared, args, headers);
  }
}

/** A modern client need not say its name. */
const UNNAMED = { name: 'unknown', version: '' };

/** The client of a modern request, as far as the request says: one object for all of them. */
export class ModernClient implements CallingClient {
  /** @param late hears of a notification that came after its request was over, and was dropped (P8) */
  constructor(private readonly late: (method: string) => void) {}

  /** Checked before the request is dispatched (M2). */
  identity(call: McpCall): ClientIdentity {
    const { [CLIENT_INFO_META_KEY]: clientInfo = UNNAMED, [CLIENT_CAPABILITIES_META_KEY]: capabilities = {} } =
      envelopeOf(call) as {
        [CLIENT_INFO_META_KEY]?: ClientIdentity['clientInfo'];
        [CLIENT_CAPABILITIES_META_KEY]?: ClientIdentity['capabilities'];
      };
    return { protocolVersion: MODERN_REVISIONS[0], capabilities, clientInfo };
  }

  /** A client gets log messages only with requests that ask for them (M9). */
  wantsLog(level: string, call: McpCall): boolean {
    const wanted = envelopeOf(call)[LOG_LEVEL_META_KEY];
    return typeof wanted === 'string' && reachesLevel(level, wanted);
  }

  notify(notification: OutboundMessage, { exchange }: McpCall): Promise<void> {
    if (exchange && exchange.carries !== 'nothing') {
      // A JSON answer carries nothing else (behaviour P3): the exchange drops it then.
      return exchange.send(JSON.stringify({ jsonrpc: '2.0', ...notification }));
    }
    this.late(notification.method);
    return Promise.resolve();
  }

  /** Questions travel in results: nothing can be asked while a request is open. */
  request({ method }: OutboundMessage): Promise<never> {
    const text = `"${method}" cannot be sent: revision 2026-07-28 has no requests of the server. Ask with ctx.elicit(), ctx.sample() or ctx.roots().`;
    return Promise.reject(new ServerRequestError('NO_STREAM', text));
  }
}

function envelopeOf({ message }: McpCall): Readonly<Record<string, unknown>> {
  return message.params?._meta ?? {};
}
