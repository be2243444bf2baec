import { Inject, Injectable } from '@nestjs/common';
import { type McpEndpointHost, type McpEndpointPlugin, McpPlugin } from 'nestjs-mcp-streamable';
import { RemoteCalls } from './remote-call.js';
import { RemoteSource } from './remote-source.js';
import { type RemoteOptions, withDefaults } from './remote.options.js';

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
    const calls = new RemoteCalls(endpoint.clock);
    const sources = this.remotes.map((options) => new RemoteSource(withDefaults(options), endpoint, calls));
    for (const source of sources) endpoint.serve(source);
    return {
      close: async () => {
        calls.close();
        await Promise.all(sources.map((source) => source.close()));
      },
    };
  }
}
