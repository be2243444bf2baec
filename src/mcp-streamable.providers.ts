import type { Provider } from '@nestjs/common';
import { McpClock, systemClock } from './core/common/clock.js';
import { MCP_OPTIONS } from './core/common/options.js';
import { authProviders } from './auth/auth.providers.js';
import { nodeProviders } from './core/nodes/node.providers.js';
import { devProvider } from './dev/dev-stores.js';
import { EndpointDoctor } from './doctor/endpoint-doctor.js';
import type { McpPlugin } from './core/plugins/mcp-plugin.js';
import { Offer } from './core/plugins/offer.js';
import { offerProviders } from './endpoint-offer.js';
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
import { routeProviders } from './core/routes/route.providers.js';
import type { McpStreamableOptions } from './mcp-streamable.options.js';
import { methodProviders } from './core/methods/method.providers.js';
import { sessionProviders } from './core/sessions/session.providers.js';
import { stateProviders } from './core/questions/state/state.providers.js';
import { streamProviders } from './core/log/stream.providers.js';

/** The features of the package, as plugins of the endpoint. */
const featuresProvider: Provider = {
  provide: FEATURES,
  useFactory: (
    options: McpStreamableOptions & { readonly instrumentation: readonly McpInstrumentation[] },
    { serves }: Offer,
    switches: EndpointSwitches,
    effects: EndpointEffects,
    doctor: EndpointDoctor,
  ): McpPlugin[] => [
    ...options.instrumentation.map((each) => new InstrumentationPlugin(each)),
    ...(serves === 'servers'
      ? []
      : [
          new SwitchesPlugin(switches),
          new IdempotencyPlugin(effects),
          new ConfirmPlugin(effects),
          new LimitsPlugin(options),
          doctor.plugin,
        ]),
  ],
  inject: [MCP_OPTIONS, Offer, EndpointSwitches, EndpointEffects, EndpointDoctor],
};

/** Provides the parts of one endpoint, room by room. */
export const endpointParts: Provider[] = [
  { provide: McpClock, useValue: systemClock },
  ...offerProviders,
  devProvider,
  ...nodeProviders,
  ...stateProviders,
  ...streamProviders,
  ...sessionProviders,
  ...routeProviders,
  ...handlerProviders,
  ...methodProviders,
  EndpointSwitches,
  { provide: OffSwitch, useExisting: EndpointSwitches },
  EndpointEffects,
  featuresProvider,
  ...endpointProviders,
  ...httpProviders,
  ...authProviders,
];
