import type { Provider } from '@nestjs/common';
import { McpClock, systemClock } from './core/common/clock.js';
import { McpBearerGuard } from './auth/bearer.guard.js';
import { nodeProviders } from './core/nodes/node.providers.js';
import { featuresProvider, keptStoresProvider, scopesProviders } from './features.js';
import { offerProviders } from './endpoint-offer.js';
import { endpointProviders } from './core/eras/endpoint.providers.js';
import { handlerProviders } from './core/handlers/handler.providers.js';
import { httpProviders } from './core/http/http.providers.js';
import { routeProviders } from './core/routes/route.providers.js';
import { methodProviders } from './core/methods/method.providers.js';
import { sessionProviders } from './core/sessions/session.providers.js';
import { stateProviders } from './core/questions/state/state.providers.js';
import { streamProviders } from './core/log/stream.providers.js';

/** Provides the parts of one endpoint, room by room. */
export const endpointParts: Provider[] = [
  { provide: McpClock, useValue: systemClock },
  ...offerProviders,
  keptStoresProvider,
  ...nodeProviders,
  ...stateProviders,
  ...streamProviders,
  ...sessionProviders,
  ...routeProviders,
  ...handlerProviders,
  ...methodProviders,
  featuresProvider,
  ...endpointProviders,
  ...httpProviders,
  ...scopesProviders,
  McpBearerGuard,
];
