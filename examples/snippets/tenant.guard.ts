// #region guard
import {
  type CanActivate,
  type ExecutionContext,
  Inject,
  Injectable,
  NotFoundException,
  UnauthorizedException,
} from '@nestjs/common';

/** Stands for the part of your app that knows the members of each tenant. */
@Injectable()
export class Members {
  findByToken(
    token: string | undefined,
  ): Promise<{ id: string; tenants: string[] } | undefined> {
    const known: Record<string, { id: string; tenants: string[] }> = {
      'Bearer a': { id: 'ann', tenants: ['acme', 'globex'] },
      'Bearer b': { id: 'bob', tenants: ['globex'] },
    };
    return Promise.resolve(known[token ?? '']);
  }
}

export interface TenantRequest {
  headers: { authorization?: string };
  params: { tenant: string };
  user: { id: string; tenants: string[] };
}

@Injectable()
export class TenantGuard implements CanActivate {
  constructor(@Inject(Members) private readonly members: Members) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const request = context.switchToHttp().getRequest<TenantRequest>();
    const user = await this.members.findByToken(request.headers.authorization);
    if (!user) throw new UnauthorizedException();
    // A tenant that does not exist gets the same answer, so callers cannot find out which
    // tenants exist.
    if (!user.tenants.includes(request.params.tenant)) throw new NotFoundException();
    request.user = user;
    return true;
  }
}
// #endregion
