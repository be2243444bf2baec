import { Inject, type InjectionToken } from '@nestjs/common';
import { McpRegistry } from './mcp-registry.js';

/**
 * The token of the {@link McpRegistry} of an endpoint.
 *
 * @param name the option `name` of the endpoint; without it the class itself is the token
 * @publicApi
 */
export function getMcpRegistryToken(name?: string): InjectionToken<McpRegistry> {
  return name === undefined ? McpRegistry : `McpRegistry:${name}`;
}

/**
 * Injects the {@link McpRegistry} of an endpoint that has a name.
 *
 * @param name the option `name` of the endpoint
 * @publicApi
 */
export function InjectMcpRegistry(name?: string): ReturnType<typeof Inject> {
  return Inject(getMcpRegistryToken(name));
}
