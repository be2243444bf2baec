import type { Clock, ClockTimer } from '../../base/clock.js';
import { sessionMessages } from '../../session/session.messages.js';
import type { ResponseMode } from '../../session/session.options.js';
import { errorResponse, McpError, REQUEST_FAILED, REQUEST_TIMEOUT } from '../../wire/errors.js';
import { protocolMessages } from '../protocol.messages.js';
import type { ModernCall } from './modern-call.js';
import type { ModernChannel } from './modern-channel.js';
import { ModernExchange, type ExchangeEnd } from './modern-exchange.js';

export interface ModernRequestOptions {
  readonly clock: Clock;
  readonly responseMode: ResponseMode;
  readonly sseAfterMs: number;
  readonly requestTimeoutMs: number;
  readonly maxBufferedBytes: number;
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
 * However it ends: its timer is cleared, the channel forgets it, and `onOver` is called, once.
 */
export class OpenRequest {
  readonly exchange: ModernExchange;
  #giveUp: (reason: string) => void = () => {};
  #timer: ClockTimer | undefined;

  constructor(
    private readonly call: ModernCall,
    private readonly options: ModernRequestOptions,
    private readonly onOver: (request: OpenRequest) => void,
  ) {
    const { clock, responseMode: mode, sseAfterMs, maxBufferedBytes } = options;
    const host = { clock, mode, sseAfterMs, maxBufferedBytes, onOver: (how: ExchangeEnd) => this.#over(how) };
    this.exchange = new ModernExchange(host);
  }

  /** Hands the request to a server. It may be over when this returns. */
  begin(channel: ModernChannel): void {
    const { clock, responseMode, requestTimeoutMs } = this.options;
    this.#giveUp = channel.dispatch(this.call, this.exchange);
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
    this.#giveUp(text);
    if (!this.exchange.refuse(refusal)) this.#fail(REQUEST_FAILED, text);
  }

  #fail(code: number, text: string): void {
    this.#giveUp(text);
    this.exchange.answer(JSON.stringify(errorResponse(this.call.requestId, code, text)));
  }

  #over(how: ExchangeEnd): void {
    this.options.clock.clear(this.#timer);
    if (how === 'unanswered') this.#giveUp(protocolMessages.clientLeft());
    this.onOver(this);
  }
}
