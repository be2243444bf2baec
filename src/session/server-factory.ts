import type { Server } from '@modelcontextprotocol/server';
import type { McpSessionInfo } from '../context/mcp-call.js';
import type { Era } from '../wire/era.js';
import type { McpSessionService } from './mcp-session.service.js';

/**
 * Makes SDK servers: for a session once per live copy, and for modern requests, which have no session, once for each, or
 * one for all. A session that is rebuilt, after a restart or on another node, gets another server, so the factory must
 * decide by the session alone.
 *
 * @publicApi
 */
export interface McpServerFactory {
  /** A server keeps nothing of a request and is the same for every caller: one serves all modern requests, side by side. */
  readonly shared: boolean;
  /**
   * @returns a new server that is not connected
   * @throws ServerFactoryError when what it made cannot serve
   */
  create(context: McpServerContext): Promise<Server>;
}

/** The injection token of the {@link McpServerFactory}. @publicApi */
export const McpServerFactory = Symbol('nestjs-mcp-streamable:McpServerFactory');

/** For whom a server is made. @publicApi */
export interface McpServerContext {
  /** `legacy`: for a session. `modern`: for one request of revision 2026-07-28. */
  readonly era: Era;
  /** The session; `undefined` in the era without sessions. */
  readonly session: McpSessionInfo | undefined;
  /** Who owns the session, or sends the request; `undefined`: anonymous. */
  readonly principal: string | undefined;
  /**
   * The HTTP request of `initialize`, or the modern request; `undefined` when a session is rebuilt from its record, and for a
   * shared server.
   */
  readonly request: unknown;
  /** The sessions of the endpoint: a factory cannot inject the service that it is part of. */
  readonly sessions: McpSessionService;
}
