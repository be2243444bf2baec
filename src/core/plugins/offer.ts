import type { McpDispatcher } from '../calls/mcp-dispatcher.js';

/**
 * # What an endpoint offers
 *
 * Handlers of the app, or servers that the option `server` makes. One provider decides it, when the options are known: they may come from
 * an async factory. Whatever differs for servers asks here. It stands on nothing but the options, so that every part may ask.
 */
export abstract class Offer {
  abstract readonly serves: 'handlers' | 'servers';
  /** Passes calls to the servers; `undefined`: handlers are served. */
  abstract readonly servers: McpDispatcher | undefined;
  /**
   * Throws unless handlers of the app are served.
   *
   * @param origin names what would be served by one
   * @param reason what is wrong, and what to do. @default the option has to go, or the handler
   * @throws McpHandlerDefinitionError
   */
  abstract assertHandlers(origin: string, reason?: string): void;
}
