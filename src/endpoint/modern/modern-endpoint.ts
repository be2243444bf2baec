import { Inject, Injectable } from '@nestjs/common';
import type { McpHttpCall } from '../../context/mcp-call.js';
import { ACCEPTED, type PendingReply } from '../../context/mcp-exchange.js';
import { HandlerTable } from '../../handlers/registry/handler-table.js';
import type { RequestHeaders } from '../../wire/headers.js';
import type { IncomingBody, JsonRpcRequest } from '../../wire/json-rpc.js';
import { checkParamHeaders, checkStandardHeaders } from '../../wire/modern-headers.js';
import { BareRequests } from '../bare-requests.js';
import { modernRequest } from './modern-classification.js';
import { ModernClient } from './modern-client.js';
import { Subscriptions } from './subscriptions.js';

/**
 * The modern era (2026-07-28): every request stands for itself, says who sends it and what that client can do, and ends with
 * its connection.
 *
 *     classified ─▶ headers checked ─▶ dispatched ─▶ answered, or given up
 */
@Injectable()
export class ModernEndpoint {
  constructor(
    @Inject(BareRequests) private readonly requests: BareRequests,
    @Inject(ModernClient) private readonly client: ModernClient,
    @Inject(HandlerTable) private readonly table: HandlerTable,
    @Inject(Subscriptions) private readonly subscriptions: Subscriptions,
  ) {}

  /** @throws McpError rows M2 to M5 and M7; UNAVAILABLE when the endpoint was closed meanwhile */
  post(http: McpHttpCall, body: IncomingBody, headers: RequestHeaders): PendingReply {
    const message = modernRequest(body, headers);
    if (!message) return ACCEPTED;
    checkStandardHeaders(headers, message);
    this.#checkParams(message, headers);
    if (message.method === 'subscriptions/listen') return this.subscriptions.listen(http, message);
    return this.requests.serve(http, [message], false, this.client);
  }

  /** @throws McpError HEADER_MISMATCH: arguments that a tool wants to see in headers too are not the same there (M4) */
  #checkParams({ method, params }: JsonRpcRequest, headers: RequestHeaders): void {
    if (method !== 'tools/call') return;
    const { name, arguments: args } = (params ?? {}) as { name?: unknown; arguments?: unknown };
    const declared = typeof name === 'string' ? this.table.get('tool', name)?.paramHeaders : undefined;
    if (declared && declared.length > 0) checkParamHeaders(declared, args, headers);
  }
}
