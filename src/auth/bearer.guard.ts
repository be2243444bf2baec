import { type CanActivate, type ExecutionContext, Inject, Injectable } from '@nestjs/common';
import { SESSION_METHODS } from '../core/http/edge/edge-policy.js';
import { MCP_OPTIONS } from '../core/common/options.js';
import { Challenges } from '../core/http/credentials.js';
import { retryLater } from '../core/protocol/errors.js';

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
  constructor(
    @Inject(Challenges) private readonly challenges: Challenges,
    @Inject(MCP_OPTIONS) private readonly options: { readonly auth?: object | undefined },
  ) {}

  /** @internal */
  canActivate(context: ExecutionContext): true | Promise<true> {
    const { by } = this.challenges;
    if (this.options.auth === undefined) return true;
    // Nest declares the routes before the plugin is attached, and a server of the app may listen already (A6).
    if (!by) throw retryLater('UNAVAILABLE', 'This server is starting. Try again in a moment.', 1);
    const request = context.switchToHttp().getRequest<object & { readonly method: string }>();
    // The session guard refuses other methods that bypassed the edge (E2).
    return SESSION_METHODS.includes(request.method) ? by.admit(request) : true;
  }
}
