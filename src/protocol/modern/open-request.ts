import type { Clock, ClockTimer } from '../../base/clock.js';
import { isThenable } from '../../base/thenable.js';
import { runInCall, type McpHttpCall } from '../../context/mcp-call.js';
import type { McpDispatcher } from '../../context/mcp-dispatcher.js';
import type { OutboundMessage } from '../../context/served-call.js';
import { answerText } from '../../session/answer-text.js';
import { sessionMessages } from '../../session/session.messages.js';
import type { ResponseMode } from '../../session/session.options.js';
import { errorResponse, McpError, REQUEST_FAILED, REQUEST_TIMEOUT, rpcErrorOf } from '../../wire/errors.js';
import type { JsonRpcRequest, JsonRpcResponse } from '../../wire/json-rpc.js';
import { protocolMessages } from '../protocol.messages.js';
import { ModernCall } from './modern-call.js';
import { ModernExchange, type ExchangeEnd } from './modern-exchange.js';

/** The one error with a status of its own that comes out of handlers too (M6). */
const MISSING_CAPABILITY = -32021;

export interface ModernRequestOptions {
  readonly clock: Clock;
  readonly responseMode: ResponseMode;
  readonly sseAfterMs: number;
  readonly requestTimeoutMs: number;
  readonly maxBufferedBytes: number;
}

/** What hears of a request beside its client. */
export interface OpenRequestEvents {
  over(request: OpenRequest): void;
  /** A notification came after the request was over, and was dropped (P8). */
  late(method: string): void;
  /** Tells the operator. */
  report(error: unknown): void;
}

/**
 * # A modern request that is being handled, and how it ends
 *
 * | reason | the client gets | the handler's signal |
 * |---|---|---|
 * | the handler answers | its answer | – |
 * | the client goes away, or does not read | nothing | aborts |
 * | it takes longer than `requestTimeoutMs` | an error | aborts |
 * | this node stops | an error | aborts |
 *
 * However it ends: its timer is cleared, and `over` is called, once.
 */
export class OpenRequest {
  readonly exchange: ModernExchange;
  readonly #call: ModernCall;
  #timer: ClockTimer | undefined;

  constructor(
    http: McpHttpCall,
    message: JsonRpcRequest,
    private readonly options: ModernRequestOptions,
    private readonly events: OpenRequestEvents,
  ) {
    this.#call = new ModernCall(http, message, (notification) => this.#send(notification));
    const { clock, responseMode: mode, sseAfterMs, maxBufferedBytes } = options;
    const host = { clock, mode, sseAfterMs, maxBufferedBytes, onOver: (how: ExchangeEnd) => this.#over(how) };
    this.exchange = new ModernExchange(host);
  }

  /** Hands the request to a dispatcher. It may be over when this returns. */
  begin(dispatcher: McpDispatcher): void {
    const { clock, responseMode, requestTimeoutMs } = this.options;
    this.#dispatch(dispatcher);
    if (this.exchange.over) return;
    if (responseMode === 'sse') this.exchange.stream();
    if (requestTimeoutMs === Infinity) return;
    const late = (): void => this.#fail(REQUEST_TIMEOUT, sessionMessages.requestTimedOut(requestTimeoutMs));
    this.#timer = clock.setTimeout(late, requestTimeoutMs);
  }

  /** This node stops. */
  stop(): void {
    const text = sessionMessages.nodeStopped();
    const refusal = new McpError('UNAVAILABLE', text, { headers: { 'Retry-After': '1' } });
    this.#call.cancel(new Error(text));
    if (!this.exchange.refuse(refusal)) this.#fail(REQUEST_FAILED, text);
  }

  #dispatch(dispatcher: McpDispatcher): void {
    const call = this.#call;
    try {
      const outcome = runInCall(call, () => dispatcher.request(call));
      if (!isThenable(outcome)) return this.#succeeded(outcome);
      outcome.then(
        (result) => this.#succeeded(result),
        (error: unknown) => this.#failed(error),
      );
    } catch (error) {
      this.#failed(error);
    }
  }

  #send(notification: OutboundMessage): Promise<void> {
    if (!this.exchange.over) return this.exchange.send(JSON.stringify({ jsonrpc: '2.0', ...notification }));
    this.events.late(notification.method);
    return Promise.resolve();
  }

  #succeeded(result: object): void {
    if (this.exchange.over) return;
    this.#answer({ jsonrpc: '2.0', id: this.#call.requestId, result: result as Record<string, unknown> });
  }

  #failed(error: unknown): void {
    if (this.exchange.over) return;
    const { requestId } = this.#call;
    const told = rpcErrorOf(error);
    // Its text may say what the client is not to know.
    if (!told) this.events.report(error);
    const refusal = told ? error : new McpError('INTERNAL_ERROR', sessionMessages.handlerFailed());
    // Of the dispatcher, before a handler ran (M5): HTTP says it too. Errors of handlers are of other classes.
    if (refusal instanceof McpError && this.exchange.refuse(refusal.withRequestId(requestId))) return;
    const { code, message, data } = rpcErrorOf(refusal)!;
    if (code === MISSING_CAPABILITY && !this.#call.refusal) this.#call.refuseWith(400, {});
    this.#answer(errorResponse(requestId, code, message, data) as JsonRpcResponse);
  }

  #answer(answer: JsonRpcResponse): void {
    this.exchange.answer(
      answerText(answer, (error) => this.events.report(error)),
      this.#call.refusal,
    );
  }

  #fail(code: number, text: string): void {
    this.#call.cancel(new Error(text));
    this.exchange.answer(JSON.stringify(errorResponse(this.#call.requestId, code, text)));
  }

  #over(how: ExchangeEnd): void {
    this.options.clock.clear(this.#timer);
    if (how === 'unanswered') this.#call.cancel(new Error(protocolMessages.clientLeft()));
    this.events.over(this);
  }
}
