import {
  type JSONRPCMessage,
  type MessageExtraInfo,
  PerRequestHTTPServerTransport,
  type Server,
} from '@modelcontextprotocol/server';
import type { McpCall } from '../core/calls/mcp-call.js';
import { ERAS, type McpEra } from '../core/protocol/era.js';
import { REQUEST_FAILED } from '../core/protocol/errors.js';
import { isResponse } from '../core/protocol/json-rpc.js';
import { MODERN_REVISIONS } from '../core/protocol/revisions.js';
import { callerOf, cancellationOf, settle } from './sdk-messages.js';

const [REVISION] = MODERN_REVISIONS;
const EXTRA: Readonly<Record<McpEra, MessageExtraInfo & { readonly classification: object }>> = {
  legacy: { classification: { era: 'legacy' } },
  modern: { classification: { era: 'modern', revision: REVISION } },
};

/**
 * The HTTP status of the errors by which the SDK refuses a request before any handler runs; errors of handlers have
 * 200.
 */
const STATUS_BEFORE_HANDLERS: Readonly<Record<number, number>> = {
  [-32601]: 404,
  [-32600]: 400,
  [-32602]: 400,
  [-32022]: 400,
};

/**
 * Runs a server of the application behind one request: of revision 2026-07-28, or of an older one without a session.
 *
 * A server is bound to revision 2026-07-28 by being connected to a transport of this class that is classified so: of that
 * class nothing else is used.
 */
export class RequestTransport extends PerRequestHTTPServerTransport {
  #answer: ((message: JSONRPCMessage) => void) | undefined;
  /** Says that the request is being passed to the server: an answer in this state comes before any handler has run. */
  #entering = false;

  private constructor(
    private readonly era: McpEra,
    private readonly call: McpCall | undefined,
  ) {
    super(EXTRA[era]);
  }

  /** @returns `undefined` if the server was not made for revision 2026-07-28 */
  static async connectModern(server: Server, call: McpCall | undefined): Promise<RequestTransport | undefined> {
    const transport = new RequestTransport('modern', call);
    await server.connect(transport);
    // oxlint-disable-next-line typescript/no-deprecated -- of an instance that serves the revision: that is the question
    return server.getNegotiatedProtocolVersion() === REVISION ? transport : undefined;
  }

  /** Connects a server for a request of the legacy era: it has seen no `initialize` before. */
  static async connectLegacy(server: Server, call: McpCall): Promise<RequestTransport> {
    const transport = new RequestTransport('legacy', call);
    await server.connect(transport);
    return transport;
  }

  /** @returns the result @throws (rejects) ProtocolError as the server answers, or when it was closed */
  serve(): Promise<object> {
    const { era } = this;
    const call = this.call!;
    return new Promise((resolve, reject) => {
      this.#answer = (answer) => {
        this.#answer = undefined;
        // The legacy era has no HTTP status for JSON-RPC errors (P5).
        const early = this.#entering && ERAS[era].refusesByStatus && 'error' in answer;
        const status = early ? STATUS_BEFORE_HANDLERS[answer.error.code] : undefined;
        settle({ resolve, reject }, answer, status);
      };
      call.signal.addEventListener('abort', () => this.#cancel(call, reject), { once: true });
      this.#entering = true;
      try {
        this.onmessage!(call.received, { ...EXTRA[era], ...callerOf(call) });
      } finally {
        this.#entering = false;
      }
    });
  }

  override start(): Promise<void> {
    return Promise.resolve();
  }

  override async send(message: JSONRPCMessage): Promise<void> {
    if (isResponse(message)) return this.#answer?.(message);
    const { call } = this;
    if (!call) return;
    const { method, params } = message;
    const outbound = params ? { method, params } : { method };
    // Rejects: a client without a session cannot be asked.
    if ('id' in message) await call.ask(outbound);
    else await call.notify(outbound);
  }

  /**
   * Fails the request. The SDK's `server.close()` calls it, also within a handler: the request would stay unanswered.
   */
  override close(): Promise<void> {
    const answer = this.#answer;
    this.onclose?.();
    const error = { code: REQUEST_FAILED, message: 'The server was closed before it answered.' };
    answer?.({ jsonrpc: '2.0', id: this.call!.requestId!, error });
    return Promise.resolve();
  }

  #cancel(call: McpCall, reject: (reason: unknown) => void): void {
    if (!this.#answer) return;
    this.#answer = undefined;
    this.onmessage?.(cancellationOf(call), EXTRA[this.era]);
    reject(call.signal.reason);
  }
}
