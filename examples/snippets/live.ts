import {
  type CanActivate,
  type ExecutionContext,
  Inject,
  Injectable,
  Module,
} from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpLiveModule } from 'nestjs-mcp-streamable/live';

export abstract class Logins {
  abstract userOf(cookie: string | undefined): { roles: string[] } | undefined;
}

// #region guarded
@Injectable()
export class OperatorGuard implements CanActivate {
  constructor(@Inject(Logins) private readonly logins: Logins) {}

  canActivate(context: ExecutionContext): boolean {
    const { headers } = context
      .switchToHttp()
      .getRequest<{ headers: { cookie?: string } }>();
    return this.logins.userOf(headers.cookie)?.roles.includes('operator') ?? false;
  }
}

@Module({
  providers: [{ provide: Logins, useValue: { userOf: () => undefined } }],
  exports: [Logins],
})
export class LoginsModule {}

@Module({
  imports: [
    McpStreamableModule.forRoot({ serverInfo: { name: 'orders', version: '1.0.0' } }),
    McpLiveModule.forRoot({ guards: [OperatorGuard], imports: [LoginsModule] }),
  ],
})
export class OrdersModule {}
// #endregion

// #region loopback
@Module({
  imports: [
    McpStreamableModule.forRoot({ serverInfo: { name: 'orders', version: '1.0.0' } }),
    McpLiveModule.forRoot({ unguarded: 'loopback' }),
  ],
})
export class DevelopmentModule {}
// #endregion
