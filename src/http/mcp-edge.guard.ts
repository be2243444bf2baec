import { type CanActivate, type ExecutionContext, Inject, Injectable } from '@nestjs/common';
import type { EdgePolicy } from './edge/edge-policy.js';
import type { EndpointKey } from './edge/endpoint-route.js';
import { admittedOrRefused } from './edge/http-edge.js';
import { rawRequest, type PlatformRequest } from './mcp-incoming.js';

/** The injection token of the key of the endpoint: the mark on its routes. */
export const ENDPOINT_KEY = Symbol('nestjs-mcp-streamable:endpoint-key');
/** The injection token of what the edge asks before anything else. */
export const EDGE_POLICY = Symbol('nestjs-mcp-streamable:edge-policy');

/**
 * The first guard of the endpoint: catches requests that came round the edge, such as those whose URL a middleware of the
 * app has rewritten (E1, E2). All others have passed the edge, and cost one comparison.
 *
 * @internal
 */
@Injectable()
export class McpEdgeGuard implements CanActivate {
  constructor(
    @Inject(ENDPOINT_KEY) private readonly endpoint: EndpointKey,
    @Inject(EDGE_POLICY) private readonly policy: EdgePolicy,
  ) {}

  canActivate(context: ExecutionContext): boolean {
    const request = rawRequest(context.switchToHttp().getRequest<PlatformRequest>());
    const refusal = admittedOrRefused(request, this.endpoint, this.policy);
    if (refusal) throw refusal;
    return true;
  }
}
