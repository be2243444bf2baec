import type { Prompt, Resource, ResourceTemplateType, Tool } from '@modelcontextprotocol/client';
import type { McpToolRegistration } from 'nestjs-mcp-streamable';
import type { McpClientOptions } from 'nestjs-mcp-streamable/client';

/** A user of the gateway, at one call. */
export interface GatewayUser {
  readonly principal: string;
  /** The HTTP request of the call, for a token to exchange. */
  readonly request: unknown;
}

/** One MCP server behind the gateway. */
export interface RemoteOptions {
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
  /** @default 60000 (1 minute), for changes that the server does not announce */
  readonly listTtlMs?: number;
  /** A server that does not list its handlers in this time is away. @default 5000 */
  readonly listTimeoutMs?: number;
  /** A server that is away is not asked for lists again for so long. @default 10000 */
  readonly retryMs?: number;
  /** Further handlers of a kind are left out. @default 1000 */
  readonly maxHandlers?: number;
  /** Sessions of users that call nothing for so long are closed. @default 1800000 (30 minutes) */
  readonly idleMs?: number;
  readonly client?: Partial<McpClientOptions>;
}

/** What a server lists, by kind. */
export interface Listed {
  tool: Tool;
  resource: Resource;
  template: ResourceTemplateType;
  prompt: Prompt;
}
export type Kind = keyof Listed;
export const KINDS: readonly Kind[] = ['tool', 'resource', 'template', 'prompt'];

const DEFAULTS = {
  listTtlMs: 60_000,
  listTimeoutMs: 5_000,
  retryMs: 10_000,
  maxHandlers: 1_000,
  idleMs: 1_800_000,
} satisfies Partial<RemoteOptions>;

export type ResolvedRemote = RemoteOptions & Required<Omit<RemoteOptions, 'token' | 'tool' | 'client'>>;

export function withDefaults(options: RemoteOptions): ResolvedRemote {
  return { prefix: `${options.name}_`, ...DEFAULTS, ...options };
}
