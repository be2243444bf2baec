import { Inject, Injectable } from '@nestjs/common';
import { type McpEndpointHost, type McpEndpointPlugin, McpPlugin } from 'nestjs-mcp-streamable';
import { McpCallRelay } from 'nestjs-mcp-streamable/client';
import { RemoteSource } from './remote-source.js';
import type { RemoteOptions } from './remote.options.js';

/** The injection token of the servers behind the gateway: a list of {@link RemoteOptions}. */
export const REMOTES = Symbol('REMOTES');

/** Serves the tools, resources and prompts of other MCP servers, as if they were those of this app. */
@Injectable()
export class GatewayPlugin extends McpPlugin {
  readonly ring = 'app';

  constructor(@Inject(REMOTES) private readonly remotes: readonly RemoteOptions[]) {
    super();
  }

  attach(endpoint: McpEndpointHost): McpEndpointPlugin {
    const relay = new McpCallRelay({ clock: endpoint.clock });
    const sources = this.remotes.map((options) => new RemoteSource(options, endpoint, relay));
    for (const source of sources) endpoint.serve(source);
    return {
      close: async () => {
        relay.close();
        await Promise.all(sources.map((source) => source.close()));
      },
    };
  }
}
