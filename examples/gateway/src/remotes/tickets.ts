import 'reflect-metadata';
import { type CanActivate, type ExecutionContext, Injectable, Module, UnauthorizedException } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { McpArgs, type McpContext, McpCtx, McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { redisBackend } from 'nestjs-mcp-streamable/redis';
import { z } from 'zod';

const { PORT, REDIS_URL } = process.env;
const ACCOUNTS = new Map([
  ['Bearer token of ann', 'ann@tickets'],
  ['Bearer token of gus', 'gus@tickets'],
]);

interface AccountRequest {
  readonly headers: Readonly<Record<string, string | undefined>>;
  account?: string | undefined;
}

/** Lets the accounts of the ticket system in, by their tokens. */
@Injectable()
class AccountGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<AccountRequest>();
    request.account = ACCOUNTS.get(request.headers['authorization'] ?? '');
    if (request.account) return true;
    throw new UnauthorizedException();
  }
}

@Injectable()
class Tickets {
  @Tool({ name: 'list', description: 'Lists your tickets', annotations: { readOnlyHint: true } })
  list(@McpCtx() ctx: McpContext): string {
    return `T-1 of ${ctx.principal} is open.`;
  }

  @Tool({
    name: 'close',
    description: 'Closes a ticket for good',
    inputSchema: z.object({ id: z.string() }),
    annotations: { destructiveHint: true },
  })
  async close(@McpArgs() { id }: { id: string }, @McpCtx() ctx: McpContext): Promise<string> {
    const requestedSchema = z.object({ why: z.string() });
    const answer = await ctx.elicit('why', { message: `Why is ${id} done?`, requestedSchema });
    return answer.action === 'accept' ? `Closed ${id}: ${answer.content.why}` : `${id} stays open.`;
  }
}

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'tickets', version: '1.0.0' },
      guards: [AccountGuard],
      principal: (request: unknown) => (request as AccountRequest).account,
      // Sessions survive a restart of this server: the gateway goes on with them.
      ...(REDIS_URL && { backend: redisBackend(REDIS_URL), requestStateKeys: ['of all nodes of the ticket system'] }),
    }),
  ],
  providers: [Tickets, AccountGuard],
})
class TicketsModule {}

const app = await NestFactory.create(TicketsModule, { logger: ['error', 'warn'], forceCloseConnections: true });
app.enableShutdownHooks();
await app.listen(Number(PORT), '127.0.0.1');
