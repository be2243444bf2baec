import { randomToken } from '../../common/random-token.js';
import type { McpCall, McpSessionInfo, OutboundMessage, OutboundOptions } from '../../calls/mcp-call.js';
import { McpEventStoreError } from '../../log/event-store.errors.js';
import { capabilityNames, missingCapabilities, requiredCapabilities } from '../../protocol/client-capabilities.js';
import { STANDALONE_STREAM } from '../../protocol/events.js';
import { sdk } from '../../protocol/spec.js';
import { jsonOf } from '../../protocol/notification-json.js';
import type { JsonRpcNotification, JsonRpcRequest, JsonRpcResponse, RequestId } from '../../protocol/json-rpc.js';
import type { Related } from './related-calls.js';
import { cancelledError, OutboundRequests } from './outbound-requests.js';
import type { SessionStreams } from './session-streams.js';
import { McpServerRequestError, storeUnavailable } from '../../calls/server-request.error.js';
import { SESSION_OVER } from '../session.errors.js';
import type { SessionRuntime } from '../session-runtime.js';
import type { SessionInbox } from '../other-nodes.js';

/**
 * # The streams that notifications and requests of a server go to
 *
 * | the message belongs to | notification | request |
 * |---|---|---|
 * | a request that is being handled | its stream (P6); in `json` mode the standalone stream | its stream; in `json` mode refused (P7) |
 * | a request that was answered | logs and changes: the standalone stream; progress: dropped (P8) | refused |
 * | a request that was cancelled | dropped | refused |
 * | nothing | the standalone stream | the standalone stream, if a client reads it |
 */
export class OutgoingMessages {
  #requests: OutboundRequests | undefined;
  #over = false;

  constructor(
    private readonly runtime: SessionRuntime,
    private readonly streams: SessionStreams,
    private readonly session: {
      readonly info: McpSessionInfo;
      readonly inbox: Pick<SessionInbox, 'isAwaitedElsewhere'>;
    },
  ) {}

  /** Counts the requests of the server that wait for the client. */
  get waiting(): number {
    return this.#requests?.size ?? 0;
  }

  notify(message: OutboundMessage, related: Related): Promise<void> {
    switch (related.is) {
      case 'nothing':
        return this.#standalone(message);
      case 'open':
        return this.#accompany(message, related.call);
      case 'answered':
        return this.#notifyLate(message, related.requestId);
      case 'cancelled':
        return this.late(message.method, related.requestId, 'dropped');
    }
  }

  /** @returns the client's result, as it came */
  async request(question: OutboundMessage, options: OutboundOptions, related: Related): Promise<unknown> {
    this.#assertUnderstood(question);
    const call = this.#callThatCarries(question.method, related);
    // For a call there is no await here: the call may end meanwhile.
    if (!call) await this.#assertReader(question.method);
    const { signal } = options;
    if (signal?.aborted) throw cancelledError(signal.reason);
    const requests = (this.#requests ??= this.#makeRequests());
    const { message, answer } = requests.issue(question, options, call);
    const sent = call?.exchange ? call.exchange.send(jsonOf(message)) : this.#standalone(message);
    sent.catch((error: unknown) => requests.withdraw(message.id, error));
    this.runtime.asked(message, this.session.info, answer);
    return answer;
  }

  /** Takes a response of the client, also one without a waiting request (P1). */
  answered(response: JsonRpcResponse): void {
    if (this.#requests?.answered(response)) return;
    if (!this.#isAwaitedElsewhere(response.id)) this.#unknownResponse(response.id);
  }

  /** Takes progress of the client on a request of the server. */
  progressed(notification: JsonRpcNotification): void {
    if (this.#requests?.progressed(notification)) return;
    if (!this.#isAwaitedElsewhere(notification.params?.['progressToken'])) this.#unknownResponse(undefined);
  }

  /** Tells whether another node waits for an answer, which may come to any node; that node gets it from its inbox. */
  #isAwaitedElsewhere(wireId: unknown): boolean {
    return this.session.inbox.isAwaitedElsewhere(wireId);
  }

  /** Fails the requests to the client of a call that is over. */
  failOf(call: McpCall): void {
    this.#requests?.failOf(call);
  }

  /** Fails the requests to the client of a call whose messages the log has lost: they may be among them. */
  lostOf(call: McpCall): void {
    this.#requests?.lostOf(call);
  }

  /** Fails all requests to the client, because the session is over. */
  failAll(): void {
    this.#over = true;
    this.#requests?.failAll();
  }

  /** Reports a message that came too late. */
  late(method: string | undefined, requestId: RequestId | undefined, disposition: LateDisposition): Promise<void> {
    const sessionId = this.session.info.id;
    this.runtime.event({ type: 'late-message', sessionId, method, requestId, disposition });
    return Promise.resolve();
  }

  #accompany(message: OutboundMessage, { exchange, requestId }: McpCall): Promise<void> {
    // A notification of the client, or a replay when a session is rebuilt: no POST waits for it.
    if (!exchange) return this.#standalone(message);
    switch (exchange.carries) {
      case 'messages':
        return exchange.send(jsonOf(message), message.method === 'notifications/progress');
      case 'answers':
        return this.#standalone(message);
      case 'nothing':
        return this.#notifyLate(message, requestId);
    }
  }

  #notifyLate(message: OutboundMessage, requestId: RequestId | undefined): Promise<void> {
    if (!outlivesItsRequest(message.method)) return this.late(message.method, requestId, 'dropped');
    void this.late(message.method, requestId, 'standalone');
    return this.#standalone(message);
  }

  #standalone(message: OutboundMessage | JsonRpcRequest): Promise<void> {
    return this.streams.standalone.write({ data: jsonOf(message) });
  }

  #assertUnderstood({ method, params }: OutboundMessage): void {
    const { clientCapabilities } = this.session.info;
    const missing = missingCapabilities(requiredCapabilities(method, params), clientCapabilities);
    if (!missing) return;
    const capability = capabilityNames(missing, clientCapabilities);
    const text = `"${method}" cannot be sent: the client did not declare the capability "${capability}".`;
    const cause = new sdk.MissingRequiredClientCapabilityError({ requiredCapabilities: missing }, text);
    throw new McpServerRequestError('CLIENT_LACKS_CAPABILITY', text, { cause });
  }

  async #assertReader(method: string): Promise<void> {
    const read = await this.streams.hasReader().catch((error: unknown) => {
      this.runtime.storeFault(this.session.info.id, error, STANDALONE_STREAM);
      throw error instanceof McpEventStoreError ? error : storeUnavailable(error);
    });
    if (this.#over) throw new McpServerRequestError('SESSION_OVER', SESSION_OVER);
    if (read) return;
    const text = `"${method}" cannot be sent: no response of this session is open that could carry it. Send it while a request of the client is being handled, or after the client has opened its GET stream.`;
    throw new McpServerRequestError('NO_STREAM', text);
  }

  /** @returns the call on whose stream a request travels; `undefined`: on the standalone stream */
  #callThatCarries(method: string, related: Related): McpCall | undefined {
    if (related.is === 'nothing') return undefined;
    if (related.is !== 'open') {
      void this.late(method, related.requestId, 'refused');
      const text = `"${method}" cannot be sent: the client request that it belongs to is over. Send it before the handler returns.`;
      throw new McpServerRequestError('CALL_OVER', text);
    }
    const { exchange } = related.call;
    if (!exchange) return undefined;
    const { carries } = exchange;
    if (carries === 'messages') return related.call;
    const why =
      carries === 'answers'
        ? '"responseMode" is "json", and a JSON response carries no other message. Use "auto" or "sse".'
        : 'the client closed the connection before it received an event id to resume from.';
    throw new McpServerRequestError('NO_STREAM', `"${method}" cannot be sent: ${why}`);
  }

  #makeRequests(): OutboundRequests {
    const { clock, nodeId, options } = this.runtime;
    const recall = (cancelled: JsonRpcNotification, call: McpCall | undefined) =>
      call ? this.#accompany(cancelled, call) : this.#standalone(cancelled);
    return new OutboundRequests(`${nodeId}-${randomToken(8)}`, clock, options.serverRequestTimeoutMs, recall);
  }

  #unknownResponse(requestId: RequestId | undefined): void {
    this.runtime.event({ type: 'unknown-response', sessionId: this.session.info.id, requestId });
  }
}

/** Late notifications that match it are still useful to the client, and go to the standalone stream (P8). */
const OUTLIVES_ITS_REQUEST = /^notifications\/(?!progress$|cancelled$)/;

export function outlivesItsRequest(method: string): boolean {
  return OUTLIVES_ITS_REQUEST.test(method);
}

type LateDisposition = 'standalone' | 'dropped' | 'refused';
