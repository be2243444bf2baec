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
import { McpStreamableModule } from 'nestjs-mcp-streamable';

export const Public = () => SetMetadata('isPublic', true);

/** Of the app, as in Nest's documentation: wants a cookie, or a token that the app has made itself. */
@Injectable()
export class AuthGuard implements CanActivate {
  constructor(@Inject(Reflector) private readonly reflector: Reflector) {}

  canActivate(context: ExecutionContext): boolean {
    if (this.reflector.getAllAndOverride('isPublic', [context.getHandler(), context.getClass()])) return true;
    const { headers } = context.switchToHttp().getRequest<{ headers: { cookie?: string } }>();
    if (headers.cookie !== 'login=ann') throw new UnauthorizedException();
    return true;
  }
}

// #region public
const endpoint = McpStreamableModule.forRoot({
  serverInfo: { name: 'notes', version: '1.0.0' },
  decorators: [Public()], // as your guard knows it
  auth: {
    resource: 'https://api.example.com/mcp',
    authorizationServers: ['https://idp.example.com/'],
  },
});

@Injectable()
@Public() // the guard runs around handlers too
export class Handlers {}
// #endregion

@Module({ imports: [endpoint], providers: [Handlers, { provide: APP_GUARD, useClass: AuthGuard }] })
export class AppModule {}
