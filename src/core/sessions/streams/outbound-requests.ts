import type { McpClock, ClockTimer } from '../../common/clock.js';
import { deferred, type Deferred } from '../../common/promises.js';
import type { McpCall, OutboundMessage, OutboundOptions } from '../../calls/mcp-call.js';
import { REQUEST_TIMEOUT, type RpcError, shown } from '../../protocol/errors.js';
import type { JsonRpcNotification, JsonRpcRequest, JsonRpcResponse, RequestId } from '../../protocol/json-rpc.js';
import { sdk } from '../../protocol/spec.js';
import { McpServerRequestError } from '../../calls/server-request.error.js';
import { SESSION_OVER } from '../session.errors.js';

/**
 * # Requests of the server that wait for the client
 *
 *     issued ──answered──▶ over
 *        ├──timed out, given up by its signal──▶ over (the client gets `notifications/cancelled`)
 *        └──not sent, its call or session over──▶ over
 *
 * Ids are unique for all live copies of a session, on any node, and name the node that waits. A request that asks for
 * progress has its id as its token. Each entry leaves exactly once, and with it its timer and its listener.
 */
export class OutboundRequests {
  readonly #pending = new Map<RequestId, Pending>();
  #issued = 0;

  constructor(
    /**
     * Begins the ids of the requests; it is unique for each live copy of a session, and begins with the id of the node
     * and `-`.
     */
    private readonly prefix: string,
    private readonly clock: McpClock,
    /** The client has this many milliseconds for its answer, even if the request allows more. */
    private readonly limitMs: number,
    /** Sends the cancellation on the same stream as the request, which is that of its call if it has one. */
    private readonly recall: (cancelled: JsonRpcNotification, call: McpCall | undefined) => Promise<void>,
  ) {}

  get size(): number {
    return this.#pending.size;
  }

  /**
   * Notes a request.
   *
   * @returns the request as it goes over the wire, and its answer: a result as it came
   * @throws (rejects) McpServerRequestError: the client answered with an error, the call or the session is over, or `signal`
   *   has aborted; ProtocolError: the client did not answer in time
   */
  issue(
    // Clients in Go refuse this request without parameters.
    { method, params = method === 'roots/list' ? {} : undefined }: OutboundMessage,
    options: OutboundOptions,
    call: McpCall | undefined,
  ): { message: JsonRpcRequest; answer: Promise<unknown> } {
    const id = `${this.prefix}-${++this.#issued}`;
    const answer = deferred<unknown>();
    const pending: Pending = { id, method, call, answer, options, since: this.clock.now(), timer: undefined };
    this.#pending.set(id, pending);
    this.#arm(pending);
    const { signal } = options;
    if (signal) {
      pending.onAbort = () => this.#cancel(pending, signal.reason);
      signal.addEventListener('abort', pending.onAbort, { once: true });
    }
    const message: JsonRpcRequest = { jsonrpc: '2.0', id, method, ...(params && { params }) };
    if (!options.onprogress) return { message, answer: answer.promise };
    const _meta = { ...(params?.['_meta'] as object | undefined), progressToken: id };
    return { message: { ...message, params: { ...params, _meta } }, answer: answer.promise };
  }

  /** Removes a request that could not be sent. */
  withdraw(id: RequestId, error: unknown): void {
    const pending = this.#pending.get(id);
    if (pending) this.#fail(pending, error);
  }

  /** Takes a client's response. @returns whether a request waited for it */
  answered(response: JsonRpcResponse): boolean {
    const pending = response.id === undefined ? undefined : this.#pending.get(response.id);
    if (!pending) return false;
    if ('result' in response) {
      this.#remove(pending);
      pending.answer.resolve(response.result);
    } else {
      this.#fail(pending, clientError(pending.method, response.error));
    }
    return true;
  }

  /** Takes a client's progress. @returns whether it belongs to a request that waits */
  progressed({ params = {} }: JsonRpcNotification): boolean {
    const { progressToken, ...progress } = params;
    const pending = this.#pending.get(progressToken as RequestId);
    if (!pending) return false;
    const { onprogress, resetTimeoutOnProgress } = pending.options;
    if (resetTimeoutOnProgress) this.#arm(pending);
    onprogress?.(progress);
    return true;
  }

  /** Fails the requests of a call that is over. */
  failOf(call: McpCall): void {
    for (const pending of this.#pending.values()) {
      if (pending.call !== call) continue;
      const text = `The answer to "${pending.method}" is no longer awaited: the client request that it belongs to is over.`;
      this.#fail(pending, new McpServerRequestError('CALL_OVER', text));
    }
  }

  /** Fails the requests of a call that the log may have lost before the client got them. */
  lostOf(call: McpCall): void {
    for (const pending of this.#pending.values()) {
      if (pending.call !== call) continue;
      const reason = `"${pending.method}" may not have reached the client: the storage of this server has failed and lost messages. The request may be repeated.`;
      this.#cancelAtClient(pending, reason);
      this.#fail(pending, new McpServerRequestError('STORE_UNAVAILABLE', reason));
    }
  }

  /** Fails all requests, because the session is over. */
  failAll(): void {
    for (const pending of this.#pending.values()) {
      this.#fail(pending, new McpServerRequestError('SESSION_OVER', SESSION_OVER));
    }
  }

  #arm(pending: Pending): void {
    this.clock.clear(pending.timer);
    const { timeoutMs = Infinity, maxTotalTimeoutMs = Infinity } = pending.options;
    const limitMs = Math.min(timeoutMs, this.limitMs);
    const leftMs = pending.since + maxTotalTimeoutMs - this.clock.now();
    const limitedToMs = leftMs < limitMs ? maxTotalTimeoutMs : limitMs;
    pending.timer = this.clock.setTimeout(() => this.#timeOut(pending, limitedToMs), Math.min(leftMs, limitMs));
  }

  #timeOut(pending: Pending, ms: number): void {
    const option = ms === this.limitMs ? ' ("serverRequestTimeoutMs")' : '';
    const reason = `The client did not answer "${pending.method}" within ${ms} ms${option}.`;
    this.#cancelAtClient(pending, reason);
    this.#fail(pending, new sdk.ProtocolError(REQUEST_TIMEOUT, reason));
  }

  #cancel(pending: Pending, reason: unknown): void {
    const error = cancelledError(reason);
    this.#cancelAtClient(pending, error.message);
    this.#fail(pending, error);
  }

  /** Cancels a request at the client, which stops asking its user. A failure of the log is reported elsewhere. */
  #cancelAtClient({ id: requestId, call }: Pending, reason: string): void {
    const params = { requestId, reason };
    this.recall({ jsonrpc: '2.0', method: 'notifications/cancelled', params }, call).catch(() => {});
  }

  #fail(pending: Pending, error: unknown): void {
    this.#remove(pending);
    pending.answer.reject(error);
  }

  #remove({ id, timer, options: { signal }, onAbort }: Pending): void {
    this.clock.clear(timer);
    this.#pending.delete(id);
    if (onAbort) signal?.removeEventListener('abort', onAbort);
  }
}

/**
 * Makes the error of a refused request. It is no `ProtocolError`: as the failure of a handler, that would answer the
 * caller with a code that the client chose.
 */
function clientError(method: string, { code, message, data }: RpcError): McpServerRequestError {
  const cause = sdk.ProtocolError.fromError(code, message, data);
  const text = `The client answered "${method}" with the error ${code}: ${shown(message)}.`;
  return new McpServerRequestError('CLIENT_ERROR', text, { cause });
}

/** @param reason of the signal of the request */
export function cancelledError(reason: unknown): McpServerRequestError {
  return new McpServerRequestError('CANCELLED', reason instanceof Error ? reason.message : String(reason));
}

/** Returns the node other than this one that waits for the answer to a request, if one does. */
export function issuerElsewhere(wireId: unknown, nodeId: string): string | undefined {
  const issuer = typeof wireId === 'string' ? /^([A-Za-z0-9]{1,64})-/.exec(wireId)?.[1] : undefined;
  return issuer === nodeId ? undefined : issuer;
}

interface Pending {
  readonly id: RequestId;
  readonly method: string;
  readonly call: McpCall | undefined;
  readonly answer: Deferred<unknown>;
  readonly options: OutboundOptions;
  /** The time at which it was sent, in milliseconds since the epoch. */
  readonly since: number;
  timer: ClockTimer | undefined;
  onAbort?: () => void;
}
