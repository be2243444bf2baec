import { functionOf, type OptionTable } from '../core/common/options.js';
import type { McpServerFunction } from './server-factory.js';

/** The option by which servers of the app serve an endpoint, in place of handlers. @internal */
export interface McpServerOption {
  /**
   * Creates the SDK server of a session: once per session and node, and again when the session is rebuilt. Each request
   * without a session (revision 2026-07-28, `sessions: 'off'`) gets its own server. Return a new `McpServer` or
   * `Server` each time; in CommonJS apps, import the class from `nestjs-mcp-streamable/server`. An endpoint with this
   * option does not serve decorated handlers or those of `McpRegistry`. If the app has such a handler for this
   * endpoint, it does not start.
   *
   * @default a server over the decorated handlers of the app's providers
   */
  server?: McpServerFunction;
}

export const SERVER_TABLE = {
  server: functionOf(undefined),
} satisfies OptionTable<McpServerOption>;
