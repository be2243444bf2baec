import type { Server } from '@modelcontextprotocol/server';
import type { McpSession } from './mcp-session.js';

/** A session with the server behind it. */
export interface LiveSession {
  readonly session: McpSession;
  readonly server: Server;
  /** When the store last heard of it; milliseconds since the epoch. */
  touchedAt: number;
  /** When its record was last looked at; milliseconds since the epoch. */
  askedAt: number;
}
