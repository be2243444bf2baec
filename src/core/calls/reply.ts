import type { Observable } from 'rxjs';
import type { MaybePromise } from '../common/promises.js';
import type { RequestId } from '../protocol/json-rpc.js';
import type { HttpRefusal } from '../protocol/errors.js';
import type { McpEvent } from '../protocol/events.js';

/**
 * The reply of the endpoint to one HTTP request. Refusals are not replies: they are thrown as `McpError`.
 *
 * - `accepted`: 202, no body, no content type (P1).
 * - `json`: 200 and one JSON text.
 * - `empty`: a status and headers, no body: 204 of a DELETE, 405 of a finished stream (G2).
 * - `events`: messages one after the other; over HTTP server-sent events.
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
  | McpEventsReply;

/** An answer as a stream of events. @internal */
export interface McpEventsReply {
  readonly kind: 'events';
  /**
   * Called once, when the response exists and its head is about to be written. An error thrown here is still answered
   * as an error.
   *
   * The Observable is subscribed at once, and unsubscribed when the client disconnects. It completes: the response
   * ends. It fails: the connection is destroyed, so that the client resumes.
   *
   * @param flow back-pressure of this one response; valid until the Observable is unsubscribed
   */
  open(flow: StreamFlow): Observable<McpEvent>;
}

/**
 * Back-pressure of one response (P13). A source that reads from a log stops reading while `paused`; what it
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

/** A notification or request of the server, before it has an envelope. */
export interface OutboundMessage {
  readonly method: string;
  readonly params?: Record<string, unknown>;
}

/** Decides the reply to one POST. @internal */
export interface PendingReply {
  /** The reply, or a promise of it while it is not clear how to answer. Rejects with an `McpError`. */
  readonly reply: MaybePromise<McpReply>;
  /** Called when the client has disconnected before the reply was ready. */
  cancel(): void;
}

/** The reply to notifications and responses that were taken (P1). @internal */
export const ACCEPTED: PendingReply = { reply: { kind: 'accepted' }, cancel: () => {} };

/**
 * Takes the messages and answers of all requests of one POST.
 *
 * @internal
 */
export interface McpExchange extends PendingReply {
  /** Says what the exchange can carry beside answers. */
  readonly carries: 'messages' | 'answers' | 'nothing';
  /**
   * Sends a message that is not an answer; only while `carries` is `messages`.
   *
   * @param data JSON
   * @param eager for reports that may be many: the sender goes on before a log has them
   * @returns settles when the log has it; eager, or without a log: when there is room for more
   */
  send(data: string, eager?: boolean): Promise<void>;
  /**
   * Answers one of the requests. An exchange that has ended ignores it.
   *
   * @param data the response as JSON
   * @param refusal HTTP status and headers, used if this is the only answer and nothing was sent before
   */
  answer(id: RequestId, data: string, refusal?: HttpRefusal): void;
  /** Settles one of the requests without an answer. */
  settle(id: RequestId): void;
  /** Refuses the POST, if no part of an answer was sent and it has one request. @returns whether it did */
  refuse(error: Error): boolean;
  /** Closes the connection and keeps the stream: the client reconnects for the rest. @returns whether it can */
  closeStream(): boolean;
}
