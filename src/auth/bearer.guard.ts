import { type CanActivate, type ExecutionContext, Inject, Injectable } from '@nestjs/common';
import { SESSION_METHODS } from '../core/http/edge/edge-policy.js';
import type { ResourceServer } from './resource-server.js';

/** The injection token of the {@link ResourceServer} of an endpoint; `null` without the option `auth`. */
export const RESOURCE_SERVER = Symbol('nestjs-mcp-streamable:resource-server');

/**
 * The first guard of each endpoint: admits requests whose access token the option `auth` accepts, and sets the caller
 * on the request, as `auth` (the `AuthInfo` of the MCP SDK) and, unless there is one, as `user` (the claims). Without
 * the option it admits every request.
 *
 * Guards of the app follow: `guards`, then the session guard, then those of handlers. Global guards run before it, as
 * in Nest; their refusals also get a challenge.
 *
 * @publicApi
 */
@Injectable()
export class McpBearerGuard implements CanActivate {
  /** @internal */
  constructor(@Inject(RESOURCE_SERVER) private readonly server: ResourceServer | null) {}

  /** @internal */
  canActivate(context: ExecutionContext): true | Promise<true> {
    if (!this.server) return true;
    const request = context.switchToHttp().getRequest<Parameters<ResourceServer['admit']>[0] & { method: string }>();
    // The session guard refuses other methods that bypassed the edge (E2).
    return SESSION_METHODS.includes(request.method) ? this.server.admit(request) : true;
  }
}
