import type { CallingClient, McpHttpCall } from '../../context/mcp-call.js';
import { ACCEPTED, type PendingReply } from '../../context/mcp-exchange.js';
import type { HandlerTable } from '../../handlers/handler-table.js';
import type { RequestHeaders } from '../../wire/header.js';
import type { IncomingBody, JsonRpcRequest } from '../../wire/json-rpc.js';
import { checkParamHeaders, checkStandardHeaders } from '../../wire/modern-headers.js';
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
