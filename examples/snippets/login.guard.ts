import {
  type CanActivate,
  type ExecutionContext,
  Injectable,
  UnauthorizedException,
} from '@nestjs/common';

export interface LoggedIn {
  user: { id: string; scopes: string[] };
}

/** Part of your app: finds the user by the cookie of a login. */
@Injectable()
export class LoginGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context
      .switchToHttp()
      .getRequest<LoggedIn & { headers: { cookie?: string } }>();
    if (request.headers.cookie !== 'login=ann') throw new UnauthorizedException();
    request.user = { id: 'ann', scopes: ['invoices:read'] };
    return true;
  }
}
