import {
  type CanActivate,
  Controller,
  type ExecutionContext,
  Get,
  type INestApplication,
  Query,
  UnauthorizedException,
} from '@nestjs/common';
import { Tool } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { ADAPTERS } from '../support/app.js';
import { send } from '../support/http.js';
import { askOfficially, KINDS } from '../support/kinds.js';
import { officialClients, testApps } from '../support/test-apps.js';
import { fourOf } from './four.js';

interface HttpRequest {
  headers: Record<string, string | undefined>;
  user?: { readonly sub: string };
}

/** What `GqlExecutionContext.create(context).getContext()` of @nestjs/graphql 14 returns. */
function contextOfGraphQL(context: ExecutionContext): { req?: HttpRequest; request?: HttpRequest } {
  const args = context.getArgs();
  // Three arguments are those of a resolver of references, which has no arguments of its own.
  return args.length === 3 ? args[1] : args[2];
}

@Controller('orders')
class Orders {
  @Get()
  @Tool({ name: 'orders' })
  orders(@Query('owner') owner: string): object {
    return { owner };
  }
}

describe.each(ADAPTERS)('a global guard that is written for GraphQL, on %s,', (adapter) => {
  const guard: CanActivate = {
    canActivate(context) {
      const { req, request = req! } = contextOfGraphQL(context);
      const { 'x-user': sub } = request.headers;
      if (sub === undefined) throw new UnauthorizedException();
      request.user = { sub };
      return true;
    },
  };
  const start = testApps(adapter, {
    shared: true,
    providers: [fourOf('handler', { run: ({ request }) => (request as HttpRequest).user?.sub })],
    module: { controllers: [Orders] },
    configure: (app: INestApplication) => void app.useGlobalGuards(guard),
  });
  const connect = officialClients();
  const headers = { 'x-user': 'anna' };

  it('a global guard that is written for GraphQL finds the request of a route', async () => {
    const { base } = await start();
    const [answered, refused] = await Promise.all([
      send(`${base}/orders?owner=bob`, { method: 'GET', headers }),
      send(`${base}/orders?owner=bob`, { method: 'GET' }),
    ]);
    expect([answered.status, refused.status]).toEqual([200, 401]);
    for (const response of [answered, refused]) await response.text();
  });

  it.each(KINDS)('a global guard that is written for GraphQL finds the request of a handler (%s)', async (kind) => {
    const client = await connect(await start(), headers);
    expect(await askOfficially(client, kind, 'handler')).toBe('anna');
  });

  it('a global guard that is written for GraphQL finds the request of a route as a tool', async () => {
    const client = await connect(await start(), headers);
    const { structuredContent } = await client.callTool({ name: 'orders', arguments: { owner: 'bob' } });
    expect(structuredContent).toEqual({ owner: 'bob' });
  });
});
