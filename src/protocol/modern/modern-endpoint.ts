import type { McpHttpCall } from '../../context/mcp-call.js';
import type { McpDispatcher } from '../../context/mcp-dispatcher.js';
import { ACCEPTED, type McpServing } from '../../context/mcp-reply.js';
import type { HandlerTable } from '../../handlers/handler-table.js';
import type { RunningCalls } from '../../session/running-calls.js';
import { shutdownRefusal } from '../../wire/errors.js';
import type { RequestHeaders } from '../../wire/header.js';
import type { IncomingBody, JsonRpcRequest } from '../../wire/json-rpc.js';
import { checkParamHeaders, checkStandardHeaders } from '../../wire/modern-headers.js';
import { modernRequest } from './modern-classification.js';
import { OpenRequest, type ModernRequestOptions, type OpenRequestEvents } from './open-request.js';
import type { Subscriptions } from './subscriptions.js';

export interface ModernEndpointParts {
  readonly dispatcher: McpDispatcher;
  readonly table: HandlerTable;
  readonly subscriptions: Subscriptions;
  readonly options: ModernRequestOptions;
  readonly running: RunningCalls;
  readonly events: Omit<OpenRequestEvents, 'over'>;
}

/**
 * The modern era (2026-07-28): every request stands for itself, says who sends it and what that client can do, and ends with
 * its connection.
 *
 *     classified ─▶ headers checked ─▶ dispatched ─▶ answered, or given up
 *
 * Invariant: after `close()` nothing is open.
 */
export class ModernEndpoint {
  readonly #open = new Set<OpenRequest>();
  #closed = false;

  constructor(private readonly parts: ModernEndpointParts) {}

  /** @throws McpError rows M2 to M5 and M7; UNAVAILABLE when the endpoint was closed meanwhile */
  post(http: McpHttpCall, body: IncomingBody, headers: RequestHeaders): McpServing {
    const { dispatcher, subscriptions, running, options, events } = this.parts;
    const message = modernRequest(body, headers);
    if (!message) return ACCEPTED;
    checkStandardHeaders(headers, message);
    this.#checkParams(message, headers);
    if (message.method === 'subscriptions/listen') return subscriptions.listen(http, message);
    if (this.#closed) throw shutdownRefusal();
    const over = (request: OpenRequest): void => {
      this.#open.delete(request);
      running.ended();
    };
    const request = new OpenRequest(http, message, options, { ...events, over });
    this.#open.add(request);
    running.began();
    request.begin(dispatcher);
    return request.exchange;
  }

  /** Answers what is open. */
  close(): void {
    this.#closed = true;
    for (const request of [...this.#open]) request.stop();
    this.parts.subscriptions.close();
  }

  /** @throws McpError HEADER_MISMATCH: arguments that a tool wants to see in headers too are not the same there (M4) */
  #checkParams({ method, params }: JsonRpcRequest, headers: RequestHeaders): void {
    if (method !== 'tools/call') return;
    const { name, arguments: args } = (params ?? {}) as { name?: unknown; arguments?: unknown };
    const declared = typeof name === 'string' ? this.parts.table.get('tool', name)?.paramHeaders : undefined;
    if (declared && declared.length > 0) checkParamHeaders(declared, args, headers);
  }
}
