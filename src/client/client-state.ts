import type { RequestId } from '../wire/json-rpc.js';

/**
 * Where a transport stands.
 *
 *     new ──start()──▶ started ──initialize──▶ initializing ──answer──▶ live
 *                         ▲                        │ failed              │ 404
 *                         └────────────────────────┘                     ▼
 *                         live ◀──new session── recovering ◀──────── (option "recover")
 *                                                  │ failed              │ without it
 *                                                  └──────▶ lost ◀───────┘
 *
 *     any ──close()──▶ closing ──▶ closed
 *
 * On 2026-07-28 there is no session: such a transport stays `started`.
 *
 * @publicApi
 */
export type ClientTransportState =
  | { readonly is: 'new' }
  | { readonly is: 'started' }
  | { readonly is: 'initializing' }
  | { readonly is: 'live'; readonly sessionId: string | undefined; readonly protocolVersion: string | undefined }
  | { readonly is: 'recovering'; readonly lostSessionId: string }
  | { readonly is: 'lost'; readonly lostSessionId: string }
  | { readonly is: 'closing' }
  | { readonly is: 'closed' };

/** An attempt that is about to be made. @publicApi */
export interface ReconnectEvent {
  /**
   * - `standalone`: the GET for what the server sends on its own
   * - `resume`: the GET for the rest of a response that broke off
   * - `retry`: a request is sent once more
   * - `recover`: a new session is asked for once more
   */
  readonly kind: 'standalone' | 'resume' | 'retry' | 'recover';
  /** Of the call that it is for. */
  readonly requestId?: RequestId;
  /** Attempts in a row that brought nothing, before this one. */
  readonly failures: number;
  /** Milliseconds until it is made. */
  readonly delayMs: number;
  /** Why; `undefined` when the server simply ended the response. */
  readonly cause?: unknown;
}

/** A session was lost, and what became of it. @publicApi */
export type RecoveryEvent =
  | {
      readonly outcome: 'recovered';
      readonly lostSessionId: string;
      readonly sessionId: string | undefined;
      /** Requests under way that are sent once more, and those that fail because they may have been carried out. */
      readonly replayed: readonly RequestId[];
      readonly failed: readonly RequestId[];
    }
  | { readonly outcome: 'failed'; readonly lostSessionId: string; readonly error: unknown };
