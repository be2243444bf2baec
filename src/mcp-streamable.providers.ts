import type { Provider } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { McpClock, systemClock } from './core/common/clock.js';
import { logError, logger } from './core/calls/operator-log.js';
import { MCP_OPTIONS } from './core/common/options.js';
import { once } from './core/common/promises.js';
import { authProviders } from './auth/auth.providers.js';
import { nodeProviders } from './core/nodes/node.providers.js';
import { devProvider } from './dev/dev-stores.js';
import { McpDispatcher } from './core/calls/mcp-dispatcher.js';
import { EndpointDoctor } from './doctor/endpoint-doctor.js';
import type { McpPlugin } from './core/plugins/mcp-plugin.js';
import { Offer } from './core/plugins/offer.js';
import { FEATURES } from './core/plugins/plugin-host.js';
import { ConfirmPlugin } from './effects/confirm.plugin.js';
import { EndpointEffects } from './effects/endpoint-effects.js';
import { IdempotencyPlugin } from './effects/idempotency.plugin.js';
import type { McpInstrumentation } from './core/calls/mcp-instrumentation.js';
import { InstrumentationPlugin } from './instrumentation.plugin.js';
import { LimitsPlugin } from './limits/limits.plugin.js';
import { EndpointSwitches } from './switches/endpoint-switches.js';
import { SwitchesPlugin } from './switches/switches.plugin.js';
import { OffSwitch } from './core/handlers/registry/mcp-registry.js';
import { endpointProviders } from './core/eras/endpoint.providers.js';
import { handlerProviders } from './core/handlers/handler.providers.js';
import { httpProviders } from './core/http/http.providers.js';
import type { McpStreamableOptions } from './mcp-streamable.options.js';
import { MethodDispatcher } from './core/methods/method-dispatcher.js';
import { methodProviders } from './core/methods/method.providers.js';
import { McpSessionService } from './core/sessions/mcp-session.service.js';
import { sessionProviders } from './core/sessions/session.providers.js';
import { stateProviders } from './core/questions/state/state.providers.js';
import { streamProviders } from './core/log/stream.providers.js';

const LEGACY_SERVER =
  'The server of the option "server" does not support revision 2026-07-28, so clients of that revision are asked to use an older one. To serve it, create the server with { supportedProtocolVersions: [...LEGACY_REVISIONS, ...MODERN_REVISIONS] }; to serve older revisions only, set "eras" to "legacy".';

/**
 * Provides the dispatcher: that of decorated handlers, unless the option `server` is given, which alone needs the SDK's
 * servers.
 */
const dispatcherProvider: Provider = {
  provide: McpDispatcher,
  useFactory: async (
    { server }: McpStreamableOptions,
    methods: MethodDispatcher,
    module: ModuleRef,
  ): Promise<McpDispatcher> => {
    if (!server) return methods;
    const { SdkDispatcher } = await import('./server/sdk-dispatcher.js');
    return new SdkDispatcher({
      make: (context) => server({ ...context, sessions: module.get(McpSessionService) }),
      report: logError,
      onLegacyServer: once(() => logger.warn(LEGACY_SERVER)),
    });
  },
  inject: [MCP_OPTIONS, MethodDispatcher, ModuleRef],
};

/** The features of the package, as plugins of the endpoint. */
const featuresProvider: Provider = {
  provide: FEATURES,
  useFactory: (
    options: McpStreamableOptions & { readonly instrumentation: readonly McpInstrumentation[] },
    switches: EndpointSwitches,
    effects: EndpointEffects,
    doctor: EndpointDoctor,
  ): McpPlugin[] => [
    ...options.instrumentation.map((each) => new InstrumentationPlugin(each)),
    new SwitchesPlugin(switches),
    new IdempotencyPlugin(effects),
    new ConfirmPlugin(effects),
    new LimitsPlugin(options),
    ...doctor.plugins,
  ],
  inject: [MCP_OPTIONS, EndpointSwitches, EndpointEffects, EndpointDoctor],
};

const offerProvider: Provider = {
  provide: Offer,
  useFactory: ({ server }: McpStreamableOptions): Offer => ({ serves: server === undefined ? 'handlers' : 'servers' }),
  inject: [MCP_OPTIONS],
};

/** Provides the parts of one endpoint, room by room. */
export const endpointParts: Provider[] = [
  { provide: McpClock, useValue: systemClock },
  devProvider,
  offerProvider,
  ...nodeProviders,
  ...stateProviders,
  ...streamProviders,
  ...sessionProviders,
  ...handlerProviders,
  ...methodProviders,
  EndpointSwitches,
  { provide: OffSwitch, useExisting: EndpointSwitches },
  EndpointEffects,
  featuresProvider,
  dispatcherProvider,
  ...endpointProviders,
  ...httpProviders,
  ...authProviders,
];
