import { type CallingClient, McpCall, type McpHttpCall } from '../../context/mcp-call.js';
import { ACCEPTED, type PendingReply } from '../../context/mcp-exchange.js';
import type { Calls } from '../../exchange/calls.js';
import { Exchange, type ExchangeForm } from '../../exchange/exchange.js';
import { ResponseSink } from '../../exchange/response-sink.js';
import type { HandlerTable } from '../../handlers/handler-table.js';
import { shutdownRefusal } from '../../wire/errors.js';
import type { RequestHeaders } from '../../wire/header.js';
import type { IncomingBody, JsonRpcRequest } from '../../wire/json-rpc.js';
import { checkParamHeaders, checkStandardHeaders } from '../../wire/modern-headers.js';
import { modernRequest } from './modern-classification.js';
import type { Subscriptions } from './subscriptions.js';

export interface ModernEndpointParts {
  readonly calls: Calls;
  readonly client: CallingClient;
  readonly table: HandlerTable;
  readonly subscriptions: Subscriptions;
  readonly form: Pick<ExchangeForm, 'clock' | 'mode' | 'sseAfterMs'> & { readonly maxBufferedBytes: number };
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
    const { calls, client, subscriptions, form } = this.parts;
    const message = modernRequest(body, headers);
    if (!message) return ACCEPTED;
    checkStandardHeaders(headers, message);
    this.#checkParams(message, headers);
    if (message.method === 'subscriptions/listen') return subscriptions.listen(http, message);
    if (calls.state === 'stopped') throw shutdownRefusal();
    const exchange = new Exchange([message.id], {
      clock: form.clock,
      mode: form.mode,
      sseAfterMs: form.sseAfterMs,
      batch: false,
      clientsComeBack: false,
      sink: (_requests, cut) => new ResponseSink(form.maxBufferedBytes, cut),
      clientGone: () => calls.cancel(call, new Error('The client closed the connection.')),
    });
    const call = new McpCall(http, message, client, exchange);
    calls.add(call);
    calls.dispatch(call);
    // Not before: a refusal of the dispatcher has an HTTP status.
    if (form.mode === 'sse') exchange.stream();
    return exchange;
  }

  /** @throws McpError HEADER_MISMATCH: arguments that a tool wants to see in headers too are not the same there (M4) */
  #checkParams({ method, params }: JsonRpcRequest, headers: RequestHeaders): void {
    if (method !== 'tools/call') return;
    const { name, arguments: args } = (params ?? {}) as { name?: unknown; arguments?: unknown };
    const declared = typeof name === 'string' ? this.parts.table.get('tool', name)?.paramHeaders : undefined;
    if (declared && declared.length > 0) checkParamHeaders(declared, args, headers);
  }
}
