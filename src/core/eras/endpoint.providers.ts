import type { Provider } from '@nestjs/common';
import { BareRequests } from './modern/bare-requests.js';
import { LegacyEndpoint } from './legacy/legacy-endpoint.js';
import { SessionlessEndpoint } from './legacy/sessionless-endpoint.js';
import { McpEndpoint } from './mcp-endpoint.js';
import { ModernClient } from './modern/modern-client.js';
import { ModernEndpoint } from './modern/modern-endpoint.js';
import { Subscriptions } from './modern/subscriptions.js';

export const endpointProviders: Provider[] = [
  BareRequests,
  ModernClient,
  Subscriptions,
  ModernEndpoint,
  LegacyEndpoint,
  SessionlessEndpoint,
  McpEndpoint,
];
