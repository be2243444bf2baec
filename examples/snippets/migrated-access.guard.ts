// #region access
import {
  type CanActivate,
  type ExecutionContext,
  Inject,
  Injectable,
  SetMetadata,
  UnauthorizedException,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';

const PUBLIC = 'public';
const SCOPES = 'scopes';

export const PublicTool = (): MethodDecorator => SetMetadata(PUBLIC, true);
export const ToolScopes = (scopes: string[]): MethodDecorator =>
  SetMetadata(SCOPES, scopes);

@Injectable()
export class AccessGuard implements CanActivate {
  constructor(@Inject(Reflector) private readonly reflector: Reflector) {}

  canActivate(context: ExecutionContext): boolean {
    if (this.reflector.get(PUBLIC, context.getHandler())) return true;
    const { user } = context.switchToHttp().getRequest<{ user?: { scope?: string } }>();
    if (!user) throw new UnauthorizedException();
    const needed =
      this.reflector.get<string[] | undefined>(SCOPES, context.getHandler()) ?? [];
    const held = user.scope?.split(' ') ?? [];
    return needed.every((scope) => held.includes(scope));
  }
}
// #endregion
