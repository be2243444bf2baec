import {
  type CanActivate,
  type ExecutionContext,
  Inject,
  Injectable,
  Module,
  UnauthorizedException,
} from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import type { AuthInfo } from 'nestjs-mcp-streamable/auth';
import { ApiKeys, ApiKeyTable } from './api-keys.js';
import { InvoiceTools } from './invoice-tools.js';

// #region guard
interface KeyRequest {
  headers: { authorization?: string };
  user?: { id: string };
  auth?: AuthInfo;
}

@Injectable()
export class ApiKeyGuard implements CanActivate {
  constructor(@Inject(ApiKeys) private readonly keys: ApiKeys) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const request = context.switchToHttp().getRequest<KeyRequest>();
    const [, key = ''] = /^Bearer (.+)$/i.exec(request.headers.authorization ?? '') ?? [];
    const row = await this.keys.find(key);
    if (!row)
      throw new UnauthorizedException(
        'This server needs an API key: Authorization: Bearer acme_…',
      );
    request.user = { id: row.owner };
    // For @RequireScopes(). The token is the id here, so that the key is not in logs.
    request.auth = { token: row.id, clientId: `key ${row.id}`, scopes: [...row.scopes] };
    return true;
  }
}
// #endregion

@Module({ providers: [ApiKeys, ApiKeyTable], exports: [ApiKeys] })
export class ApiKeysModule {}

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'invoices', version: '1.0.0' },
      imports: [ApiKeysModule],
      guards: [ApiKeyGuard],
    }),
  ],
  providers: [InvoiceTools],
})
export class AppModule {}
