import { Injectable, UseGuards, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import {
  McpExecutionContext,
  McpRegistry,
  McpStreamableModule,
  Tool,
  type McpStreamableOptions,
} from 'nestjs-mcp-streamable';
import { afterEach, describe, expect, it } from 'vitest';
import { ADAPTERS } from '../support/app.js';
import { NestApp, serverInfo } from '../support/nest-app.js';

const userOf = (context: ExecutionContext) =>
  context.switchToHttp().getRequest<{ headers: Record<string, string> }>().headers['x-user'];

/** Global: lets nobody but the owner call what is called secret. */
@Injectable()
class SecretsGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    if (!McpExecutionContext.isMcp(context)) return true;
    return McpExecutionContext.create(context).getName() !== 'secret' || userOf(context) === 'owner';
  }
}

@Injectable()
class OwnerGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    return userOf(context) === 'owner';
  }
}

@Injectable()
class Tools {
  @Tool({ name: 'open' })
  open(): string {
    return 'open';
  }
  @Tool({ name: 'secret' })
  secret(): string {
    return 'secret';
  }
  @Tool({ name: 'owned' })
  @UseGuards(OwnerGuard)
  owned(): string {
    return 'owned';
  }
}

describe.each(ADAPTERS)('what lists show on %s', (adapter) => {
  let app: NestApp;
  afterEach(() => app.close());

  const start = async (options: Partial<McpStreamableOptions>): Promise<void> => {
    const imports = [McpStreamableModule.forRoot({ serverInfo, ...options })];
    const providers = [Tools, { provide: APP_GUARD, useClass: SecretsGuard }];
    app = await NestApp.start(adapter, { imports, providers });
  };
  const toolsOf = async (user: string): Promise<string[]> => {
    const client = await app.client('mcp', { 'x-user': user }).initialize();
    const response = await client.post({ jsonrpc: '2.0', id: 9, method: 'tools/list' });
    return ((await response.json()).result.tools as { name: string }[]).map(({ name }) => name);
  };

  it('is decided by the guards of class and method', async () => {
    await start({});
    expect(await toolsOf('owner')).toEqual(['open', 'secret', 'owned']);
    expect(await toolsOf('other')).toEqual(['open', 'secret']);
  });

  it('is decided by global guards that the option "listGuards" names', async () => {
    await start({ listGuards: [SecretsGuard] });
    expect(await toolsOf('owner')).toEqual(['open', 'secret', 'owned']);
    expect(await toolsOf('other')).toEqual(['open']);
    const registry = app.app.get(McpRegistry, { strict: false });
    expect(registry.list('tool').map(({ key, guarded }) => [key, guarded])).toEqual([
      ['open', true],
      ['secret', true],
      ['owned', true],
    ]);
  });
});
