import type { Clock } from '../base/clock.js';
import { errorResponse, REQUEST_FAILED, REQUEST_TIMEOUT } from '../wire/errors.js';
import type { RequestId } from '../wire/json-rpc.js';
import type { InFlightCalls } from './in-flight-calls.js';
import type { OutgoingMessages } from './outgoing-messages.js';
import type { SessionCall } from './session-call.js';
import { sessionMessages } from './session.messages.js';

/**
 * # How calls end other than by their answer
 *
 * | reason | the client gets | the handler's signal |
 * |---|---|---|
 * | the client cancels, or its stream is lost | nothing more (P9) | aborts |
 * | it takes longer than `requestTimeoutMs` | an error | aborts |
 * | the session ends | an error | aborts |
 *
 * However it ends: its timer is cleared, its id is free, and what it asked the client is given up.
 */
export class CallEndings {
  constructor(
    private readonly calls: InFlightCalls,
    private readonly outgoing: OutgoingMessages,
    private readonly environment: { readonly clock: Clock; readonly requestTimeoutMs: number },
  ) {}

  /** A handler that takes too long will be ended. */
  limit(call: SessionCall): void {
    const { clock, requestTimeoutMs } = this.environment;
    if (requestTimeoutMs === Infinity) return;
    call.timer = clock.setTimeout(() => {
      const message = sessionMessages.requestTimedOut(requestTimeoutMs);
      this.#fail(call, REQUEST_TIMEOUT, message);
    }, requestTimeoutMs);
  }

  /** The client gives up a request. `initialize` cannot be cancelled. @returns whether the request is served here */
  cancel(id: RequestId, reason: unknown): boolean {
    const call = this.calls.get(id);
    if (!call) return false;
    if (call.method !== 'initialize') this.dismiss(call, typeof reason === 'string' ? reason : undefined);
    return true;
  }

  /** Ends a call without an answer. */
  dismiss(call: SessionCall, reason: string | Error | undefined): void {
    call.cancelled(reason);
    this.release(call);
    this.outgoing.failOf(call);
    call.exchange!.dismiss(call.requestId!);
  }

  /** The session is over: every call is answered with an error.  */
  failAll(message: string): void {
    for (const call of this.calls.all()) this.#fail(call, REQUEST_FAILED, message);
  }

  /** The call is nobody's any more. */
  release(call: SessionCall): void {
    this.environment.clock.clear(call.timer);
    this.calls.remove(call);
  }

  #fail(call: SessionCall, code: number, message: string): void {
    const id = call.requestId!;
    call.cancelled(new Error(message));
    this.release(call);
    this.outgoing.failOf(call);
    // The client hears of it if it can hear at all: a log that refuses says so elsewhere.
    call.exchange!.answer(id, JSON.stringify(errorResponse(id, code, message))).catch(() => {});
  }
}
