// #region guard
import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import type { AuthInfo } from 'nestjs-mcp-streamable/auth';

/**
 * Runs after Passport, or a guard of your own. It makes the `AuthInfo` of the MCP SDK from
 * `request.user`.
 */
@Injectable()
export class ScopesOfUserGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context
      .switchToHttp()
      .getRequest<{ user?: { id: string; scopes: string[] }; auth?: AuthInfo }>();
    const { user } = request;
    if (user)
      request.auth = { token: 'of the app', clientId: 'app', scopes: user.scopes };
    return true;
  }
}
// #endregion
