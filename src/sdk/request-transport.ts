import {
  type JSONRPCMessage,
  type MessageExtraInfo,
  PerRequestHTTPServerTransport,
  type Server,
} from '@modelcontextprotocol/server';
import type { McpCall } from '../context/mcp-call.js';
import { REQUEST_FAILED } from '../wire/errors.js';
import { isResponse, type JsonRpcRequest } from '../wire/json-rpc.js';
import { MODERN_REVISIONS } from '../wire/revisions.js';
import { ProtocolError } from '../wire/spec.js';

const [REVISION] = MODERN_REVISIONS;
const CLASSIFICATION = Object.freeze({ era: 'modern', revision: REVISION } as const);
const EXTRA: MessageExtraInfo = Object.freeze({ classification: CLASSIFICATION });

/** HTTP status of what the SDK refuses before any handler runs; what a handler says is a matter of JSON-RPC, and 200. */
const STATUS_BEFORE_HANDLERS: Readonly<Record<number, number>> = {
  [-32601]: 404,
  [-32600]: 400,
  [-32602]: 400,
  [-32022]: 400,
};

/**
 * A server of the application behind one request of revision 2026-07-28.
 *
 * A server is bound to the revision by being connected to a transport of this class: of that class nothing else is used.
 */
export class RequestTransport extends PerRequestHTTPServerTransport {
  #answer: ((message: JSONRPCMessage) => void) | undefined;
  /** The request is being handed over: what is answered now is answered before any handler has run. */
  #entering = false;

  private constructor(private readonly call: McpCall | undefined) {
    super({ classification: CLASSIFICATION });
  }

  /** @returns `undefined` if the server was not made for the revision */
  static async connect(server: Server, call: McpCall | undefined): Promise<RequestTransport | undefined> {
    const transport = new RequestTransport(call);
    await server.connect(transport);
    // oxlint-disable-next-line typescript/no-deprecated -- of an instance that serves the revision: that is the question
    return server.getNegotiatedProtocolVersion() === REVISION ? transport : undefined;
  }

  /** @returns the result @throws (rejects) ProtocolError as the server answers, or when it was closed */
  serve(): Promise<object> {
    const call = this.call!;
    const message = call.message as JsonRpcRequest;
    return new Promise((resolve, reject) => {
      this.#answer = (answer) => {
        this.#answer = undefined;
        if ('result' in answer) return resolve(answer.result);
        const {
          code,
          message: text,
          data,
        } = (answer as { error: { code: number; message: string; data?: unknown } }).error;
        const status = this.#entering ? STATUS_BEFORE_HANDLERS[code] : undefined;
        if (status !== undefined) call.refuseWith(status, {});
        reject(new ProtocolError(code, text, data));
      };
      call.signal.addEventListener('abort', () => this.#cancel(call, message.id, reject), { once: true });
      this.#entering = true;
      try {
        this.onmessage!(message, EXTRA);
      } finally {
        this.#entering = false;
      }
    });
  }

  override start(): Promise<void> {
    return Promise.resolve();
  }

  override send(message: JSONRPCMessage): Promise<void> {
    if (isResponse(message)) this.#answer?.(message);
    else if (this.call && !('id' in message)) {
      const { method, params } = message;
      return this.call.notify(params ? { method, params } : { method });
    }
    return Promise.resolve();
  }

  /** Called by the SDK's `server.close()`, also within a handler: the request would stay unanswered. */
  override close(): Promise<void> {
    const answer = this.#answer;
    this.onclose?.();
    const error = { code: REQUEST_FAILED, message: 'The server was closed before it had an answer.' };
    answer?.({ jsonrpc: '2.0', id: this.call!.requestId!, error });
    return Promise.resolve();
  }

  #cancel(call: McpCall, requestId: string | number, reject: (reason: unknown) => void): void {
    if (!this.#answer) return;
    this.#answer = undefined;
    const { reason } = call.signal as { reason: unknown };
    const params = { requestId, reason: reason instanceof Error ? reason.message : String(reason) };
    this.onmessage?.({ jsonrpc: '2.0', method: 'notifications/cancelled', params }, EXTRA);
    reject(reason);
  }
}
