import {
  type CanActivate,
  Catch,
  Controller,
  type ExceptionFilter,
  type ExecutionContext,
  Get,
  Inject,
  Injectable,
  type NestInterceptor,
  type PipeTransform,
  Query,
  Scope,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
} from '@nestjs/common';
import { type ContextId, ContextIdFactory, type ContextIdStrategy, ModuleRef, REQUEST } from '@nestjs/core';
import { Complete, McpCtx, McpExecutionContext, Prompt, Tool, type McpContext } from 'nestjs-mcp-streamable';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ADAPTERS } from '../support/app.js';
import { asking, KINDS, messageOf, page, resultText } from '../support/kinds.js';
import type { RawClient } from '../support/raw-client.js';
import { testApps } from '../support/test-apps.js';
import { fourOf } from './four.js';

type Headers = Record<string, string | undefined>;

interface HttpRequest {
  headers: Headers;
  query: Headers;
}

@Injectable({ scope: Scope.REQUEST })
class Tenant {
  static made = 0;
  readonly serial = ++Tenant.made;
  readonly notes: string[] = [];
  constructor(@Inject(REQUEST) readonly request: HttpRequest) {}
}

/** Each tenant has one, which all its requests share. */
@Injectable({ scope: Scope.REQUEST, durable: true })
class Connection {
  readonly notes: string[] = [];
  constructor(@Inject(REQUEST) readonly payload: { tenant: string }) {}
}

const requestOf = (context: ExecutionContext): HttpRequest => context.switchToHttp().getRequest<HttpRequest>();

/** Finds the providers of a request as Nest's documentation does. */
@Injectable()
class Tenants {
  constructor(@Inject(ModuleRef) private readonly modules: ModuleRef) {}

  of(request: object): Promise<Tenant> {
    return this.modules.resolve(Tenant, ContextIdFactory.getByRequest(request), { strict: false });
  }

  connection(request: object): Promise<Connection> {
    return this.modules.resolve(Connection, ContextIdFactory.getByRequest(request), { strict: false });
  }
}

@Injectable()
class NotingGuard implements CanActivate {
  constructor(@Inject(Tenants) private readonly tenants: Tenants) {}
  async canActivate(context: ExecutionContext): Promise<boolean> {
    (await this.tenants.of(requestOf(context))).notes.push('guard');
    return true;
  }
}

@Injectable()
class NotingInterceptor implements NestInterceptor {
  constructor(@Inject(Tenants) private readonly tenants: Tenants) {}
  async intercept(context: ExecutionContext, next: { handle(): never }): Promise<never> {
    (await this.tenants.of(requestOf(context))).notes.push('interceptor');
    return next.handle();
  }
}

@Injectable({ scope: Scope.REQUEST })
class NotingPipe implements PipeTransform {
  constructor(
    @Inject(Tenants) private readonly tenants: Tenants,
    @Inject(REQUEST) private readonly request: HttpRequest,
  ) {}
  async transform(value: unknown): Promise<unknown> {
    (await this.tenants.of(this.request)).notes.push('pipe');
    return value;
  }
}

/** Answers with what the handler has noted. */
@Catch()
@Injectable()
class NotingFilter implements ExceptionFilter {
  constructor(@Inject(Tenants) private readonly tenants: Tenants) {}
  async catch(_error: unknown, host: ExecutionContext): Promise<string> {
    return (await this.tenants.of(requestOf(host))).notes.join(', ');
  }
}

/** A guard of the endpoint that knows nothing of handlers. */
@Injectable()
class GuardOfEndpoint implements CanActivate {
  constructor(@Inject(ModuleRef) private readonly modules: ModuleRef) {}
  async canActivate(context: ExecutionContext): Promise<boolean> {
    const request = requestOf(context);
    if (!('x-endpoint' in request.headers)) return true;
    const tenants = this.modules.get(Tenants, { strict: false });
    (await tenants.of(request)).notes.push('guard of the endpoint');
    return true;
  }
}

const scoped = (self: object): Tenant => (self as { tenant: Tenant }).tenant;
const told = ({ notes, serial, request }: Tenant, context: McpContext): string =>
  JSON.stringify({ notes, serial, same: request === context.request });

/** All that Nest puts around a handler. */
const AROUND = [UseGuards(NotingGuard), UseInterceptors(NotingInterceptor), UsePipes(NotingPipe)];

@Injectable()
class Surrounded extends fourOf('surrounded', {
  onMethods: AROUND,
  run: (context, _args, self) => told(scoped(self), context),
}) {
  constructor(@Inject(Tenant) readonly tenant: Tenant) {
    super();
  }
}

@Injectable()
class Failing extends fourOf('failing', {
  onMethods: [UseFilters(NotingFilter)],
  run(_context, _args, self) {
    scoped(self).notes.push('handler');
    throw new Error('It fails.');
  },
}) {
  constructor(@Inject(Tenant) readonly tenant: Tenant) {
    super();
  }
}

/** A static provider, which finds the tenant as its guard does. */
@Injectable()
class Asking extends fourOf('asking', {
  onMethods: [UseGuards(NotingGuard)],
  run: async (context, _args, self) => {
    const { tenants } = self as { tenants: Tenants };
    return told(await tenants.of(context.request as object), context);
  },
}) {
  constructor(@Inject(Tenants) readonly tenants: Tenants) {
    super();
  }
}

@Injectable({ scope: Scope.REQUEST })
class OnlyNoted implements CanActivate {
  constructor(@Inject(Tenant) private readonly tenant: Tenant) {}
  canActivate(): boolean {
    return this.tenant.notes.includes('guard');
  }
}
const Listed = fourOf('listed', { onMethods: [UseGuards(NotingGuard, OnlyNoted)] });

@Injectable()
class Completing {
  constructor(@Inject(Tenant) private readonly tenant: Tenant) {}
  @Prompt({ name: 'completing', arguments: [{ name: 'who' }] })
  completing(): string {
    return 'completed';
  }
  @UseGuards(NotingGuard)
  @Complete({ prompt: 'completing', argument: 'who' })
  who(): string[] {
    return this.tenant.notes;
  }
}

/** A guard that reads which tenant the route is asked about. */
@Injectable()
class OwnerGuard implements CanActivate {
  constructor(@Inject(Tenants) private readonly tenants: Tenants) {}
  async canActivate(context: ExecutionContext): Promise<boolean> {
    const request = requestOf(context);
    const tenant = await this.tenants.of(request);
    tenant.notes.push(McpExecutionContext.isMcp(context) ? `guard of ${request.query['owner']}` : 'guard of a route');
    return tenant.request === request;
  }
}

@Injectable()
class ConnectionGuard implements CanActivate {
  constructor(@Inject(Tenants) private readonly tenants: Tenants) {}
  async canActivate(context: ExecutionContext): Promise<boolean> {
    const { payload, notes } = await this.tenants.connection(requestOf(context));
    return notes.push(`guard of ${payload.tenant}`) > 0;
  }
}

@Controller('orders')
@UseGuards(OwnerGuard)
class Orders {
  constructor(
    @Inject(Tenant) private readonly tenant: Tenant,
    @Inject(Connection) private readonly connection: Connection,
  ) {}
  @Get()
  @Tool({ name: 'orders' })
  orders(@Query('owner') owner: string): object {
    return { owner, notes: this.tenant.notes };
  }
  @Get('durable')
  @UseGuards(ConnectionGuard)
  @Tool({ name: 'durable' })
  durable(@Query('tenant') tenant: string): object {
    return { tenant, payload: this.connection.payload, notes: this.connection.notes };
  }
}

@Controller('shown')
class Shown {
  @Get()
  @UseGuards(NotingGuard, OnlyNoted)
  @Tool({ name: 'shown' })
  shown(@Query('owner') owner: string, @McpCtx() _context?: McpContext): string {
    return owner;
  }
}

/** The strategy of Nest's documentation, by the query of the request: that of a view is not that of the POST. */
class ByTenant implements ContextIdStrategy {
  readonly #tenants = new Map<string, ContextId>();
  attach(contextId: ContextId, request: HttpRequest) {
    const tenant = request.query['tenant'] ?? 'none';
    const ofTenant = this.#tenants.get(tenant) ?? ContextIdFactory.create();
    this.#tenants.set(tenant, ofTenant);
    return {
      resolve: ({ isTreeDurable }: { isTreeDurable: boolean }) => (isTreeDurable ? ofTenant : contextId),
      payload: { tenant },
    };
  }
}

describe.each(ADAPTERS)('the DI context of a request, on %s,', (adapter) => {
  const start = testApps(adapter, {
    shared: true,
    guards: [GuardOfEndpoint],
    providers: [Tenant, Connection, Tenants, Surrounded, Failing, Asking, Listed, Completing],
    module: { controllers: [Orders, Shown] },
  });
  beforeEach(() => {
    Tenant.made = 0;
  });
  afterEach(() => ContextIdFactory.apply(undefined as never));

  const initialized = async (revision?: string): Promise<RawClient> => (await start()).client().initialize(revision);
  const textOf = async (response: Awaited<ReturnType<RawClient['post']>>): Promise<string> => {
    const { result, error } = await response.json();
    if (!result) throw new Error(JSON.stringify(error));
    return resultText(result);
  };
  const ENDPOINT = { 'x-endpoint': 'yes' };

  it.each(KINDS)(
    'guards, interceptors and pipes find the request-scoped provider that the handler has (%s)',
    async (kind) => {
      const client = await initialized();
      const text = await textOf(await client.post(messageOf(client, kind, 'surrounded'), ENDPOINT));
      const notes = ['guard of the endpoint', 'guard', 'interceptor', 'pipe'];
      expect(JSON.parse(text)).toEqual({ notes, serial: 1, same: true });
    },
  );

  it.each(KINDS)('filters find the request-scoped provider that the handler has (%s)', async (kind) => {
    const client = await initialized();
    expect(await textOf(await client.post(messageOf(client, kind, 'failing')))).toBe('handler');
  });

  it.each(KINDS)(
    'a handler of a static provider finds the request-scoped provider that its guards have found (%s)',
    async (kind) => {
      const app = await start();
      const { method, params } = asking(kind, 'asking');
      const { result } = await app.modern().ask(method, params, { headers: ENDPOINT });
      expect(JSON.parse(resultText(result))).toEqual({
        notes: ['guard of the endpoint', 'guard'],
        serial: 1,
        same: true,
      });
    },
  );

  it('the calls of a batch share request-scoped providers that are found by the request', async () => {
    const client = await initialized('2025-03-26');
    const batch = KINDS.map((kind) => messageOf(client, kind, 'asking'));
    const answers = (await (await client.post(batch)).json()) as { result: object }[];
    expect(answers.map(({ result }) => JSON.parse(resultText(result)).serial)).toEqual([1, 1, 1, 1]);
  });

  it('the guards of a completion find the request-scoped provider that it has', async () => {
    const client = await initialized();
    const params = { ref: { type: 'ref/prompt', name: 'completing' }, argument: { name: 'who', value: '' } };
    const message = { jsonrpc: '2.0', id: client.nextId(), method: 'completion/complete', params };
    const { result } = await (await client.post(message)).json();
    expect(result.completion.values).toEqual(['guard']);
  });

  it.each(KINDS)('the guards of a list find the request-scoped provider that the next guard has (%s)', async (kind) => {
    const { names } = await page(await initialized(), kind);
    expect(names.filter((name) => /^(?:listed|shown)/.test(name))).toHaveLength(kind === 'tool' ? 2 : 1);
  });

  it('each call of a route as a tool has request-scoped providers of its own, in which nothing of the POST is', async () => {
    const client = await initialized('2025-03-26');
    const batch = ['ann', 'bob'].map((owner) => client.toolCall('orders', { owner }));
    const answers = (await (await client.post(batch, ENDPOINT)).json()) as { result: { structuredContent: object } }[];
    const told = answers.map(({ result }) => result.structuredContent);
    for (const owner of ['ann', 'bob']) expect(told).toContainEqual({ owner, notes: [`guard of ${owner}`] });
  });

  it('the guards of a route as a tool find the durable provider of the tenant that its view names', async () => {
    ContextIdFactory.apply(new ByTenant());
    const client = await initialized();
    const ask = async (tenant: string) => (await (await client.call('durable', { tenant })).json()).result;
    const notes = ['guard of north'];
    expect(await ask('north')).toMatchObject({ structuredContent: { payload: { tenant: 'north' }, notes } });
    expect(await ask('south')).toMatchObject({ structuredContent: { payload: { tenant: 'south' } } });
    expect(await ask('north')).toMatchObject({ structuredContent: { notes: [...notes, ...notes] } });
  });
});
