import type { Observable } from 'rxjs';

/**
 * What the endpoint answers one HTTP request with. Refusals are not replies: they are thrown as `McpError`.
 *
 * - `accepted`: 202, no body, no content type (behaviour.md P1).
 * - `json`: 200 and one JSON text.
 * - `empty`: a status and headers, no body: 204 of a DELETE, 405 of a finished stream (G2).
 * - `stream`: server-sent events.
 *
 * @internal
 */
export type McpReply =
  | { readonly kind: 'accepted' }
  | {
      readonly kind: 'json';
      readonly body: string;
      /** @default 200 */
      readonly status?: number;
      readonly headers?: Readonly<Record<string, string>>;
    }
  | { readonly kind: 'empty'; readonly status: number; readonly headers?: Readonly<Record<string, string>> }
  | McpStreamReply;

/** An answer as server-sent events. @internal */
export interface McpStreamReply {
  readonly kind: 'stream';
  /**
   * Called once, when the response is certain to be there and its head is about to be written. A throw here still
   * becomes a proper error answer.
   *
   * The Observable is subscribed at once, and unsubscribed when the client goes away. Each value is a ready frame, or
   * several. It completes: the response ends. It fails: the connection is destroyed, so that the client resumes.
   *
   * @param flow back-pressure of this one response; valid until the Observable is unsubscribed
   */
  open(flow: StreamFlow): Observable<string>;
}

/**
 * Back-pressure of one response (behaviour.md P13). A source that reads from a log stops reading while `paused`; what it
 * emits nevertheless is still written.
 *
 * @internal
 */
export interface StreamFlow {
  /** Whether more than `maxBufferedBytes` wait behind the event that is being sent. */
  readonly paused: boolean;
  /** Emits each time `paused` has become false; completes with the response. Hot: subscribe, then look at `paused`. */
  readonly resumed$: Observable<void>;
}

/** A POST that is being served. @internal */
export interface McpServing {
  /** Settles when it is clear how to answer. Rejects with an `McpError`. */
  readonly reply: Promise<McpReply>;
  /** The client has gone before the reply was there. */
  abandon(): void;
}

const accepted: McpReply = { kind: 'accepted' };

/** Nothing to wait for: notifications and responses were taken (behaviour.md P1). @internal */
export const ACCEPTED: McpServing = { reply: Promise.resolve(accepted), abandon: () => {} };
