import type {
  JSONRPCMessage,
  JSONRPCRequest,
  MessageExtraInfo,
  Transport,
  TransportSendOptions,
} from '@modelcontextprotocol/server';
import { randomToken } from '../core/common/random-token.js';
import { McpCall, runInCall } from '../core/calls/mcp-call.js';
import type { McpSessionSettings } from '../core/calls/mcp-dispatcher.js';
import type { McpSession } from '../core/sessions/running/mcp-session.js';
import { McpServerFactoryError } from '../core/sessions/session.errors.js';
import { REQUEST_FAILED, rpcErrorOf } from '../core/protocol/errors.js';
import { isRequest, isResponse, type JsonRpcRequest, type RequestId } from '../core/protocol/json-rpc.js';
import { McpServerRequestError } from '../core/calls/server-request.error.js';
import { type ProtocolError, sdk } from '../core/protocol/spec.js';
import { callerOf, cancellationOf, settle, type Settlement } from './sdk-messages.js';

/**
 * # A server of the application behind one live session
 *
 * The SDK sends answers without options, so they are matched by id. Its own requests are numbered from 0 in every
 * server, so they are sent under ids of the session, and their answers are mapped back.
 *
 * Invariant: a request is in `#served` from its dispatch until its answer, or until its call is cancelled.
 */
export class SessionTransport implements Transport {
  onclose?: Transport['onclose'];
  onerror?: Transport['onerror'];
  onmessage?: Transport['onmessage'];
  readonly #served = new Map<RequestId, Served>();
  /** The requests of the server that wait for the client, by the SDK's id. */
  readonly #asked = new Map<RequestId, AbortController>();
  #over = false;

  constructor(private readonly session: McpSession) {
    this.onerror = (error) => session.report(error);
  }

  get sessionId(): string {
    return this.session.sessionId;
  }

  /** Serves a request. @returns the result @throws (rejects) ProtocolError as the server answers, or when the session ends */
  request(call: McpCall): Promise<object> {
    // A server that was closed would never answer.
    if (this.#over) return Promise.reject(sessionEnded());
    const message = call.received as JsonRpcRequest;
    return new Promise((resolve, reject) => {
      const served: Served = { call, resolve, reject };
      this.#served.set(message.id, served);
      call.signal.addEventListener('abort', () => this.#cancel(message.id, served), { once: true });
      this.onmessage?.(message, this.#extra(call));
    });
  }

  notification(call: McpCall): void {
    this.onmessage?.(call.received, this.#extra(call));
  }

  /** Hands a message to the server that the client has sent to another one: when a session is rebuilt, or changed on another node. */
  async replay({ initialize, logLevel, subscribe = [], unsubscribe = [] }: McpSessionSettings): Promise<void> {
    if (initialize) {
      await this.#replay('initialize', initialize).catch((error: unknown) => {
        throw new McpServerFactoryError(notRebuilt((error as Error).message));
      });
      this.onmessage?.({ jsonrpc: '2.0', method: 'notifications/initialized' });
    }
    const requests: [string, Record<string, unknown>][] = [
      ...(logLevel === undefined ? [] : ([['logging/setLevel', { level: logLevel }]] as [string, { level: string }][])),
      ...unsubscribe.map((uri): [string, { uri: string }] => ['resources/unsubscribe', { uri }]),
      ...subscribe.map((uri): [string, { uri: string }] => ['resources/subscribe', { uri }]),
    ];
    for (const [method, params] of requests) {
      if (this.#over) return;
      // If the server refuses a setting, the session is served without it.
      await this.#replay(method, params).catch((error: unknown) => {
        if (!this.#over) this.session.report(error);
      });
    }
  }

  /** Replays a message in a call, as the handlers of the server expect it; no client waits for the answer. */
  #replay(method: string, params: Record<string, unknown>): Promise<object> {
    const { session } = this;
    const message = { jsonrpc: '2.0', id: `replay-${randomToken()}`, method, params } as const;
    const { principal, routeParams } = session.info;
    const call = new McpCall({ era: 'legacy', principal, routeParams, request: undefined }, message, session);
    return runInCall(call, () => this.request(call));
  }

  /** The SDK calls it when the server is connected. */
  start(): Promise<void> {
    return Promise.resolve();
  }

  send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    if (isResponse(message)) {
      this.#answered(message);
      return Promise.resolve();
    }
    if (isRequest(message)) return this.#ask(message, options?.relatedRequestId);
    if (message.method === 'notifications/cancelled') {
      // A cancellation follows its request; for a request that is over it has no effect.
      this.#asked.get(message.params?.['requestId'] as RequestId)?.abort(message.params?.['reason']);
      return Promise.resolve();
    }
    const { method, params } = message;
    return this.session.notify(params ? { method, params } : { method }, options?.relatedRequestId);
  }

  /** The SDK's `server.close()` calls it: the application ends the session. */
  close(): Promise<void> {
    return this.session.close();
  }

  /** Closes the server of a session that has ended, and rejects its unanswered requests. */
  ended(): void {
    this.#over = true;
    const unanswered = [...this.#served.values()];
    this.#served.clear();
    try {
      this.onclose?.();
    } finally {
      for (const { reject } of unanswered) reject(sessionEnded());
    }
  }

  #answered(message: JSONRPCMessage): void {
    const { id } = message as { id: RequestId };
    const served = this.#served.get(id);
    if (!served) return this.session.lateAnswer(id);
    this.#served.delete(id);
    settle(served, message);
  }

  #cancel(id: RequestId, served: Served): void {
    if (this.#served.get(id) !== served) return;
    this.#served.delete(id);
    const { call, reject } = served;
    this.onmessage?.(cancellationOf(call));
    reject(call.signal.reason);
  }

  async #ask({ id, method, params }: JSONRPCRequest, relatedRequestId: RequestId | undefined): Promise<void> {
    const abort = new AbortController();
    this.#asked.set(id, abort);
    const token = params?._meta?.progressToken;
    const onprogress = (progress: Record<string, unknown>): void => {
      const message = { method: 'notifications/progress', params: { ...progress, progressToken: token } } as const;
      this.onmessage?.({ jsonrpc: '2.0', ...message });
    };
    const options = { signal: abort.signal, ...(token !== undefined && { onprogress, resetTimeoutOnProgress: false }) };
    try {
      const result = await this.session.request({ method, ...(params && { params }) }, options, relatedRequestId);
      this.onmessage?.({ jsonrpc: '2.0', id, result: result as Record<string, unknown> });
    } catch (error) {
      if (abort.signal.aborted) return;
      const cause = error instanceof McpServerRequestError && error.code === 'CLIENT_ERROR' ? error.cause : error;
      const answered = cause instanceof sdk.ProtocolError && rpcErrorOf(cause);
      // Nothing was sent: the promise rejects for the SDK.
      if (!answered) throw error;
      const { code, message, data } = answered;
      this.onmessage?.({ jsonrpc: '2.0', id, error: data === undefined ? { code, message } : { code, message, data } });
    } finally {
      this.#asked.delete(id);
    }
  }

  #extra(call: McpCall): MessageExtraInfo {
    const extra: MessageExtraInfo = callerOf(call);
    if (call.requestId !== undefined && this.session.primes) {
      extra.closeSSEStream = () => void call.closeStream();
      extra.closeStandaloneSSEStream = () => this.session.closeStandaloneStream();
    }
    return extra;
  }
}

interface Served extends Settlement {
  readonly call: McpCall;
}

const sessionEnded = (): ProtocolError => new sdk.ProtocolError(REQUEST_FAILED, 'The session has ended.');
const notRebuilt = (reason: string): string =>
  `A session could not be rebuilt from its record: the server refused the recorded "initialize" (${reason}). The option "server" must depend on the session alone.`;
