import { Inject, type InjectionToken } from '@nestjs/common';
import { McpSessionService } from './mcp-session.service.js';

/** The injection token of the {@link McpSessionService} within its endpoint, whether that has a name or not. */
export const SESSION_SERVICE = Symbol('nestjs-mcp-streamable:session-service');

/**
 * The token of the {@link McpSessionService} of an endpoint.
 *
 * @param name the option `name` of the endpoint; without it the class itself is the token
 * @publicApi
 */
export function getMcpSessionServiceToken(name?: string): InjectionToken<McpSessionService> {
  return name === undefined ? McpSessionService : `McpSessionService:${name}`;
}

/**
 * Injects the {@link McpSessionService} of an endpoint that has a name.
 *
 * @param name the option `name` of the endpoint
 * @publicApi
 */
export function InjectMcpSessionService(name?: string): ReturnType<typeof Inject> {
  return Inject(getMcpSessionServiceToken(name));
}
