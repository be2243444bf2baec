import { Injectable } from '@nestjs/common';
import type { DivertedClient, McpCall } from './mcp-call.js';

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
