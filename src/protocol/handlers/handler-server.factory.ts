import type { Server, Implementation, ServerCapabilities, ServerOptions } from '@modelcontextprotocol/server';
import type { McpServerFactory } from '../../session/server-factory.js';
import { LEGACY_REVISIONS, MODERN_REVISIONS } from '../../wire/revisions.js';
import type { HandlerRequests } from './handler-requests.js';
import { HandlerServer } from './handler-server.js';

/** Declared by every session, also when a list is empty: what is registered later must be able to announce itself. */
const CAPABILITIES: ServerCapabilities = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
  completions: {},
  logging: {},
};

/**
 * Servers over the handlers of the endpoint's providers. All of them share one table and one set of functions: a session
 * costs what the SDK's own object costs, whatever the number of handlers.
 */
export class HandlerServerFactory implements McpServerFactory {
  readonly shared = true;
  /** Of all servers: each keeps what it is given. */
  #options: ServerOptions | undefined;

  constructor(
    private readonly serverInfo: Implementation,
    private readonly instructions: string | undefined,
    private readonly requests: HandlerRequests,
  ) {}

  create(): Promise<Server> {
    // Not sooner: what may be cached depends on guards that an app may get until it listens.
    this.#options ??= this.#optionsOfAll();
    return Promise.resolve(new HandlerServer(this.serverInfo, this.#options, this.requests));
  }

  #optionsOfAll(): ServerOptions {
    return {
      capabilities: CAPABILITIES,
      ...(this.instructions !== undefined && { instructions: this.instructions }),
      jsonSchemaValidator: this.requests.schemas,
      cacheHints: { 'server/discover': this.requests.discoveryHints },
      supportedProtocolVersions: [...LEGACY_REVISIONS, ...MODERN_REVISIONS],
    };
  }
}
