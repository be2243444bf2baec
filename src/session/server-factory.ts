import type { Server } from '@modelcontextprotocol/server';
import type { McpSessionInfo } from '../call/mcp-call.js';
import type { McpSessionService } from './mcp-session.service.js';

/**
 * Makes the SDK server of a session: once per live copy. A session that is rebuilt, after a restart or on another node,
 * gets another server, so the factory must decide by the session alone.
 *
 * @publicApi
 */
export interface McpServerFactory {
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
  readonly session: McpSessionInfo;
  /** The HTTP request of `initialize`; `undefined` when the session is rebuilt from its record. */
  readonly request: unknown;
  /** The sessions of the endpoint: a factory cannot inject the service that it is part of. */
  readonly sessions: McpSessionService;
}
