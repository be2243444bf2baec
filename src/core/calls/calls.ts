import type { McpClock } from '../common/clock.js';
import { type LoopLag, NEVER_LATE } from '../common/loop-lag.js';
import { isThenable } from '../common/promises.js';
import { ShutdownState } from '../common/shutdown-state.js';
import { assertOpen, type McpCall, runInCall } from './mcp-call.js';
import type { McpDispatcher } from './mcp-dispatcher.js';
import type { McpCallOutcome } from './mcp-instrumentation.js';
import { ERAS } from '../protocol/era.js';
import {
  errorResponse,
  type HttpRefusal,
  McpError,
  RefusedCall,
  refusalOf,
  REQUEST_FAILED,
  REQUEST_TIMEOUT,
  retryLater,
  rpcErrorOf,
} from '../protocol/errors.js';
import type { JsonRpcResponse, RequestId } from '../protocol/json-rpc.js';
import { ipOf } from '../protocol/local-caller.js';
import { METHODS } from '../protocol/methods.js';
import { sdk } from '../protocol/spec.js';
import { assertUri, uriOf } from '../protocol/uris.js';
import { type AdmissionLimits, CallAdmission } from './call-admission.js';
import { CallObserver } from './call-observer.js';

const INTERNAL_ERROR = -32603;

/**
 * # The calls that run on this node, and how each of them ends
 *
 * A call is a request of a client in either era, from its registration until it is answered or cancelled. Whether this
 * node takes more of them, its {@link ShutdownState} says (E13): while it is `leaving` it does, and only its health
 * checks say that it stops.
 *
 * | ending | the client gets | the handler's signal |
 * |---|---|---|
 * | answered | its result, or its error | – |
 * | cancelled by the client | nothing more (P9) | aborts |
 * | its stream is given up | an error, from the stream (G13) | aborts |
 * | client gone (without a session) | nothing | aborts |
 * | timed out (`requestTimeoutMs`) | an error | aborts |
 * | session ended | an error | aborts |
 * | node stops (without a session) | 503, or an error on the stream that has begun | aborts |
 *
 * However a call ends: its timer is cleared, and its client is notified (`ended`), once. A stream that a client only
 * listens to is not a call: shutdown does not wait for it.
 */
export class Calls {
  /** Calls are found by the owner of their answers, see {@link ownerOf}, then by the id of their request. */
  readonly #running = new Map<object, Map<RequestId, McpCall>>();
  #count = 0;
  readonly shutdown: ShutdownState;
  readonly admission: CallAdmission;

  constructor(
    private readonly dispatcher: McpDispatcher,
    private readonly options: { readonly clock: McpClock; readonly requestTimeoutMs: number } & AdmissionLimits,
    /** Receives failures inside, which are not sent to the client. */
    private readonly report: (error: unknown, call: McpCall) => void,
    private readonly observer: CallObserver = NOT_OBSERVED,
    lag: LoopLag = NEVER_LATE,
  ) {
    this.shutdown = new ShutdownState(options.clock, () => this.#count);
    this.admission = new CallAdmission(options, (call) => this.#begin(call), lag);
  }

  get count(): number {
    return this.#count;
  }

  /** Returns the running calls of a session, by the id of their request. */
  of(session: object): ReadonlyMap<RequestId, McpCall> {
    return this.#running.get(session) ?? NONE;
  }

  /**
   * Registers the requests of one POST: each counts before the next is admitted, and those above a limit are refused when they are
   * dispatched (E14). The first was admitted with the POST.
   */
  addAll(calls: readonly McpCall[]): void {
    for (const [position, call] of calls.entries()) {
      if (position > 0 && this.admission.strained)
        call.refusal = this.admission.refusal(call.principal, call.session?.id);
      this.add(call);
    }
  }

  /** Registers a request that will be dispatched. No other call of its owner has its id. */
  add(call: McpCall): void {
    const owner = ownerOf(call);
    let calls = this.#running.get(owner);
    if (!calls) this.#running.set(owner, (calls = new Map<RequestId, McpCall>()));
    calls.set(call.requestId!, call);
    this.#count++;
    if (!call.refusal) this.admission.enter(call);
    const { clock, requestTimeoutMs } = this.options;
    if (requestTimeoutMs === Infinity) return;
    call.timer = clock.setTimeout(() => {
      const text = `The request was not answered within ${requestTimeoutMs} ms ("requestTimeoutMs") and was cancelled. Ask for less, or raise the option.`;
      this.fail(call, REQUEST_TIMEOUT, text);
    }, requestTimeoutMs);
  }

  /**
   * Passes a request to the dispatcher, and its result to the client; while the process is late, in its turn. The call
   * may have ended when this returns.
   */
  dispatch(call: McpCall): void {
    // A batch may have cancelled it before its turn came.
    if (call.state !== 'open') return;
    if (call.refusal) return this.#refuse(call, call.refusal);
    if (!this.admission.waits(call)) this.#begin(call);
  }

  /** Cancels a call that waits for its turn, because its client has disconnected and cannot resume (P4). */
  cancelWaiting(call: McpCall): void {
    if (!call.begun) this.cancel(call, new Error('The client closed the connection.'));
  }

  #begin(call: McpCall): void {
    call.begun = true;
    try {
      const { observer } = this;
      const outcome = observer.active
        ? runInCall(call, () => observer.around(call, () => this.#serve(call)))
        : runInCall(call, this.#serve);
      if (!isThenable(outcome)) return this.#succeeded(call, outcome);
      outcome.then(
        (result) => this.#succeeded(call, result),
        (error: unknown) => this.#failed(call, error),
      );
    } catch (error) {
      this.#failed(call, error);
    }
  }

  /**
   * Serves a call when its target is known.
   *
   * @returns a promise also while the list of a catalogue is asked for
   */
  readonly #serve = (call: McpCall): object | Promise<object> => {
    const found = this.dispatcher.find?.(call);
    if (isThenable(found)) {
      return found.then((target) => {
        assertOpen(call);
        call.target = target;
        return call.hooks ? call.hooks.serve(() => this.#request(call)) : this.#request(call);
      });
    }
    call.target = found;
    return call.hooks ? call.hooks.serve(() => this.#request(call)) : this.#request(call);
  };

  #request(call: McpCall): object | Promise<object> {
    // Refused before any code of an app or of the SDK compares it with templates (D29).
    if (METHODS.get(call.method)?.uri) assertUri(uriOf(call.method, call.received.params));
    return this.dispatcher.request(call);
  }

  /** Ends a call without an answer: its client has cancelled it, or cannot be reached. */
  cancel(call: McpCall, reason: unknown): void {
    if (call.state !== 'open') return;
    this.#cancelled(call, reason);
    call.exchange!.settle(call.requestId!);
  }

  /** Ends a call with an error that is not its handler's. */
  fail(call: McpCall, code: number, text: string): void {
    if (call.state !== 'open') return;
    this.#cancelled(call, new Error(text));
    const id = call.requestId!;
    call.exchange!.answer(id, JSON.stringify(errorResponse(id, code, text)));
  }

  /** Ends the calls that belong to no session. */
  stop(): void {
    const text =
      'This server is shutting down and ended this request before it was answered. Whether it had an effect is not known. Repeat it if that does no harm.';
    for (const calls of this.#running.values()) {
      for (const call of calls.values()) {
        if (call.session) continue;
        const refused = call.exchange!.refuse(retryLater('UNAVAILABLE', text, 1));
        if (!refused) this.fail(call, REQUEST_FAILED, text);
        // A caller in this process may have ended it already.
        else if (call.state === 'open') this.#cancelled(call, new Error(text));
      }
    }
  }

  #refuse(call: McpCall, refusal: McpError): void {
    this.observer.refused(() => {
      const { status, option, code } = refusal;
      const { principal, method, request } = call;
      const { name } = (call.message.params ?? {}) as { readonly name?: unknown };
      return { status, option, code, principal, ip: ipOf(request), method, ...(typeof name === 'string' && { name }) };
    });
    this.#failed(call, refusal);
  }

  #succeeded(call: McpCall, returned: object): void {
    if (call.state !== 'open') return;
    const id = call.requestId!;
    let result = returned;
    let text: string;
    try {
      text = call.write
        ? `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${call.write(result)}}`
        : JSON.stringify({ jsonrpc: '2.0', id, result });
    } catch (error) {
      this.report(error, call);
      return this.#failed(call, new sdk.ProtocolError(INTERNAL_ERROR, UNWRITABLE));
    }
    const { bound } = call;
    const bytes = bound ? excess(text, bound.maxBytes) : 0;
    if (bytes > 0 && isFinal(result)) {
      result = bound!.insteadOf(result, bytes);
      text = this.#textOf({ jsonrpc: '2.0', id, result: result as JsonObject }, call);
    }
    this.observer.ended(call, outcomeOf(call, result), { result, error: call.denied });
    const kept = call.from.succeeded?.(call, result);
    if (!kept) return this.#answer(call, text);
    // The call is open meanwhile, and may end.
    kept.then(
      () => call.state === 'open' && this.#answer(call, text),
      (error: unknown) => this.#failed(call, error),
    );
  }

  #failed(call: McpCall, error: unknown): void {
    if (call.state !== 'open') return;
    const id = call.requestId!;
    const rpcError = rpcErrorOf(error);
    // The client of a handler that lists hide reads "not found".
    const { denied } = call;
    this.observer.ended(call, denied ? 'denied' : (rpcError?.code ?? INTERNAL_ERROR), { error: denied ?? error });
    // Its text may contain details that clients must not receive.
    if (!rpcError) this.report(error, call);
    const refusal = rpcError ? error : new McpError('INTERNAL_ERROR', HANDLER_FAILED);
    let http: HttpRefusal | undefined = error instanceof RefusedCall ? error : undefined;
    if (ERAS[call.era].refusesByStatus) {
      // The dispatcher refused before a handler ran (M5): HTTP has the status of that. Errors of handlers are of other
      // classes.
      if (refusal instanceof McpError && call.exchange!.refuse(refusal)) {
        call.answered();
        return this.#ended(call);
      }
      const lacking = refusalOf(error);
      if (lacking) http ??= { status: lacking.status, headers: {} };
    }
    const { code, message, data } = rpcErrorOf(refusal)!;
    this.#answer(call, this.#textOf(errorResponse(id, code, message, data) as JsonRpcResponse, call), http);
  }

  #answer(call: McpCall, text: string, refusal?: HttpRefusal): void {
    call.answered();
    this.#ended(call);
    // The other fields of an error are left out.
    const http = refusal && { status: refusal.status, headers: refusal.headers };
    call.exchange!.answer(call.requestId!, text, http);
  }

  /**
   * Returns the answer as JSON. If the `data` of an error cannot be JSON, which is a defect of the handler, the client
   * still gets an error.
   */
  #textOf(answer: JsonRpcResponse, call: McpCall): string {
    try {
      return JSON.stringify(answer);
    } catch (error) {
      this.report(error, call);
      return JSON.stringify(errorResponse(answer.id!, INTERNAL_ERROR, UNWRITABLE));
    }
  }

  #cancelled(call: McpCall, reason: unknown): void {
    call.cancelled(reason);
    this.observer.ended(call, 'cancelled', { error: reason });
    this.#ended(call);
  }

  #ended(call: McpCall): void {
    if (call.timer) this.options.clock.clear(call.timer);
    const owner = ownerOf(call);
    const calls = this.#running.get(owner)!;
    calls.delete(call.requestId!);
    // A session without calls takes no memory here.
    if (calls.size === 0) this.#running.delete(owner);
    this.#count--;
    call.release();
    call.from.ended?.(call);
    if (!this.shutdown.takes) this.shutdown.left();
  }
}

type JsonObject = Record<string, unknown>;

const NONE: ReadonlyMap<RequestId, McpCall> = new Map();

/** Returns what makes the ids of requests unique: the session, or the POST of a client without one. */
function ownerOf({ session, from, exchange }: McpCall): object {
  return session ? from : exchange!;
}

/** Returns whether a result is neither questions nor a handle: no model reads those. */
function isFinal(result: object): boolean {
  const { resultType = 'complete' } = result as { resultType?: unknown };
  return resultType === 'complete';
}

/** Returns the bytes of a text if they are more than `max`, else 0. One UTF-16 unit has at most three. */
function excess(text: string, max: number): number {
  if (text.length * 3 <= max) return 0;
  const bytes = Buffer.byteLength(text);
  return bytes > max ? bytes : 0;
}

function outcomeOf({ denied, method }: McpCall, result: object): McpCallOutcome {
  if (denied) return 'denied';
  return method === 'tools/call' && (result as { isError?: unknown }).isError === true ? 'tool_error' : 'ok';
}

const NOT_OBSERVED = new CallObserver();
/** What a client reads instead of an error that may have details which it must not get. */
export const HANDLER_FAILED = 'The server could not process this message. See the server log.';
const UNWRITABLE = 'The result of the handler cannot be written as JSON. See the server log.';
