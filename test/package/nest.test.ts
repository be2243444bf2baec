import 'reflect-metadata';
import { deepEqual, equal, match } from 'node:assert/strict';
import { test } from 'node:test';
import {
  type CanActivate,
  Controller,
  type ExecutionContext,
  Get,
  Inject,
  Injectable,
  Module,
  Param,
  ParseIntPipe,
  type Provider,
  Scope,
  type Type,
  UseGuards,
} from '@nestjs/common';
import { APP_GUARD, ContextIdFactory, NestFactory, REQUEST } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { McpStreamableModule, Tool, Tools } from 'nestjs-mcp-streamable';
import { createMcpTestClient } from 'nestjs-mcp-streamable/testing';

/** What depends on the version of Nest: a guard is asked, or the start fails with the version that asks it. */

class Callers {
  readonly denied = 'bert';
}

/** Denies calls of tools: the route of the endpoint is let through. */
abstract class CallerGuard implements CanActivate {
  constructor(@Inject(Callers) private readonly callers: Callers) {}
  canActivate(context: ExecutionContext): boolean {
    if (!/Tool|Orders/.test(context.getClass().name)) return true;
    const request = context.switchToHttp().getRequest<{ headers: Record<string, string> }>();
    return request.headers['x-caller'] !== this.callers.denied;
  }
}
@Injectable()
class StaticGuard extends CallerGuard {}
@Injectable({ scope: Scope.REQUEST })
class RequestGuard extends CallerGuard {}
@Injectable({ scope: Scope.TRANSIENT })
class TransientGuard extends CallerGuard {}

@Injectable()
class PlainTool {
  @Tool({ name: 'run', description: 'Runs' })
  run(): string {
    return 'ran';
  }
}
@Injectable()
class TransientlyGuardedTool {
  @Tool({ name: 'run', description: 'Runs' })
  @UseGuards(TransientGuard)
  run(): string {
    return 'ran';
  }
}
@Controller('orders')
@UseGuards(StaticGuard, RequestGuard)
@Tools()
class OrdersController {
  @Get(':id')
  @Tool({ name: 'run', description: 'Finds an order' })
  find(@Param('id', ParseIntPipe) id: number): string {
    return `ran ${id}`;
  }
}
@Controller('orders')
@Tools()
class TransientlyGuardedOrders {
  @Get()
  @Tool({ name: 'run', description: 'Lists orders' })
  @UseGuards(TransientGuard)
  list(): string {
    return 'ran';
  }
}

/** @returns what anna and bert get, or why the app does not start */
async function outcome(providers: Provider[], controllers: Type[] = [], args = {}): Promise<string[]> {
  @Module({
    imports: [McpStreamableModule.forRoot({ serverInfo: { name: 'consumer', version: '1.0.0' } })],
    providers: [Callers, ...providers],
    controllers,
  })
  class AppModule {}
  const app = await NestFactory.create(AppModule, new FastifyAdapter(), { logger: false, abortOnError: false });
  try {
    await app.init();
    const said: string[] = [];
    for (const caller of ['anna', 'bert']) {
      const mcp = await createMcpTestClient(app, { headers: { 'x-caller': caller } });
      said.push(
        await mcp.callTool('run', args).then(
          ({ text }) => text,
          (error: Error) => error.message,
        ),
      );
      await mcp.close();
    }
    return said;
  } catch (error) {
    return [(error as Error).message];
  } finally {
    await app.close().catch(() => {});
  }
}

const REFUSED = /not found|Forbidden/;
const UPDATE = /^The MCP handler .* cannot be served: Nest .* Update Nest to 1[12]\.\d+\.\d+\.$/;

function assertGuarded(said: string[], ran = 'ran'): void {
  equal(said[0], ran);
  match(said[1]!, REFUSED);
}
function assertGuardedOrRefused(said: string[]): void {
  if (said.length === 1) match(said[0]!, UPDATE);
  else assertGuarded(said);
}

void test('guards of a controller are asked about its tools', async () => {
  assertGuarded(await outcome([], [OrdersController], { id: 7 }), 'ran 7');
});

void test('a request-scoped guard of the app is asked about tools', async () => {
  const guard = { provide: APP_GUARD, useClass: RequestGuard, scope: Scope.REQUEST };
  assertGuarded(await outcome([PlainTool, guard]));
  assertGuarded(await outcome([guard], [OrdersController], { id: 7 }), 'ran 7');
});

const TRANSIENT: [string, Provider[], Type[]?][] = [
  ['of a tool', [TransientlyGuardedTool]],
  ['of a route', [], [TransientlyGuardedOrders]],
  ['of the app', [PlainTool, { provide: APP_GUARD, useClass: TransientGuard, scope: Scope.TRANSIENT }]],
  ['of the app, given by useExisting', [PlainTool, RequestGuard, { provide: APP_GUARD, useExisting: RequestGuard }]],
];
for (const [what, providers, controllers] of TRANSIENT) {
  void test(`a guard ${what} that Nest makes anew is asked, or the start names the version that asks it`, async () => {
    assertGuardedOrRefused(await outcome(providers, controllers));
  });
}

void test('a durable provider gets what the strategy says, or the start names the version', async () => {
  @Injectable({ scope: Scope.REQUEST, durable: true })
  class TenantTool {
    constructor(@Inject(REQUEST) private readonly payload: object) {}
    @Tool({ name: 'run', description: 'Names the tenant' })
    run(): string {
      return Object.keys(this.payload).join();
    }
  }
  const tenant = ContextIdFactory.create();
  ContextIdFactory.apply({
    attach: (own) => ({ resolve: ({ isTreeDurable }) => (isTreeDurable ? tenant : own), payload: { tenant: 'north' } }),
  });
  const said = await outcome([TenantTool]);
  if (said.length === 1) match(said[0]!, UPDATE);
  else deepEqual(said, ['tenant', 'tenant']);
});
