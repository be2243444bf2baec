import { McpServer, Server } from '@modelcontextprotocol/server';
import type { McpSessionInfo } from '../core/calls/mcp-call.js';
import type { McpSessionService } from '../core/sessions/mcp-session.service.js';
import { McpServerFactoryError } from '../core/sessions/session.errors.js';
import type { McpEra } from '../core/protocol/era.js';
import { shown } from '../core/protocol/errors.js';

// For apps to create servers from the copy of the SDK that this module uses.
export { McpServer, Server };

/** The session or request for which a server is created. @publicApi */
export interface McpServerContext {
  /** `legacy`: for a session, or, with `sessions: 'off'`, for one request. `modern`: for one request of revision 2026-07-28. */
  readonly era: McpEra;
  /** The session; `undefined` for a server of one request. */
  readonly session: McpSessionInfo | undefined;
  /** The owner of the session, or the sender of the request; `undefined`: anonymous. */
  readonly principal: string | undefined;
  /** The HTTP request of `initialize`, or the one that is served alone; `undefined` when a session is rebuilt from its record. */
  readonly request: unknown;
  /** The sessions of the endpoint: a factory cannot inject the service that it is part of. */
  readonly sessions: McpSessionService;
}

/**
 * The option `server`: makes the server of a session, once per live copy; or of one request, in revision 2026-07-28 and
 * with `sessions: 'off'`. A session that is rebuilt, after a restart or on another node, gets another server, so the
 * function must depend on the session only.
 *
 * @publicApi
 */
export type McpServerFunction = (context: McpServerContext) => Server | McpServer | Promise<Server | McpServer>;

/** @throws McpServerFactoryError for anything that is not a new server of the SDK copy that this module uses */
export function lowLevelServer(made: unknown): Server {
  const server = made instanceof McpServer ? made.server : made;
  if (!(server instanceof Server)) {
    throw new McpServerFactoryError(looksLikeServer(made) ? FOREIGN : notAServer(made));
  }
  if (server.transport) throw new McpServerFactoryError(CONNECTED);
  return server;
}

/** Tells whether an object has the SDK's shape, but not its class: the class was loaded twice. */
function looksLikeServer(made: unknown): boolean {
  const { connect, server, setRequestHandler } = (made ?? {}) as Record<string, unknown>;
  return typeof connect === 'function' && (typeof server === 'object' || typeof setRequestHandler === 'function');
}

const FOREIGN =
  'The option "server" returned a server of another copy of @modelcontextprotocol/server than the one this module uses (often the CommonJS build beside the ES module). Import McpServer or Server from "nestjs-mcp-streamable/server", or install a single copy.';
const CONNECTED =
  'The option "server" returned a server that is already connected. It is called once per session, or once per request without sessions, and must return a new server each time.';
const notAServer = (got: unknown): string =>
  `The option "server" must return a new McpServer or Server of @modelcontextprotocol/server; it returned ${shown(got)}.`;
