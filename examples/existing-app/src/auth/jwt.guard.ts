import {
  type CanActivate,
  createParamDecorator,
  type ExecutionContext,
  Injectable,
  UnauthorizedException,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { JwtService } from '@nestjs/jwt';

/** A class or route that needs no login. */
export const Public = Reflector.createDecorator<void, true>({ transform: () => true });

export interface User {
  readonly id: string;
  readonly name: string;
}

/**
 * Nothing in it is about MCP. It runs before the endpoint, whose class and method have no decorators of yours, and once more
 * before each tool, whose class and method may have some.
 */
@Injectable()
export class JwtGuard implements CanActivate {
  constructor(
    private readonly jwt: JwtService,
    private readonly reflector: Reflector,
  ) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    if (this.reflector.getAllAndOverride(Public, [context.getHandler(), context.getClass()])) return true;
    const request = context.switchToHttp().getRequest<{ headers: { authorization?: string }; user?: User }>();
    const [, token = ''] = /^Bearer (.+)$/i.exec(request.headers.authorization ?? '') ?? [];
    try {
      const { sub: id, name } = await this.jwt.verifyAsync<{ sub: string; name: string }>(token);
      request.user = { id, name };
      return true;
    } catch {
      throw new UnauthorizedException('Log in at POST /api/v1/auth/login, and send the token.');
    }
  }
}

/** The user of a request, in routes and in tools. */
export const CurrentUser = createParamDecorator(
  (_: unknown, context: ExecutionContext) => context.switchToHttp().getRequest<{ user: User }>().user,
);
