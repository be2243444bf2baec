import type { Client, ClientOptions, OAuthClientProvider } from '@modelcontextprotocol/client';
import {
  flag,
  functionOf,
  McpOptionError,
  object,
  option,
  type OptionTable,
  passing,
  required,
  type Resolved,
} from '../../core/common/options.js';
import { resolveUrl, type StreamableClientTransportOptions, TRANSPORT_TABLE } from '../client.options.js';

/**
 * The credentials of a client are a bearer token; a function that returns one, called before each request; or an OAuth
 * provider of the MCP SDK, which is handled by the SDK's `withOAuth`.
 *
 * @publicApi
 */
export type McpClientAuth = string | (() => string | Promise<string>) | OAuthClientProvider;

/** Configures one client of `McpClientModule`. @publicApi */
export interface McpClientOptions extends Omit<StreamableClientTransportOptions, 'sessionId' | 'protocolVersion'> {
  /** Sets the URL of the MCP endpoint. */
  url: string | URL;
  /** Sets the credentials of the client. They replace an `Authorization` of the option `headers`. @default none */
  auth?: McpClientAuth;
  /**
   * Sets the name and version that the client sends in `initialize`.
   *
   * @default the name of the client, with the version `0.0.0`
   */
  clientInfo?: { name: string; version: string };
  /**
   * Sets the options of the official `Client`, such as `capabilities` or `versionNegotiation`.
   *
   * @default `{}` (the 2025 revisions, whose calls survive a broken connection; for 2026-07-28 set `versionNegotiation`)
   */
  client?: ClientOptions;
  /**
   * Sets handlers on each official `Client` before it connects. It is called again after a lost connection, because the
   * new connection has a new `Client`.
   *
   * @default none
   */
  configure?: (client: Client) => void;
  /**
   * Decides whether a new session starts when the server no longer knows the old one. The default differs from that of
   * the transport, because a service has no user to reconnect it.
   *
   * @default true
   */
  recover?: boolean;
  /**
   * Decides whether the client follows tasks (the extension `io.modelcontextprotocol/tasks` of 2026-07-28). A call that
   * the server turns into a task is then polled until the task has ended; cancelling the call cancels the task. Status
   * messages of the task arrive as progress, which restarts the timeout of the call. With `false` the client does not
   * declare the extension, so the server creates no tasks.
   *
   * @default true
   */
  tasks?: boolean;
}

/** Configures `McpClientModule.forRoot`. @publicApi */
export interface McpClientModuleOptions {
  /** Configures the clients. They are injected by these names. */
  clients: Readonly<Record<string, McpClientOptions>>;
}

/** These options are fixed when the module is declared, also in `forRootAsync`. @publicApi */
export interface McpClientModuleExtras {
  /** Lists the names of the clients; needed only in `forRootAsync`. @default the keys of "clients" */
  names?: readonly string[];
  /** Decides whether other modules can inject the clients without importing this one. @default false */
  isGlobal?: boolean;
}

export const CLIENT_TABLE = {
  ...TRANSPORT_TABLE,
  url: option(required, resolveUrl),
  auth: passing(undefined, isAuth, 'a token, a function that returns one, or an OAuth provider'),
  clientInfo: object(undefined),
  client: object(undefined),
  configure: functionOf(undefined),
  recover: flag(true),
  tasks: flag(true),
} satisfies OptionTable<McpClientOptions>;

export type ResolvedMcpClientOptions = Resolved<typeof CLIENT_TABLE>;

function isAuth(given: unknown): boolean {
  return ['string', 'function', 'object'].includes(typeof given) && given !== null;
}

/** Returns the options that a factory gave for one client. @throws McpOptionError when it gave none */
export function clientOptionsOf(options: McpClientModuleOptions, name: string): McpClientOptions {
  const clients = object({})((options as Partial<McpClientModuleOptions> | undefined)?.clients, 'clients') as Clients;
  const names = Object.keys(clients);
  if (names.includes(name)) return clients[name]!;
  const known = names.map((each) => `"${each}"`).join(', ') || 'none';
  const message = `The factory configured no client "${name}". It configured ${known}.`;
  throw new McpOptionError(`clients.${name}`, message);
}

type Clients = McpClientModuleOptions['clients'];
