import {
  Controller,
  Get,
  type INestApplication,
  Injectable,
  type MiddlewareConsumer,
  type ModuleMetadata,
  type NestMiddleware,
  Param,
  Post,
  Query,
  RequestMethod,
  type Type,
  VersioningType,
} from '@nestjs/common';
import { RouterModule } from '@nestjs/core';
import {
  McpHandlerDefinitionError,
  McpHandlers,
  McpStreamableModule,
  type McpStreamableModuleOptions,
  Prompt,
  Tool,
  Tools,
} from 'nestjs-mcp-streamable';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Adapter, ADAPTERS, ONE_ADAPTER, sampled } from '../support/adapters.js';
import { serverInfo, startFailure, TestApp } from '../support/app.js';

type Next = () => void;

/** The requests that middleware ran for. */
let ran: string[];

@Injectable()
class Auth implements NestMiddleware {
  use({ method }: { method: string }, _response: unknown, next: Next): void {
    ran.push(method);
    next();
  }
}

function checksKey({ method }: { method: string }, _response: unknown, next: Next): void {
  ran.push(method);
  next();
}
const nameless = [(_request: unknown, _response: unknown, next: Next): void => next()];

@Controller('orders')
class Orders {
  @Get(':id')
  @Tool({ name: 'order' })
  one(@Param('id') id: string): string {
    return `order ${id}`;
  }
  @Post()
  add(): string {
    return 'added';
  }
}

@Controller('orders/archive')
class Archive {
  @Get()
  all(): string {
    return 'all';
  }
}

@Controller({ path: 'orders', version: '2' })
class OrdersOfTwo extends Orders {}

/** An app, and a request of its route. */
interface World {
  readonly configure: (consumer: MiddlewareConsumer) => unknown;
  readonly controllers?: Type[];
  readonly imports?: ModuleMetadata['imports'];
  readonly options?: Partial<McpStreamableModuleOptions>;
  readonly nest?: (app: INestApplication) => void;
  /** @default 'orders/7' */
  readonly route?: string;
  /** @default 'mcp' */
  readonly endpoint?: string;
}

class WebModule {
  static configured: World['configure'];
  configure(consumer: MiddlewareConsumer): unknown {
    return WebModule.configured(consumer);
  }
}

function moduleOf({ configure, controllers = [Orders], imports = [], options }: World): ModuleMetadata {
  WebModule.configured = configure;
  const endpoint = McpStreamableModule.forRoot({ serverInfo, ...options });
  return { imports: [{ module: WebModule, controllers }, endpoint, ...imports] };
}

const failureOf = (adapter: Adapter, world: World): Promise<Error> =>
  startFailure(adapter, () => moduleOf(world), world.nest);

const PREFIX = (app: INestApplication): unknown => app.setGlobalPrefix('api');
const VERSIONS = (app: INestApplication): unknown =>
  app.enableVersioning({ type: VersioningType.URI, defaultVersion: '1' });

/** Middleware that runs for the route, and not for calls of its tool. */
const PASSED_BY: Readonly<Record<string, World>> = {
  'for its controller': { configure: (consumer) => consumer.apply(Auth).forRoutes(Orders) },
  'that is a function': { configure: (consumer) => consumer.apply(checksKey).forRoutes(Orders) },
  'beside another that runs for all': {
    configure: (consumer) => consumer.apply(nameless[0]!).forRoutes('*').apply(Auth).forRoutes(Orders),
  },
  'for its path': { configure: (consumer) => consumer.apply(Auth).forRoutes('orders/:id') },
  'for paths below one': { configure: (consumer) => consumer.apply(Auth).forRoutes('orders/*path') },
  'for paths below one, in the syntax of older Express': {
    configure: (consumer) => consumer.apply(Auth).forRoutes('orders/*'),
  },
  'for paths that begin with a text': { configure: (consumer) => consumer.apply(Auth).forRoutes('or*path') },
  'for its path and method': {
    configure: (consumer) => consumer.apply(Auth).forRoutes({ path: 'orders/:id', method: RequestMethod.GET }),
  },
  'for its path and all methods': {
    configure: (consumer) => consumer.apply(Auth).forRoutes({ path: 'orders/:id', method: RequestMethod.ALL }),
  },
  'for some of its values': { configure: (consumer) => consumer.apply(Auth).forRoutes('orders/7') },
  'for all that is read': {
    configure: (consumer) => consumer.apply(Auth).forRoutes({ path: '*path', method: RequestMethod.GET }),
  },
  'for all but the endpoint': { configure: (consumer) => consumer.apply(Auth).exclude('mcp').forRoutes('*path') },
  'for all but what is posted to the endpoint': {
    configure: (consumer) =>
      consumer.apply(Auth).exclude({ path: 'mcp', method: RequestMethod.POST }).forRoutes('*path'),
  },
  'for all but another route': {
    configure: (consumer) => consumer.apply(Auth).exclude('orders/archive').forRoutes(Orders),
  },
  'for all but what is posted': {
    configure: (consumer) =>
      consumer.apply(Auth).exclude({ path: 'orders/:id', method: RequestMethod.POST }).forRoutes(Orders),
  },
  'that a module configures later': {
    configure: async (consumer) => {
      await Promise.resolve();
      consumer.apply(Auth).forRoutes(Orders);
    },
  },
  'below a global prefix': {
    configure: (consumer) => consumer.apply(Auth).forRoutes(Orders),
    nest: PREFIX,
    route: 'api/orders/7',
    endpoint: 'api/mcp',
  },
  'for all below a global prefix, where the endpoint is not': {
    configure: (consumer) => consumer.apply(Auth).exclude('mcp').forRoutes('*path'),
    nest: (app) => app.setGlobalPrefix('api', { exclude: ['mcp'] }),
    route: 'api/orders/7',
  },
  'of one version': {
    configure: (consumer) =>
      consumer.apply(Auth).forRoutes({ path: 'orders/:id', method: RequestMethod.GET, version: '2' }),
    controllers: [OrdersOfTwo],
    nest: VERSIONS,
    route: 'v2/orders/7',
  },
  'below the path of its module': {
    configure: (consumer) => consumer.apply(Auth).forRoutes(Orders),
    imports: [RouterModule.register([{ path: 'shop', module: WebModule }])],
    route: 'shop/orders/7',
  },
};

/** Middleware that a call does not bypass, or that is none of the route. */
const MET: Readonly<Record<string, World>> = {
  'for all routes': { configure: (consumer) => consumer.apply(Auth).forRoutes('*path') },
  'for all routes, in the syntax of older Express': { configure: (consumer) => consumer.apply(Auth).forRoutes('*') },
  'for all routes, also that without a path': { configure: (consumer) => consumer.apply(Auth).forRoutes('{*path}') },
  'for all routes and methods': {
    configure: (consumer) => consumer.apply(Auth).forRoutes({ path: '*path', method: RequestMethod.ALL }),
  },
  'for the route and the endpoint': { configure: (consumer) => consumer.apply(Auth).forRoutes(Orders, 'mcp') },
  'for the route and what is posted to the endpoint': {
    configure: (consumer) => consumer.apply(Auth).forRoutes(Orders, { path: 'mcp', method: RequestMethod.POST }),
  },
  'for the endpoint in another module': {
    configure: (consumer) => consumer.apply(Auth).forRoutes(Orders),
    imports: [
      class {
        configure(consumer: MiddlewareConsumer): void {
          consumer.apply(Auth).forRoutes('mcp');
        }
      },
    ],
  },
  'for the endpoint alone': { configure: (consumer) => consumer.apply(Auth).forRoutes('mcp') },
  'for paths that begin with another text': { configure: (consumer) => consumer.apply(Auth).forRoutes('us*path') },
  'for another path': { configure: (consumer) => consumer.apply(Auth).forRoutes('users') },
  'for another method': {
    configure: (consumer) => consumer.apply(Auth).forRoutes({ path: 'orders/:id', method: RequestMethod.PUT }),
  },
  'for another route, whose path is a value of this one': {
    configure: (consumer) => consumer.apply(Auth).forRoutes(Archive),
    controllers: [Archive, Orders],
  },
  'for all but the route and the endpoint': {
    configure: (consumer) => consumer.apply(Auth).exclude('orders/:id', 'mcp').forRoutes('*path'),
  },
  'for its controller, but not for it': {
    configure: (consumer) =>
      consumer.apply(Auth).exclude({ path: 'orders/:id', method: RequestMethod.GET }).forRoutes(Orders),
  },
  'for its controller, but not for its version': {
    configure: (consumer) =>
      consumer
        .apply(Auth)
        .exclude({ path: 'orders/:id', method: RequestMethod.GET, version: '2' })
        .forRoutes(OrdersOfTwo),
    controllers: [OrdersOfTwo],
    nest: VERSIONS,
    route: 'v2/orders/7',
  },
  'for all below a global prefix': {
    configure: (consumer) => consumer.apply(Auth).forRoutes('*path'),
    nest: PREFIX,
    route: 'api/orders/7',
    endpoint: 'api/mcp',
  },
  'for all, with an endpoint that has no prefix': {
    configure: (consumer) => consumer.apply(Auth).forRoutes('*path'),
    nest: (app) => app.setGlobalPrefix('api', { exclude: ['mcp'] }),
    route: 'api/orders/7',
  },
  'for all versions': {
    configure: (consumer) => consumer.apply(Auth).forRoutes('*path'),
    nest: VERSIONS,
    route: 'v1/orders/7',
  },
  'of another version': {
    configure: (consumer) =>
      consumer.apply(Auth).forRoutes({ path: 'orders/:id', method: RequestMethod.GET, version: '3' }),
    controllers: [OrdersOfTwo],
    nest: VERSIONS,
    route: 'v2/orders/7',
  },
  'for a version that the endpoint has too': {
    configure: (consumer) =>
      consumer.apply(Auth).forRoutes(OrdersOfTwo, { path: 'mcp', method: RequestMethod.ALL, version: '2' }),
    controllers: [OrdersOfTwo],
    nest: VERSIONS,
    options: { version: '2' },
    route: 'v2/orders/7',
    endpoint: 'v2/mcp',
  },
  'for a path with a parameter, which the endpoint has too': {
    configure: (consumer) => consumer.apply(Auth).forRoutes(':tenant/*path'),
    controllers: [],
    imports: [{ module: class TenantModule {}, controllers: [Orders] }],
    options: { path: 'x/mcp' },
    endpoint: 'x/mcp',
  },
};

const ofOrders = (consumer: MiddlewareConsumer): unknown => consumer.apply(Auth).forRoutes('orders/:id');

describe.each(ADAPTERS)('an app on %s whose route is a tool', (adapter) => {
  let app: TestApp | undefined;
  beforeEach(() => {
    ran = [];
  });
  afterEach(async () => {
    await app?.close();
    app = undefined;
  });

  const start = async (world: World): Promise<TestApp> => {
    app = await TestApp.of(adapter, moduleOf(world), world.nest);
    return app;
  };

  /** Whether middleware runs for a request of the route, and for a call of its tool, as Nest decides it. */
  const runsFor = async (world: World): Promise<readonly [route: boolean, call: boolean]> => {
    const { route = 'orders/7', endpoint = 'mcp' } = world;
    const { base } = await start(world);
    expect(await (await fetch(`${base}/${route}`)).text()).toBe('order 7');
    const byRoute = ran.length > 0;
    ran = [];
    const client = await app!.clientAt(endpoint).initialize('2025-11-25');
    ran = [];
    const { result } = await (await client.call('order', { id: '7' })).json();
    expect(result.content).toEqual([{ type: 'text', text: 'order 7' }]);
    return [byRoute, ran.length > 0];
  };

  it.each(sampled(Object.entries(PASSED_BY)))(
    'does not start with middleware %s, which a call would bypass',
    async (_, world) => {
      const error = await failureOf(adapter, world);
      expect(error).toBeInstanceOf(McpHandlerDefinitionError);
      expect(error.message).toContain(`but not for POST /${world.endpoint ?? 'mcp'}`);
      const ignoring = { ...world, options: { ...world.options, middleware: 'ignore' as const } };
      expect(await runsFor(ignoring)).toEqual([true, false]);
    },
  );

  it.each([
    ['a text', 'orders'],
    ['a text that is optional', '{orders}'],
  ])('does not start with middleware for paths below %s, where its adapter runs it for them', async (_, path) => {
    const world: World = { configure: (consumer) => consumer.apply(Auth).forRoutes(path) };
    if (adapter === 'fastify') return expect(await runsFor(world)).toEqual([false, false]);
    expect((await failureOf(adapter, world)).message).toContain('the middleware Auth');
    expect(await runsFor({ ...world, options: { middleware: 'ignore' } })).toEqual([true, false]);
  });

  it.each(sampled(Object.entries(MET)))('starts with middleware %s', async (_, world) => {
    const [byRoute, byCall] = await runsFor(world);
    expect(byRoute && !byCall).toBe(false);
  });
});

describe.each(ONE_ADAPTER)('middleware that a call of a tool would bypass', (adapter) => {
  let app: TestApp | undefined;
  beforeEach(() => {
    ran = [];
  });
  afterEach(async () => {
    await app?.close();
    app = undefined;
  });

  const start = async (world: World): Promise<TestApp> => {
    app = await TestApp.of(adapter, moduleOf(world), world.nest);
    return app;
  };

  it('middleware that a call of a tool would bypass is named, with its route and what to do', async () => {
    const { message } = await failureOf(adapter, { configure: ofOrders });
    expect(message).toBe(
      "The MCP handler Orders.one (WebModule) cannot be served: the middleware Auth runs for its route GET /orders/:id, but not for POST /mcp, with which clients call it. So a call would bypass the middleware. Add the path of the endpoint to forRoutes() of the middleware, or remove it from exclude(); or use a guard, which runs for both. If only the route needs the middleware, give @Tool(), @Tools() or McpStreamableModule.forRoot() the option middleware: 'ignore'.",
    );
    const configure = (consumer: MiddlewareConsumer): unknown => consumer.apply(nameless[0]!).forRoutes('orders/:id');
    expect((await failureOf(adapter, { configure })).message).toContain(': a middleware function runs for its route');
  });

  it('middleware that a call of a tool would bypass is ignored by @Tool(), by @Tools() and by the endpoint', async () => {
    @Controller('orders')
    class ByTool {
      @Get(':id')
      @Tool({ middleware: 'ignore' })
      one(@Param('id') id: string): string {
        return id;
      }
    }
    @Controller('orders')
    @Tools({ middleware: 'ignore' })
    class ByTools {
      @Get(':id')
      one(@Param('id') id: string): string {
        return id;
      }
    }
    for (const world of [
      { controllers: [ByTool] },
      { controllers: [ByTools] },
      { options: { middleware: 'ignore' } },
    ] as const) {
      const { controllers, options } = { controllers: undefined, options: undefined, ...world };
      await start({
        configure: ofOrders,
        ...(controllers && { controllers: [...controllers] }),
        ...(options && { options }),
      });
      await app!.close();
    }
    app = undefined;
  });

  it('middleware that a call of a tool would bypass is of another route where one tool of a controller ignores it', async () => {
    @Controller('orders')
    class Some {
      @Get(':id')
      @Tool({ middleware: 'ignore' })
      one(@Param('id') id: string): string {
        return id;
      }
      @Get(':id/lines')
      @Tool()
      lines(@Param('id') id: string): string {
        return id;
      }
    }
    const configure: World['configure'] = (consumer) => consumer.apply(Auth).forRoutes(Some);
    const { message } = await failureOf(adapter, { configure, controllers: [Some] });
    expect(message).toContain(
      'Some.lines (WebModule) cannot be served: the middleware Auth runs for its route GET /orders/:id/lines,',
    );
  });

  it('the option that ignores middleware has one value', async () => {
    const wrong = 'all' as 'ignore';
    @Controller('orders')
    class Wrong {
      @Get()
      @Tool({ middleware: wrong })
      all(): string {
        return 'all';
      }
    }
    const { message } = await failureOf(adapter, { configure: () => {}, controllers: [Wrong] });
    expect(message).toContain(`its "middleware" can only be 'ignore'; got "all".`);
    expect(() => Tools({ middleware: wrong })(Wrong)).toThrow('The option "middleware" of @Tools() can only be');
  });

  it('middleware that a call of a tool would bypass is looked for at the endpoint of the tool', async () => {
    @Controller('orders')
    @McpHandlers({ endpoint: 'admin' })
    class OfAdmin extends Orders {
      @Get('by/:id')
      @Tool({ name: 'by' })
      by(@Param('id') id: string): string {
        return id;
      }
    }
    const imports = [McpStreamableModule.forRoot({ serverInfo, name: 'admin', path: 'admin/mcp' })];
    const of = (...paths: string[]): World => ({
      configure: (consumer) => consumer.apply(Auth).forRoutes(OfAdmin, ...paths),
      controllers: [OfAdmin],
      imports,
    });
    expect((await failureOf(adapter, of('mcp'))).message).toContain('but not for POST /admin/mcp');
    await start(of('admin/mcp'));
  });

  it('middleware that a call of a tool would bypass is of no concern for tools that the endpoint does not serve', async () => {
    @Controller('orders')
    @Tools()
    class Posted {
      @Post()
      add(): string {
        return 'added';
      }
    }
    const configure: World['configure'] = (consumer) => consumer.apply(Auth).forRoutes(Posted);
    await start({ configure, controllers: [Posted], options: { readOnly: true } });
  });

  it('middleware that a call of a prompt would bypass stops the start too', async () => {
    @Controller('orders')
    class Prompts {
      @Get(':id/prompt')
      @Prompt({ name: 'about', arguments: [{ name: 'id', required: true }] })
      about(@Param('id') id: string): string {
        return `Tell me about ${id}.`;
      }
    }
    const world: World = {
      configure: (consumer) => consumer.apply(Auth).forRoutes(Prompts),
      controllers: [Prompts],
    };
    const { message } = await failureOf(adapter, world);
    expect(message).toContain('Prompts.about (WebModule) cannot be served: the middleware Auth');
    expect(message).toContain("give McpStreamableModule.forRoot() the option middleware: 'ignore'");
    await start({ ...world, options: { middleware: 'ignore' } });
  });

  it('an app of `nest new` with a logger for all routes starts, and logs calls too', async () => {
    @Controller()
    @Tools()
    class AppController {
      @Get()
      getHello(@Query('name') name = 'World'): string {
        return `Hello ${name}!`;
      }
    }
    await start({ configure: (consumer) => consumer.apply(Auth).forRoutes('*'), controllers: [AppController] });
    const client = await app!.client().initialize('2025-11-25');
    ran = [];
    const { result } = await (await client.call('app_get_hello', { name: 'Ann' })).json();
    expect(result.content).toEqual([{ type: 'text', text: 'Hello Ann!' }]);
    expect(ran).toEqual(['POST']);
  });
});
