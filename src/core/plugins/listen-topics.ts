import { Injectable } from '@nestjs/common';
import type { Observable } from 'rxjs';
import type { McpCall, OutboundMessage } from '../calls/mcp-call.js';
import type { StreamFlow } from '../calls/reply.js';

/**
 * What clients of revision 2026-07-28 can listen to, beside lists and resources: things with ids, such as tasks.
 *
 * @internal
 */
export interface McpTopic {
  /** One subscription may name so many ids. */
  readonly maxIds: number;
  /**
   * Returns the ids whose notifications the caller may get. The others are left out without an error: a caller must not learn
   * which exist.
   *
   * @throws (rejects) the error that the subscription is refused with
   */
  honored(ids: readonly string[], call: McpCall): Promise<readonly string[]>;
  /** Emits the notifications about these ids; none while the reader is slow. Never errors. */
  watch(ids: readonly string[], flow: StreamFlow): Observable<OutboundMessage>;
}

/** Holds the topics of one endpoint by their field in the filter of `subscriptions/listen`. */
@Injectable()
export class ListenTopics {
  readonly #topics = new Map<string, McpTopic>();

  has(field: string): boolean {
    return this.#topics.has(field);
  }

  /** @throws Error when there is a topic of that field */
  add(field: string, topic: McpTopic): void {
    if (this.#topics.has(field)) throw new Error(`There are two topics with the field "${field}".`);
    this.#topics.set(field, topic);
  }

  [Symbol.iterator](): Iterator<[field: string, topic: McpTopic]> {
    return this.#topics[Symbol.iterator]();
  }
}
