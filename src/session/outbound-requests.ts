import type { Clock, ClockTimer } from '../base/clock.js';
import { errorResponse, REQUEST_FAILED, REQUEST_TIMEOUT } from '../wire/errors.js';
import type { JsonRpcNotification, JsonRpcRequest, JsonRpcResponse, RequestId } from '../wire/json-rpc.js';
import type { SessionCall } from './session-call.js';
import { sessionMessages } from './session.messages.js';

/**
 * # Requests of the server that wait for the client
 *
 * The SDK numbers its requests from 0 in every server object, so that a session that was rebuilt, or is live on two
 * nodes, would use an id twice. On the wire they therefore have ids of ours, unique for all copies of a session:
 * outward the id, the progress token and the id in `cancelled` are replaced; inward responses and progress are mapped
 * back.
 *
 * Each entry leaves exactly once: answered, timed out, cancelled by the server, or failed with the call it was for.
 */
export class OutboundRequests {
  readonly #byWireId = new Map<RequestId, Pending>();
  readonly #bySdkId = new Map<RequestId, Pending>();
  #issued = 0;

  constructor(
    /** Unique for each live copy of a session; begins with the id of the node, and `-`. */
    private readonly prefix: string,
    private readonly clock: Clock,
    private readonly timeoutMs: number,
    private readonly ports: OutboundPorts,
  ) {}

  get size(): number {
    return this.#byWireId.size;
  }

  /** Notes a request. @returns the request as it goes over the wire */
  issue(request: JsonRpcRequest, call: SessionCall | undefined): JsonRpcRequest {
    const wireId = `${this.prefix}-${++this.#issued}`;
    const timer = this.clock.setTimeout(() => this.#timeOut(pending), this.timeoutMs);
    const askedAt = this.clock.now();
    const pending: Pending = { wireId, sdkId: request.id, method: request.method, call, timer, askedAt };
    this.#byWireId.set(wireId, pending);
    this.#bySdkId.set(request.id, pending);
    const outward = { ...request, id: wireId };
    const meta = request.params?._meta;
    if (meta?.progressToken === undefined) return outward;
    return { ...outward, params: { ...request.params, _meta: { ...meta, progressToken: wireId } } };
  }

  /** The request was not sent after all. */
  withdraw(sdkId: RequestId): void {
    const pending = this.#bySdkId.get(sdkId);
    if (pending) this.#remove(pending);
  }

  /** Hands a client's response to the SDK. @returns whether somebody waited for it */
  answered(response: JsonRpcResponse): boolean {
    const pending = response.id === undefined ? undefined : this.#byWireId.get(response.id);
    if (!pending) return false;
    this.#remove(pending);
    this.ports.settle({ ...response, id: pending.sdkId });
    return true;
  }

  /** Maps a client's progress back. @returns `undefined` if nobody waits for it */
  progressed(notification: JsonRpcNotification): JsonRpcNotification | undefined {
    const token = notification.params?.['progressToken'] as RequestId | undefined;
    const pending = token === undefined ? undefined : this.#byWireId.get(token);
    return pending && { ...notification, params: { ...notification.params, progressToken: pending.sdkId } };
  }

  /** The server gives up one of its requests. One that was never sent, or is over, needs no cancellation. */
  cancelled(notification: JsonRpcNotification): Promise<void> {
    const pending = this.#bySdkId.get(notification.params?.['requestId'] as RequestId);
    if (!pending) return Promise.resolve();
    this.#remove(pending);
    const params = { ...notification.params, requestId: pending.wireId };
    return this.ports.recall({ ...notification, params }, pending.call);
  }

  /** The call is over, and what it asked with it. */
  failOf(call: SessionCall): void {
    for (const pending of [...this.#byWireId.values()]) {
      if (pending.call === call) this.#fail(pending, REQUEST_FAILED, sessionMessages.callOver(pending.method));
    }
  }

  /** The session is over: the SDK fails what waits, here the timers go. */
  clear(): void {
    for (const { timer } of this.#byWireId.values()) this.clock.clear(timer);
    this.#byWireId.clear();
    this.#bySdkId.clear();
  }

  /** The client is told, lest it go on asking its user. */
  #timeOut(pending: Pending): void {
    // An answer that came to a node while the log was away was refused, and many clients do not repeat it.
    const text = this.ports.storeAwaySince(pending.askedAt) ? 'answerMayBeLost' : 'serverRequestTimedOut';
    const reason = sessionMessages[text](pending.method, this.timeoutMs);
    const params = { requestId: pending.wireId, reason };
    // A log that refuses says so elsewhere.
    this.ports.recall({ jsonrpc: '2.0', method: 'notifications/cancelled', params }, pending.call).catch(() => {});
    this.#fail(pending, REQUEST_TIMEOUT, reason);
  }

  #fail(pending: Pending, code: number, message: string): void {
    this.#remove(pending);
    this.ports.settle(errorResponse(pending.sdkId, code, message) as JsonRpcResponse);
  }

  #remove(pending: Pending): void {
    this.clock.clear(pending.timer);
    this.#byWireId.delete(pending.wireId);
    this.#bySdkId.delete(pending.sdkId);
  }
}

/** The node other than this one that waits for the answer to a request, if one does. */
export function issuerElsewhere(wireId: unknown, nodeId: string): string | undefined {
  const issuer = typeof wireId === 'string' ? /^([A-Za-z0-9]{1,64})-/.exec(wireId)?.[1] : undefined;
  return issuer === nodeId ? undefined : issuer;
}

export interface OutboundPorts {
  /** Whether a store was away at some time since. */
  storeAwaySince(time: number): boolean;
  /** Takes the answers back into the SDK. */
  settle(response: JsonRpcResponse): void;
  /** Takes a request back, on the way that it went: that of its call, if it had one. */
  recall(cancelled: JsonRpcNotification, call: SessionCall | undefined): Promise<void>;
}

interface Pending {
  readonly wireId: string;
  readonly sdkId: RequestId;
  readonly method: string;
  readonly call: SessionCall | undefined;
  readonly timer: ClockTimer;
  readonly askedAt: number;
}
