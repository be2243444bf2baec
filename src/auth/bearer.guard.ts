import { type CanActivate, type ExecutionContext, Inject, Injectable } from '@nestjs/common';
import { SESSION_METHODS } from '../core/http/edge/edge-policy.js';
import { Challenges } from '../core/http/credentials.js';

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
  constructor(@Inject(Challenges) private readonly challenges: Challenges) {}

  /** @internal */
  canActivate(context: ExecutionContext): true | Promise<true> {
    const { by } = this.challenges;
    if (!by) return true;
    const request = context.switchToHttp().getRequest<object & { readonly method: string }>();
    // The session guard refuses other methods that bypassed the edge (E2).
    return SESSION_METHODS.includes(request.method) ? by.admit(request) : true;
  }
}
