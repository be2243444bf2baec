import { Inject, Injectable, UnauthorizedException, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { Reflector } from '@nestjs/core';

export const Roles = Reflector.createDecorator<string[]>();

/**
 * As any app has it, and nothing of MCP in it: the role of a caller is in the token, `as('anna', 'admin')`. It looks for
 * the role in some other place first, so that calls overtake each other.
 */
@Injectable()
export class RolesGuard implements CanActivate {
  constructor(@Inject(Reflector) private readonly reflector: Reflector) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const roles = this.reflector.getAllAndOverride(Roles, [context.getHandler(), context.getClass()]);
    const http = context.switchToHttp();
    const { user } = http.getRequest();
    for (let turn = Math.floor(Math.random() * 4); turn > 0; turn--) await new Promise(setImmediate);
    if (user) return roles.includes(user.token);
    http.getResponse().header('WWW-Authenticate', 'Bearer realm="shop"');
    throw new UnauthorizedException('Who are you?');
  }
}
