import { Injectable } from '@nestjs/common';
import type { CallingClient, HandlerQuestion, McpCall, OutboundMessage, OutboundOptions } from './mcp-call.js';
import type { McpCallEnd } from './mcp-instrumentation.js';

/**
 * A client that a plugin puts in the place of the one that has called, such as a task. It has what the handler sends from then on,
 * and decides how long the handler runs for it.
 *
 * @internal
 */
export interface DivertedClient extends CallingClient {
  /** Names it for its client; it may be a secret. */
  readonly id: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** The client that has called gets this as its result. */
  readonly handle: object;
  /**
   * Resolves when nothing runs for it any more. With the outcome `cancelled` the signal of the call aborts, with `error` as its reason.
   */
  readonly end: Promise<McpCallEnd>;
  /** Whether the handler waits for an answer. */
  readonly asks: boolean;
  /** Gets questions of handlers alone. */
  request(question: OutboundMessage, options: OutboundOptions, call: McpCall, asked: HandlerQuestion): Promise<unknown>;
  /**
   * Called by operators, and when the call ends before its client has got the handle.
   *
   * @returns whether it had not ended
   * @throws (rejects) McpError UNAVAILABLE
   */
  cancel(): Promise<boolean>;
}

/** Holds the calls of an endpoint on this node that were diverted to another client, and go on. */
@Injectable()
export class DivertedCalls implements Iterable<[McpCall, DivertedClient]> {
  readonly #running = new Map<McpCall, DivertedClient>();

  get count(): number {
    return this.#running.size;
  }

  /** Diverts a call. */
  add(call: McpCall, client: DivertedClient): void {
    this.#running.set(call, client);
    call.divertTo(client);
    void client.end.then((end) => {
      this.#running.delete(call);
      call.endDiverted(end);
    });
  }

  [Symbol.iterator](): MapIterator<[McpCall, DivertedClient]> {
    return this.#running.entries();
  }
}
