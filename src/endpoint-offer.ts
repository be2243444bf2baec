import type { Provider } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { logError, logger } from './core/calls/operator-log.js';
import { McpDispatcher } from './core/calls/mcp-dispatcher.js';
import { MCP_OPTIONS } from './core/common/options.js';
import { once } from './core/common/promises.js';
import { McpHandlerDefinitionError } from './core/handlers/handlers.errors.js';
import { MethodDispatcher } from './core/methods/method-dispatcher.js';
import { Offer } from './core/plugins/offer.js';
import { McpSessionService } from './core/sessions/mcp-session.service.js';
import type { McpServerFunction } from './server/server-factory.js';

const LEGACY_SERVER =
  'The server of the option "server" does not support revision 2026-07-28, so clients of that revision are asked to use an older one. To serve it, create the server with { supportedProtocolVersions: [...LEGACY_REVISIONS, ...MODERN_REVISIONS] }; to serve older revisions only, set "eras" to "legacy".';
const NO_HANDLERS =
  'its endpoint has the option "server", which serves no handlers of the app. Remove the option, or assign the handler to another endpoint.';

class EndpointOffer extends Offer {
  constructor(readonly servers: McpDispatcher | undefined) {
    super();
  }

  get serves(): 'handlers' | 'servers' {
    return this.servers ? 'servers' : 'handlers';
  }

  assertHandlers(origin: string, reason = NO_HANDLERS): void {
    if (this.servers) throw new McpHandlerDefinitionError(origin, reason);
  }
}

/** Provides what an endpoint offers, and the dispatcher of it. Only the option `server` loads the servers of the SDK. */
export const offerProviders: Provider[] = [
  {
    provide: Offer,
    useFactory: async ({ server }: { readonly server?: McpServerFunction }, module: ModuleRef): Promise<Offer> =>
      new EndpointOffer(server && (await dispatcherOver(server, module))),
    inject: [MCP_OPTIONS, ModuleRef],
  },
  {
    provide: McpDispatcher,
    useFactory: ({ servers }: Offer, methods: MethodDispatcher): McpDispatcher => servers ?? methods,
    inject: [Offer, MethodDispatcher],
  },
];

async function dispatcherOver(server: McpServerFunction, module: ModuleRef): Promise<McpDispatcher> {
  const { SdkDispatcher } = await import('./server/sdk-dispatcher.js');
  return new SdkDispatcher({
    // The service is made of the dispatcher.
    make: (context) => server({ ...context, sessions: module.get(McpSessionService) }),
    report: logError,
    onLegacyServer: once(() => logger.warn(LEGACY_SERVER)),
  });
}
