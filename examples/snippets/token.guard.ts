// #region guard
import {
  type CanActivate,
  type ExecutionContext,
  Inject,
  Injectable,
  UnauthorizedException,
} from '@nestjs/common';

/** Part of your app: finds the user of a token. */
@Injectable()
export class Users {
  findByToken(
    token: string | undefined,
  ): Promise<{ id: string; tenant: string } | undefined> {
    const user = { id: 'ann', tenant: 'acme' };
    return Promise.resolve(token === 'Bearer secret' ? user : undefined);
  }
}

@Injectable()
export class TokenGuard implements CanActivate {
  constructor(@Inject(Users) private readonly users: Users) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const request = context
      .switchToHttp()
      .getRequest<{ headers: { authorization?: string }; user?: unknown }>();
    request.user = await this.users.findByToken(request.headers.authorization);
    if (!request.user) throw new UnauthorizedException();
    return true;
  }
}
// #endregion
