import {
  type JSONRPCMessage,
  type MessageExtraInfo,
  PerRequestHTTPServerTransport,
  type Server,
  type TransportSendOptions,
} from '@modelcontextprotocol/server';
import { runInCall } from '../../context/mcp-call.js';
import { answerText } from '../../session/answer-text.js';
import { withParamsError } from '../../session/malformed-params.js';
import { errorResponse, REQUEST_FAILED } from '../../wire/errors.js';
import type { RequestId } from '../../wire/json-rpc.js';
import { MODERN_REVISIONS } from '../../wire/revisions.js';
import { protocolMessages } from '../protocol.messages.js';
import type { ModernCall } from './modern-call.js';
import type { ModernExchange } from './modern-exchange.js';

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
/** The one error that has a status of its own whenever it comes (row M6). */
const MISSING_CAPABILITY = -32021;

/**
 * # The way into an SDK server for modern requests, and back
 *
 * One channel carries any number of requests at once: each gets an id that is unique in the channel, since clients choose
 * theirs as they like, and the SDK keeps what it does by id. The id of the client comes back on the answer.
 *
 * An instance is bound to the revision by being connected to a transport of this class (`PerRequestHTTPServerTransport`):
 * of that class nothing else is used.
 *
 * Invariant: a request is in `#served` from its dispatch until its answer, or until it is given up; whichever comes first
 * ends it, once.
 */
export class ModernChannel extends PerRequestHTTPServerTransport {
  readonly #served = new Map<RequestId, Served>();
  #lastId = 0;
  /** The request that is being handed to the server: what it answers now, it answers before any handler has run. */
  #entering: RequestId | undefined;

  private constructor(private readonly ears: ChannelEars) {
    super({ classification: CLASSIFICATION });
  }

  /** @returns the channel, or `undefined` if the server was not made for the modern revision */
  static async connect(server: Server, ears: ChannelEars): Promise<ModernChannel | undefined> {
    const channel = new ModernChannel(ears);
    await server.connect(channel);
    // oxlint-disable-next-line typescript/no-deprecated -- of an instance that serves the revision: that is the question
    return server.getNegotiatedProtocolVersion() === REVISION ? channel : undefined;
  }

  /** Requests that are being served. */
  get size(): number {
    return this.#served.size;
  }

  /** @returns gives the request up: its handler is cancelled, and what it still says is dropped. Idempotent */
  dispatch(call: ModernCall, exchange: ModernExchange): (reason: string) => void {
    const id = ++this.#lastId;
    const { message } = call;
    this.#served.set(id, { call, exchange });
    this.#entering = id;
    try {
      runInCall(call, () => this.onmessage!({ ...message, id }, EXTRA));
    } finally {
      this.#entering = undefined;
    }
    return (reason) => this.#giveUp(id, reason);
  }

  override start(): Promise<void> {
    return DONE;
  }

  override send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    if ('method' in message) {
      const served = this.#served.get(options?.relatedRequestId ?? NO_ID);
      if (served) return served.exchange.send(JSON.stringify(message));
      this.ears.late(message.method);
      return DONE;
    }
    const id = message.id ?? NO_ID;
    const served = this.#served.get(id);
    if (!served) {
      this.ears.late(undefined);
      return DONE;
    }
    this.#served.delete(id);
    const { call, exchange } = served;
    const answer = withParamsError(message, call.message);
    const code = 'error' in answer ? answer.error.code : undefined;
    const text = answerText({ ...answer, id: call.requestId }, this.ears.report);
    exchange.answer(text, call.refusal ?? this.#statusOf(code, id));
    return DONE;
  }

  /** Called by the SDK's `server.close()`, also within a handler: nobody else would answer what is being served. */
  override close(): Promise<void> {
    const unanswered = [...this.#served.values()];
    this.#served.clear();
    // First, so that who answers finds the server closed.
    this.#tellServer();
    const text = protocolMessages.serverClosed();
    for (const { call, exchange } of unanswered) {
      call.cancel(new Error(text));
      exchange.answer(JSON.stringify(errorResponse(call.requestId, REQUEST_FAILED, text)));
    }
    return DONE;
  }

  /** What listens is the application's, and may fail. */
  #tellServer(): void {
    try {
      this.onclose?.();
    } catch (error) {
      this.ears.report(error);
    }
  }

  #statusOf(code: number | undefined, id: RequestId): { status: number } | undefined {
    if (code === undefined) return undefined;
    if (code === MISSING_CAPABILITY) return { status: 400 };
    const status = id === this.#entering ? STATUS_BEFORE_HANDLERS[code] : undefined;
    return status === undefined ? undefined : { status };
  }

  #giveUp(id: RequestId, reason: string): void {
    const served = this.#served.get(id);
    if (!served) return;
    this.#served.delete(id);
    served.call.cancel(new Error(reason));
    this.onmessage?.({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id, reason } }, EXTRA);
  }
}

/** Who hears of what goes wrong. */
export interface ChannelEars {
  /** Tells the operator. */
  readonly report: (error: unknown) => void;
  /** A message came that belongs to no request, or to one that is over: it is dropped (P8). An answer has no method. */
  readonly late: (method: string | undefined) => void;
}

interface Served {
  readonly call: ModernCall;
  readonly exchange: ModernExchange;
}

const NO_ID = '';
const DONE = Promise.resolve();
