import type { ServerCapabilities } from '@modelcontextprotocol/server';
import type { MaybePromise } from '../common/promises.js';
import type { McpCall, McpHttpCall, McpSessionInfo } from './mcp-call.js';
import type { McpTarget } from './mcp-target.js';

/**
 * # The port between the transport and what serves a method
 *
 * A dispatcher receives a call and returns its result; messages of a handler are sent through the call. A dispatcher
 * knows neither HTTP nor streams. There are two: `MethodDispatcher` for decorated handlers, `SdkDispatcher` for servers
 * of the application (option `server`).
 */
export interface McpDispatcher {
  /**
   * Finds what a call is for, before it is served. Its parameters are unchecked. Without this method it is not known.
   *
   * @returns `undefined`: there is no such thing
   */
  find?(call: McpCall): MaybePromise<McpTarget | undefined>;
  /**
   * Serves a request, in the async context of its call. A result that comes after the call was cancelled is dropped.
   *
   * @returns the result, as it is sent; or a promise of it
   * @throws an error with a JSON-RPC code (`code`, a safe integer) and a message for the client; any other error
   *   becomes -32603
   */
  request(call: McpCall): object | Promise<object>;
  /** Takes a notification of the client. Never throws. Absent: the session handles all of them. */
  notification?(call: McpCall): void;
  /** Called when a live session has ended: its client sends no more messages. */
  sessionEnded?(session: McpDispatchedSession): void;
  /**
   * Returns the capabilities of the server of a caller: subscriptions receive only changes that these include.
   *
   * @throws McpError when there is no server for the caller
   */
  capabilities(http: McpHttpCall): ServerCapabilities | Promise<ServerCapabilities>;
  /**
   * Returns whether there is a resource at a URI that the caller may read. Without this method URIs are honored as
   * asked.
   */
  admitsResource?(uri: string, call: McpCall): Promise<boolean>;
  /**
   * Called when a live session was made from its record. Dispatchers with state per session restore it, and requests that arrive
   * meanwhile wait for it. Never throws.
   */
  sessionRebuilt?(session: McpDispatchedSession, settings: McpSessionSettings): void;
  /** Called when another node has taken a change that the client made to its session. */
  sessionChanged?(session: McpDispatchedSession, settings: McpSessionSettings): void;
}

/** The injection token of the {@link McpDispatcher} of an endpoint. */
export const McpDispatcher = Symbol('nestjs-mcp-streamable:McpDispatcher');

/** A live session, with what a dispatcher needs to know; it is compared by identity. */
export interface McpDispatchedSession {
  readonly info: McpSessionInfo;
}

/** The settings that a client made for its session, which can be applied to another server. */
export interface McpSessionSettings {
  /** The parameters of `initialize`, with the revision that was agreed on. */
  readonly initialize?: Readonly<Record<string, unknown>>;
  readonly logLevel?: string;
  readonly subscribe?: readonly string[];
  readonly unsubscribe?: readonly string[];
}
