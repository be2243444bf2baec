import {
  type CanActivate,
  createParamDecorator,
  type ExecutionContext,
  Injectable,
  UnauthorizedException,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { ThrottlerGuard } from '@nestjs/throttler';
import { AuthService, type Caller } from './auth.service.js';
import type { Role } from './user.entity.js';

export interface CrmRequest {
  readonly headers: { readonly authorization?: string };
  readonly ip: string;
  caller?: Caller;
}

/** A class or route that needs no token. */
export const Public = Reflector.createDecorator<void, true>({ transform: () => true });
/** Who may use a route, and see its tool; without it all users of all tenants may. */
export const Roles = Reflector.createDecorator<Role[]>();

const requestOf = (context: ExecutionContext): CrmRequest =>
  context.switchToHttp().getRequest<CrmRequest>();
const targetsOf = (context: ExecutionContext) => [
  context.getHandler(),
  context.getClass(),
];

/** Before each route, before the endpoint, and before each tool. */
@Injectable()
export class JwtGuard implements CanActivate {
  constructor(
    private readonly auth: AuthService,
    private readonly reflector: Reflector,
  ) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    if (this.reflector.getAllAndOverride(Public, targetsOf(context))) return true;
    const request = requestOf(context);
    const [, token = ''] =
      /^Bearer (.+)$/i.exec(request.headers.authorization ?? '') ?? [];
    try {
      request.caller = await this.auth.callerOf(token);
      return true;
    } catch {
      throw new UnauthorizedException('Log in at POST /auth/login, and send the token.');
    }
  }
}

@Injectable()
export class RolesGuard implements CanActivate {
  constructor(private readonly reflector: Reflector) {}

  canActivate(context: ExecutionContext): boolean {
    const roles = this.reflector.getAllAndOverride(Roles, targetsOf(context));
    return !roles || roles.includes(requestOf(context).caller!.role);
  }
}

/** Counts by caller: all users of a client in the cloud share its addresses. */
@Injectable()
export class CallerThrottlerGuard extends ThrottlerGuard {
  protected override getTracker({ caller, ip }: CrmRequest): Promise<string> {
    return Promise.resolve(caller ? `${caller.tenant}|${caller.id}` : ip);
  }
}

/** Of the live page: a browser asks its user for name and password. */
@Injectable()
export class OperatorGuard implements CanActivate {
  constructor(private readonly auth: AuthService) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const [, basic = ''] =
      /^Basic (.+)$/i.exec(requestOf(context).headers.authorization ?? '') ?? [];
    const [, name = '', password = ''] =
      /^([^:]*):(.*)$/.exec(Buffer.from(basic, 'base64').toString()) ?? [];
    const caller = await this.auth.login(name, password);
    if (caller?.role === 'operator') return true;
    const response = context
      .switchToHttp()
      .getResponse<{ header(name: string, value: string): void }>();
    response.header('WWW-Authenticate', 'Basic realm="live"');
    throw new UnauthorizedException();
  }
}

export const CurrentCaller = createParamDecorator(
  (_: unknown, context: ExecutionContext) => requestOf(context).caller,
);
