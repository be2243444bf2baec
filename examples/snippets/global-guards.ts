// #region public
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
import { SkipThrottle, ThrottlerGuard, ThrottlerModule } from '@nestjs/throttler';
import { McpExecutionContext, McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { TokenGuard } from './token.guard.js';
import { UsersModule } from './guarded-app.js';

const IS_PUBLIC = Symbol('is public');
export const Public = () => SetMetadata(IS_PUBLIC, true);

/** This guard protects the pages of the app. */
@Injectable()
export class LoginGuard implements CanActivate {
  constructor(@Inject(Reflector) private readonly reflector: Reflector) {}

  canActivate(context: ExecutionContext): boolean {
    const isPublic = this.reflector.getAllAndOverride<boolean>(IS_PUBLIC, [
      context.getHandler(),
      context.getClass(),
    ]);
    // Around a handler: the guards of the endpoint have already let the caller in.
    if (isPublic || McpExecutionContext.isMcp(context)) return true;
    const { headers } = context
      .switchToHttp()
      .getRequest<{ headers: { cookie?: string } }>();
    if (headers.cookie !== 'login=ann') throw new UnauthorizedException();
    return true;
  }
}
// #endregion

// #region throttler
/**
 * Counts the calls of each caller. The guards of the endpoint have set `user` before a
 * handler is called.
 */
@Injectable()
export class CallerThrottlerGuard extends ThrottlerGuard {
  protected override getTracker({
    user,
    ip,
  }: {
    user?: { id: string };
    ip: string;
  }): Promise<string> {
    return Promise.resolve(user?.id ?? ip);
  }
}
// #endregion

// #region module
@Injectable()
export class ShopTools {
  @Tool({ name: 'opening_hours', description: 'Says when the shop is open' })
  hours(): string {
    return '9 to 5';
  }
}

@Module({
  imports: [
    ThrottlerModule.forRoot([{ ttl: 60_000, limit: 5 }]),
    McpStreamableModule.forRoot({
      serverInfo: { name: 'shop', version: '1.0.0' },
      decorators: [Public(), SkipThrottle()],
      imports: [UsersModule],
      guards: [TokenGuard],
    }),
  ],
  providers: [
    ShopTools,
    { provide: APP_GUARD, useClass: LoginGuard },
    { provide: APP_GUARD, useClass: CallerThrottlerGuard },
  ],
})
export class AppModule {}
// #endregion
