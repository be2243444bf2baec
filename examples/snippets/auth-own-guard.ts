import {
  type CanActivate,
  type ExecutionContext,
  Inject,
  Injectable,
  Module,
  SetMetadata,
  UnauthorizedException,
} from '@nestjs/common';
import { APP_GUARD, Reflector } from '@nestjs/core';
import { McpExecutionContext, McpStreamableModule } from 'nestjs-mcp-streamable';

export const Public = () => SetMetadata('isPublic', true);

// #region guard
/**
 * This guard of the app accepts only callers who have logged in to the app. It skips public
 * routes, as in Nest's documentation.
 */
@Injectable()
export class AuthGuard implements CanActivate {
  constructor(@Inject(Reflector) private readonly reflector: Reflector) {}

  canActivate(context: ExecutionContext): boolean {
    if (
      this.reflector.getAllAndOverride('isPublic', [
        context.getHandler(),
        context.getClass(),
      ])
    )
      return true;
    // This is a call of a handler: the endpoint has verified the token of its caller.
    if (McpExecutionContext.isMcp(context)) return true;
    const { headers } = context
      .switchToHttp()
      .getRequest<{ headers: { cookie?: string } }>();
    if (headers.cookie !== 'login=ann') throw new UnauthorizedException();
    return true;
  }
}
// #endregion

// #region public
const endpoint = McpStreamableModule.forRoot({
  serverInfo: { name: 'notes', version: '1.0.0' },
  decorators: [Public()], // the decorator that your guard looks for
  auth: {
    resource: 'https://api.example.com/mcp',
    authorizationServers: ['https://idp.example.com/'],
  },
});
// #endregion

@Module({ imports: [endpoint], providers: [{ provide: APP_GUARD, useClass: AuthGuard }] })
export class AppModule {}
