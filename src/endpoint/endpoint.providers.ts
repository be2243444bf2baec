import type { Provider } from '@nestjs/common';
import { MCP_OPTIONS } from '../common/option-checks.js';
import { BareRequests } from './bare-requests.js';
import { LegacyEndpoint } from './legacy/legacy-endpoint.js';
import { SessionlessEndpoint } from './legacy/sessionless-endpoint.js';
import { McpEndpoint } from './mcp-endpoint.js';
import { ModernClient } from './modern/modern-client.js';
import { ModernEndpoint } from './modern/modern-endpoint.js';
import { Subscriptions } from './modern/subscriptions.js';
import { PROTOCOL_OPTIONS, resolveProtocolOptions } from './protocol.options.js';

export const endpointProviders: Provider[] = [
  { provide: PROTOCOL_OPTIONS, useFactory: resolveProtocolOptions, inject: [MCP_OPTIONS] },
  BareRequests,
  ModernClient,
  Subscriptions,
  ModernEndpoint,
  LegacyEndpoint,
  SessionlessEndpoint,
  McpEndpoint,
];
