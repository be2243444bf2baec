import { McpServer, Server } from '@modelcontextprotocol/server';
import { ServerFactoryError } from '../session/session.errors.js';
import type { McpServerContext, McpServerFactory } from '../session/server-factory.js';
import { protocolMessages } from './protocol.messages.js';

/** The option `server`: makes the server of a session, once per live copy; or of a modern request. @publicApi */
export type McpServerFunction = (context: McpServerContext) => Server | McpServer | Promise<Server | McpServer>;

/** Servers that the application makes. */
export class UserServerFactory implements McpServerFactory {
  /** What they keep is not ours to know, and they may differ by caller. */
  readonly shared = false;

  constructor(private readonly make: McpServerFunction) {}

  async create(context: McpServerContext): Promise<Server> {
    return lowLevelServer(await this.make(context));
  }
}

/** @throws ServerFactoryError for anything that is not a new server of the SDK copy that this module uses */
function lowLevelServer(made: unknown): Server {
  const server = made instanceof McpServer ? made.server : made;
  if (server instanceof Server) {
    if (server.transport) throw new ServerFactoryError(protocolMessages.connectedServer());
    return server;
  }
  throw new ServerFactoryError(
    looksLikeServer(made) ? protocolMessages.foreignServer() : protocolMessages.notAServer(made),
  );
}

/** An object of the SDK's shape, but not of its class: the class was loaded twice. */
function looksLikeServer(made: unknown): boolean {
  const { connect, server, setRequestHandler } = (made ?? {}) as Record<string, unknown>;
  return typeof connect === 'function' && (typeof server === 'object' || typeof setRequestHandler === 'function');
}
