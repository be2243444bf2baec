import {
  type CanActivate,
  type ExecutionContext,
  ForbiddenException,
  Injectable,
  NotFoundException,
  UnauthorizedException,
} from '@nestjs/common';
import { Accounts, type User } from './accounts.service.js';

interface TenantRequest {
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly params?: { readonly tenant?: string };
  user?: User;
}

/** Lets the users of a tenant in, by their API key. */
@Injectable()
export class ApiKeyGuard implements CanActivate {
  constructor(private readonly accounts: Accounts) {}

  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<TenantRequest>();
    const user = this.accounts.userOf(request.headers['x-api-key'] ?? '');
    if (!user) throw new UnauthorizedException('Send your API key as X-Api-Key.');
    const { tenant } = request.params ?? {};
    // Another tenant does not exist for this user.
    if (tenant !== undefined && tenant !== user.tenant) throw new NotFoundException();
    request.user = user;
    return true;
  }
}

/** Lets the operators of the service in. */
@Injectable()
export class OperatorGuard extends ApiKeyGuard {
  override canActivate(context: ExecutionContext): boolean {
    super.canActivate(context);
    if (context.switchToHttp().getRequest<TenantRequest>().user?.role === 'operator')
      return true;
    throw new ForbiddenException('Only operators may do this.');
  }
}

/**
 * Serves tools to tenants that pay for them. To others they do not exist: the guard
 * decides about lists, too.
 */
@Injectable()
export class ProGuard implements CanActivate {
  constructor(private readonly accounts: Accounts) {}

  canActivate(context: ExecutionContext): boolean {
    const { user } = context.switchToHttp().getRequest<TenantRequest>();
    return user !== undefined && this.accounts.planOf(user.tenant) === 'pro';
  }
}
