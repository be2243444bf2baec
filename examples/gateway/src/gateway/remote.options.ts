import type { Tool } from '@modelcontextprotocol/client';
import type { McpCall, McpToolRegistration } from 'nestjs-mcp-streamable';
import type { McpClientOptions } from 'nestjs-mcp-streamable/client';

/** A user of the gateway, at one call. The HTTP request is that of the call, for a token to exchange. */
export type GatewayUser = Pick<McpCall, 'request'> & { readonly principal: string };

/** Times and limits, unless the options of a server have others. */
export const DEFAULTS = {
  /** Lists are asked for again after so long, for changes that the server does not announce. */
  listTtlMs: 60_000,
  /** A server that does not list its handlers in this time is away. */
  listTimeoutMs: 5_000,
  /** A server that is away is not asked for lists again for so long. */
  retryMs: 10_000,
  /** Further handlers of a kind are left out. */
  maxHandlers: 1_000,
  /** Sessions of users that call nothing for so long are closed. */
  idleMs: 1_800_000,
};

/** One MCP server behind the gateway. */
export interface RemoteOptions extends Partial<typeof DEFAULTS> {
  readonly name: string;
  readonly url: string;
  /** Names of its tools and prompts begin with it. URIs stay as they are. @default the name and `_` */
  readonly prefix?: string;
  /**
   * Returns the token of a user for this server: a stored one, or one that was exchanged. Each user then has a session and lists of
   * its own. A user without a token has none of its tools, and neither have anonymous callers.
   *
   * @default all users share one session, without a token
   */
  readonly token?: (user: GatewayUser) => string | undefined | Promise<string | undefined>;
  /** Returns options of a tool that the app decides, such as `timeoutMs`, `confirm` or `guards`. @default none */
  readonly tool?: (tool: Tool) => Partial<Omit<McpToolRegistration<never>, 'handler'>>;
  readonly client?: Partial<McpClientOptions>;
}
