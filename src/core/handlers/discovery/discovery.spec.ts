import 'reflect-metadata';
import { Controller, Injectable, Module, type ModuleMetadata, Scope } from '@nestjs/common';
import {
  type ApplicationConfig,
  DiscoveryModule,
  DiscoveryService,
  MetadataScanner,
  ModuleRef,
  ModulesContainer,
} from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { Complete, McpHandlers, Prompt, Tool } from '../decorators/handler.decorators.js';
import { McpHandlerDefinitionError } from '../handlers.errors.js';
import { resolveOptions } from '../../common/options.js';
import { HANDLER_TABLE } from '../handlers.options.js';
import { HandlerInvokers } from '../invocation/handler-invokers.js';
import { RequestContexts } from '../invocation/request-contexts.js';
import { NO_ROUTES } from '../../../../test/support/registry-parts.js';
import { HandlerTable } from '../registry/handler-table.js';
import { type AppScan, EndpointMark, FeatureMark, hostsOf, scanApp } from './app-scan.js';
import { DeclaredHandlers } from './declared-handlers.js';
import { EndpointClasses } from './endpoint-classes.js';

let made = 0;
afterEach(() => {
  made = 0;
});

@Injectable()
class First {
  constructor() {
    made++;
  }
  @Tool({ name: 'one' })
  one(): string {
    return 'one';
  }
  helper(): void {}
  @Tool({ name: 'two' })
  two(): void {}
}

@Injectable({ scope: Scope.REQUEST })
class PerRequest {
  constructor() {
    made++;
  }
  @Tool({ name: 'per-request' })
  run(): void {}
}

@Injectable({ scope: Scope.TRANSIENT })
class Transient {
  constructor() {
    made++;
  }
  @Tool({ name: 'transient' })
  run(): void {}
}

abstract class Base {
  @Tool({ name: 'inherited' })
  inherited(): string {
    return this.constructor.name;
  }
}

@Injectable()
class Derived extends Base {
  @Tool({ name: 'own' })
  own(): void {}
}

@Controller('orders')
class OrdersController {
  @Tool({ name: 'of-controller' })
  run(): void {}
}

class Made {
  @Tool({ name: 'made' })
  run(): void {}
}

class Given {
  @Tool({ name: 'given' })
  run(): void {}
}

@Module({
  providers: [Derived, { provide: 'made', useFactory: () => new Made() }, { provide: 'given', useValue: new Given() }],
})
class InnerModule {}

@Module({
  imports: [InnerModule],
  controllers: [OrdersController],
  providers: [
    PerRequest,
    First,
    Transient,
    { provide: 'alias', useExisting: First },
    { provide: 'same', useFactory: (first: First) => first, inject: [First] },
    { provide: 'nothing', useValue: null },
    { provide: 'text', useValue: 'text' },
    { provide: 'plain', useValue: { run: () => {} } },
    { provide: 'bare', useValue: Object.create(null) as object },
  ],
})
class OuterModule {}

interface App {
  readonly scan: AppScan;
  load(mark?: EndpointMark): HandlerTable;
}

async function start(module: ModuleMetadata): Promise<App> {
  const imports = [DiscoveryModule, ...(module.imports ?? [])];
  const testing = await Test.createTestingModule({ ...module, imports }).compile();
  const get = <T>(type: abstract new (...args: never[]) => T): T => testing.get<T>(type, { strict: false });
  const app = [get(DiscoveryService), get(ModulesContainer), new MetadataScanner(), NO_ROUTES] as const;
  return {
    scan: scanApp(...app),
    load: (endpoint = scanApp(...app).endpoints[0]!) => {
      const table = new HandlerTable();
      const config = testing['applicationConfig'] as ApplicationConfig;
      const invokers = new HandlerInvokers(config, app[1], new RequestContexts(get(ModuleRef)), NO_ROUTES);
      const options = resolveOptions(HANDLER_TABLE, { pageSize: 10 });
      const classes = new EndpointClasses(...app, endpoint, invokers, table, options, () => () => {});
      new DeclaredHandlers(classes, invokers, table, options, config, NO_ROUTES).load();
      return table;
    },
  };
}

const endpoint = (name?: string) => ({ provide: Symbol('endpoint'), useValue: new EndpointMark(name) });
const feature = (type: object, name?: string) => ({
  provide: Symbol('feature'),
  useValue: new FeatureMark([type], name),
});

describe('the scan of an app', () => {
  it('the scan of an app finds methods of providers and controllers, in the order of the sources', async () => {
    const { scan } = await start({ imports: [OuterModule], providers: [endpoint()] });
    const found = scan.hosts.flatMap(({ type, module, methods }) =>
      methods.map(({ methodName }) => `${type.name}.${methodName} ${module}`),
    );
    expect(found).toEqual([
      'PerRequest.run OuterModule',
      'First.one OuterModule',
      'First.two OuterModule',
      'Transient.run OuterModule',
      'OrdersController.run OuterModule',
      'Derived.own InnerModule',
      'Derived.inherited InnerModule',
      'Made.run InnerModule',
      'Given.run InnerModule',
    ]);
  });

  it('the scan of an app makes no instance of what has no fixed one', async () => {
    const { scan } = await start({ imports: [OuterModule], providers: [endpoint()] });
    expect(scan.hosts.length).toBeGreaterThan(0);
    expect(made).toBe(1);
  });

  it('the scan of an app is the same each time', async () => {
    const names = async () => {
      const { load } = await start({ imports: [OuterModule], providers: [endpoint()] });
      return [...load().all('tool')].map(({ key }) => key);
    };
    expect(await names()).toEqual(await names());
    expect(await names()).toHaveLength(9);
  });
});

describe('a handler belongs', () => {
  @McpHandlers({ endpoint: 'admin' })
  class Admin {
    @Tool({ name: 'admin' })
    run(): void {}
  }
  @McpHandlers({ endpoint: ['admin', 'public'] })
  class Both {
    @Tool({ name: 'both' })
    run(): void {}
  }
  class Free {
    @Tool({ name: 'free' })
    run(): void {}
  }
  class Other {}

  const membership = async (providers: NonNullable<ModuleMetadata['providers']>) => {
    const { scan } = await start({ providers });
    return Object.fromEntries(
      scan.endpoints.map((mark) => [mark.name ?? '', hostsOf(mark, scan).map(({ type }) => type.name)]),
    );
  };

  it('a handler belongs to the one endpoint there is', async () => {
    expect(await membership([endpoint(), Free])).toEqual({ '': ['Free'] });
    expect(await membership([endpoint('only'), Free])).toEqual({ only: ['Free'] });
  });

  it('a handler belongs to those that its class names, or else to the one without a name', async () => {
    expect(await membership([endpoint(), endpoint('admin'), endpoint('public'), Admin, Both, Free])).toEqual({
      '': ['Free'],
      admin: ['Admin', 'Both'],
      public: ['Both'],
    });
  });

  it('a handler belongs to those that forFeature() names', async () => {
    const providers = [endpoint(), endpoint('admin'), Free, Other, feature(Free, 'admin'), feature(Other, 'admin')];
    expect(await membership(providers)).toEqual({ '': [], admin: ['Free'] });
    expect(await membership([endpoint(), endpoint('admin'), Free, feature(Free)])).toEqual({ '': ['Free'], admin: [] });
  });

  it.each<[string, NonNullable<ModuleMetadata['providers']>, string]>([
    [
      'of a name that no endpoint has',
      [endpoint(), endpoint('public'), Admin],
      'Admin cannot be served: it belongs to the endpoint "admin", which the app does not have. Available: "(without a name)", "public".',
    ],
    ['of such a name with one endpoint', [endpoint(), Admin], 'the endpoint "admin", which the app does not have'],
    [
      'of such a name in forFeature()',
      [endpoint(), Free, feature(Free, 'admin')],
      'Free cannot be served: it belongs to the endpoint "admin"',
    ],
    [
      'of a class that is not provided',
      [endpoint(), endpoint('admin'), feature(Free, 'admin')],
      'forFeature() names it, but no module provides it',
    ],
    [
      'without a mark where all endpoints have names',
      [endpoint('a'), endpoint('b'), Free],
      'Free cannot be served: its endpoint is not specified, and every endpoint of the app has a name.',
    ],
  ])('nowhere, and the app does not start: %s', async (_what, providers, message) => {
    await expect(membership(providers)).rejects.toThrow(McpHandlerDefinitionError);
    await expect(membership(providers)).rejects.toThrow(message);
  });

  it('nowhere when a test put something in its place', async () => {
    const mark = { provide: Symbol('feature'), useValue: new FeatureMark([Free], 'admin') };
    const providers = [endpoint(), endpoint('admin'), { provide: Free, useValue: { run: () => {} } }, mark];
    expect(await membership(providers)).toEqual({ '': [], admin: [] });
  });
});

describe('declared handlers', () => {
  const load = async (...types: (new () => object)[]): Promise<HandlerTable> =>
    (await start({ providers: [endpoint(), ...types] })).load();

  it('declared handlers with a header that clients would refuse stop the start', async () => {
    const text = { type: 'string', 'x-mcp-header': 'Region' };
    class Regional {
      @Tool({ name: 'find', inputSchema: { type: 'object', properties: { from: text, to: text } } })
      find(): void {}
    }
    await expect(load(First, Regional)).rejects.toThrow(McpHandlerDefinitionError);
    await expect(load(First, Regional)).rejects.toThrow(
      'Regional.find (RootTestModule) cannot be served: its "inputSchema" cannot be used: the "x-mcp-header" of "to" is "Region", and so is that of "from"',
    );
  });

  it('declared handlers complete what is there, once', async () => {
    class NoPrompt {
      @Complete({ prompt: 'ask', argument: 'x' })
      complete(): void {}
    }
    class NoTemplate {
      @Complete({ template: 'a://{b}', argument: 'b' })
      complete(): void {}
    }
    class Asking {
      @Prompt({ name: 'ask', arguments: [{ name: 'x' }] })
      ask(): void {}
    }
    class NoArgument {
      @Complete({ prompt: 'ask', argument: 'y' })
      complete(): void {}
    }
    class Mixed {
      @Tool({ name: 'mixed' })
      @Complete({ prompt: 'ask', argument: 'x' })
      mixed(): void {}
    }
    class Again extends NoPrompt {
      @Complete({ prompt: 'ask', argument: 'x' })
      again(): void {}
    }
    await expect(load(Asking, Mixed)).rejects.toThrow('it has @Complete() and another MCP decorator');
    await expect(load(NoPrompt)).rejects.toThrow('there is no prompt "ask" in its endpoint. None is available.');
    await expect(load(NoTemplate)).rejects.toThrow('there is no resource template "a://{b}" in its endpoint');
    await expect(load(Asking, NoArgument)).rejects.toThrow('the prompt "ask" has no argument "y". Available: "x".');
    await expect(load(Asking, Again)).rejects.toThrow(
      'Again.complete (RootTestModule) cannot be served: the argument "x" of the prompt "ask" is already completed by Again.again (RootTestModule).',
    );
  });
});
