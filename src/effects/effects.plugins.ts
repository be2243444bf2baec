import type { McpEndpointHost, McpPlugin } from '../core/plugins/mcp-plugin.js';
import { ConfirmPlugin } from './confirm.plugin.js';
import { EndpointEffects } from './endpoint-effects.js';
import { IdempotencyPlugin } from './idempotency.plugin.js';

/** Makes the plugins of one endpoint, which remember calls together. */
export function effectsPlugins(): readonly McpPlugin[] {
  let effects: EndpointEffects | undefined;
  const effectsOf = (endpoint: McpEndpointHost): EndpointEffects => (effects ??= new EndpointEffects(endpoint));
  return [new IdempotencyPlugin(effectsOf), new ConfirmPlugin(effectsOf)];
}
