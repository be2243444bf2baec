import {
  type CallHandler,
  type CanActivate,
  type ExecutionContext,
  ForbiddenException,
  Injectable,
  type NestInterceptor,
  Scope,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common';
import { inputRequired } from '@modelcontextprotocol/server';
import {
  McpArgs,
  type McpContext,
  McpCtx,
  McpExecutionContext,
  McpRegistry,
  McpStreamableModule,
  Prompt,
  Resource,
  Tool,
} from 'nestjs-mcp-streamable';
import { createMcpTestClient, ManualClock, type McpTestClient } from 'nestjs-mcp-streamable/testing';
import { catchError, map, of, retry } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type McpEndpointHost,
  type McpEndpointPlugin,
  type McpHandlerHooks,
  McpPlugin,
  type McpRun,
  type McpRunHooks,
  type Passed,
} from '../../src/core/plugins/mcp-plugin.js';
import { type McpRing, RINGS } from '../../src/core/plugins/rings.js';
import { passed } from '../../src/core/plugins/run-hooks.js';
import { gate, serverInfo, TestApp } from '../support/app.js';
import { eventually } from '../support/test-apps.js';
import { ModernClient } from '../support/modern-client.js';
import { Deployment } from '../support/nodes.js';
import { as, trustingGuard } from '../support/users.js';

const YES = { type: 'object', properties: { yes: { type: 'boolean' } } } as const;
const Label = { type: 'object', properties: { label: { type: 'string' } }, required: ['label'] } as const;
const textResult = (text: string) => ({ content: [{ type: 'text', text }] });

const heard: string[] = [];

/** A plugin of one ring that says what happens, and does what a test wants. */
class Acting extends McpPlugin {
  constructor(
    readonly ring: McpRing,
    private readonly hooks: (run: McpRun) => McpRunHooks = () => ({}),
    private readonly of: (target: Parameters<NonNullable<McpEndpointPlugin['handler']>>[0]) => boolean = () => true,
  ) {
    super();
  }
  attach(): McpEndpointPlugin {
    return { handler: (target): McpHandlerHooks | undefined => (this.of(target) ? { run: this.hooks } : undefined) };
  }
}

const noting = (ring: McpRing) =>
  new Acting(ring, () => ({
    around: async (next) => {
      heard.push(`${ring} >`);
      const result = await next();
      heard.push(`< ${ring}`);
      return result;
    },
    entering: () => void heard.push(`${ring} entering`),
    entered: () => void heard.push(`${ring} entered`),
    returned: () => void heard.push(`${ring} returned`),
    asking: () => void heard.push(`${ring} asking`),
  }));

@Injectable()
class NotMallory implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    heard.push('guard');
    if (McpExecutionContext.create(context).getContext().principal === 'mallory')
      throw new ForbiddenException('Not you.');
    return true;
  }
}
@Injectable()
class Retries implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler) {
    return next.handle().pipe(retry(2));
  }
}
@Injectable()
class Swallows implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler) {
    return next.handle().pipe(catchError(() => of('swallowed')));
  }
}
@Injectable()
class Maps implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler) {
    return next.handle().pipe(map((value) => `mapped ${String(value)}`));
  }
}

/** Answers, and runs the method later, as a cache does that refreshes what it holds. */
@Injectable()
class Refreshes implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler) {
    void refresh.promise.then(() => next.handle().subscribe());
    return of('cached');
  }
}

let fails = 0;
let refresh = gate();
let rounds = gate();

@Injectable()
class Tools {
  @Tool({ name: 'plain', inputSchema: Label })
  @UseGuards(NotMallory)
  plain(@McpArgs('label') label: string): string {
    heard.push('method');
    return label;
  }
  @Tool({ name: 'retries', inputSchema: Label })
  @UseInterceptors(Retries)
  retries(@McpArgs('label') label: string): string {
    heard.push('method');
    if (fails-- > 0) throw new Error('Again.');
    return label;
  }
  @Tool({ name: 'swallows', inputSchema: Label })
  @UseInterceptors(Swallows)
  swallows(@McpArgs('label') label: string): string {
    return label;
  }
  @Tool({ name: 'maps', inputSchema: Label })
  @UseInterceptors(Maps)
  maps(@McpArgs('label') label: string): string {
    return label;
  }
  @Tool({ name: 'asks' })
  async asks(@McpCtx() ctx: McpContext): Promise<string> {
    heard.push('method');
    return (await ctx.elicit('yes', { message: 'Yes?', requestedSchema: YES })).action;
  }
  @Tool({ name: 'refreshes' })
  @UseInterceptors(Refreshes)
  refreshes(): string {
    heard.push('method');
    return 'fresh';
  }
  /** Returns questions, and asks another one when its round is over. */
  @Tool({ name: 'outlives' })
  outlives(@McpCtx() ctx: McpContext): unknown {
    if (ctx.inputResponses) return rounds.promise.then(() => 'done');
    void refresh.promise
      .then(() => ctx.elicit('late', { message: 'Late?', requestedSchema: YES }))
      .then(() => rounds.open());
    return inputRequired({
      inputRequests: { yes: inputRequired.elicit({ message: 'Yes?', requestedSchema: YES }) },
    });
  }
  /** Returns a query, which runs whenever it is awaited. */
  @Tool({ name: 'queries' })
  queries(): PromiseLike<string> {
    return {
      // oxlint-disable-next-line unicorn/no-thenable -- meant
      then: (...on) => {
        heard.push('query');
        return Promise.resolve('rows').then(...on);
      },
    };
  }
  @Prompt({ name: 'hello' })
  hello(): string {
    return 'hello';
  }
}

describe.each(['legacy', 'modern'] as const)('plugins around handlers, for clients of the %s era', (era) => {
  let app: TestApp;
  const start = async (...plugins: McpPlugin[]): Promise<void> => {
    app = await TestApp.start({
      adapter: 'fastify',
      server: undefined,
      guards: [trustingGuard],
      providers: [Tools, NotMallory, ...plugins.map((useValue, at) => ({ provide: `plugin-${at}`, useValue }))],
    });
  };
  const client = (user = 'ann'): Promise<McpTestClient> =>
    createMcpTestClient(app.app, {
      era,
      headers: as(user),
      elicit: () => ({ action: 'accept', content: { yes: true } }),
    });
  const call = async (name: string, label: unknown = 'a', user?: string): Promise<string> => {
    const mcp = await client(user);
    return mcp.callTool(name, ['plain', 'retries', 'swallows', 'maps'].includes(name) ? { label } : {}).then(
      ({ text }) => text,
      ({ message }: Error) => message,
    );
  };
  beforeEach(() => {
    heard.length = 0;
    fails = 0;
    refresh = gate();
    rounds = gate();
  });
  afterEach(() => {
    app.log.release();
    return app.close();
  });

  it('plugins act in the order of the rings, whatever order they were found in', async () => {
    const rings = RINGS.filter((ring): ring is McpRing => ring !== 'rounds' && ring !== 'results');
    await start(...rings.toReversed().map(noting));
    expect(await call('plain')).toBe('a');
    const all = (what: string): string[] => rings.map((ring) => `${ring} ${what}`);
    expect(heard).toEqual([
      ...all('>'),
      'guard',
      ...all('entering'),
      ...all('entered'),
      'method',
      ...all('returned'),
      ...rings.toReversed().map((ring) => `< ${ring}`),
    ]);
  });

  it('plugins have one passage around all rounds of questions, or one for each round, by their ring', async () => {
    await start(noting('app'), noting('once'));
    expect(await call('asks')).toBe('accept');
    const passages = heard.filter((text) => text.endsWith('>'));
    // A client of the modern era repeats its request: that is another run.
    expect(passages).toEqual(era === 'legacy' ? ['app >', 'once >'] : ['app >', 'once >', 'app >', 'once >']);
    expect(heard.filter((text) => text.endsWith('asking'))).toEqual(
      expect.arrayContaining(['app asking', 'once asking']),
    );
  });

  it.runIf(era === 'legacy')('a question of a method that outlives its round belongs to that round', async () => {
    let round = 0;
    await start(
      new Acting('once', () => {
        const mine = ++round;
        return {
          entered: () => {
            heard.push(`round ${mine}`);
            if (mine === 2) refresh.open();
          },
          asking: () => void heard.push(`round ${mine} asking`),
        };
      }),
    );
    expect(await call('outlives')).toBe('done');
    expect(heard).toEqual(['round 1', 'round 2', 'round 1 asking']);
  });

  it('plugins are entered once, however often an interceptor runs the method', async () => {
    await start(noting('app'));
    fails = 2;
    expect(await call('retries')).toBe('a');
    expect(heard.filter((text) => text === 'method')).toHaveLength(3);
    expect(heard.filter((text) => text === 'app entering')).toHaveLength(1);
    expect(heard.filter((text) => text === 'app returned')).toHaveLength(3);
  });

  it('plugins let a query run once that a method returns', async () => {
    await start(noting('app'));
    expect(await call('queries')).toBe('rows');
    expect(heard.filter((text) => text === 'query' || text === 'app returned')).toEqual(['query', 'app returned']);
  });

  it('plugins let a method run that an interceptor calls after its answer', async () => {
    await start(noting('app'));
    expect(await call('refreshes')).toBe('cached');
    expect(heard).not.toContain('method');
    refresh.open();
    await eventually(() => expect(heard.at(-1)).toBe('app returned'));
    expect(heard.slice(-4)).toEqual(['app entering', 'app entered', 'method', 'app returned']);
  });

  it.each(['plain', 'retries', 'swallows', 'maps'])(
    'plugins answer in place of the method behind the guards, whatever interceptors make of it: %s',
    async (tool) => {
      await start(new Acting('app', () => ({ entering: () => Promise.resolve(textResult('kept')) })), noting('limit'));
      expect(await call(tool)).toBe('kept');
      expect(heard).not.toContain('method');
      expect(heard).not.toContain('limit entering');
      if (tool === 'plain') expect(await call('plain', 'a', 'mallory')).not.toContain('kept');
      expect(await call(tool, 7)).not.toContain('kept');
    },
  );

  it('plugins fail the run when entering throws, also in the same turn, and the method does not run', async () => {
    await start(
      new Acting('app', () => ({
        entering: () => {
          throw new ForbiddenException('Not in your plan.');
        },
      })),
    );
    for (const tool of ['plain', 'retries']) expect(await call(tool)).toContain('Not in your plan.');
    expect(heard).not.toContain('method');
  });

  it.each<[string, (next: () => Promise<Passed>, run: McpRun) => Promise<Passed>, string | RegExp]>([
    ['what next() gave', (next) => next(), 'a'],
    [
      'what it gave, called twice',
      async (next) => {
        await next();
        return next();
      },
      'a',
    ],
    ['a changed copy', async (next) => passed(await next(), textResult('changed')), 'changed'],
    ['what run.answer() gave', (_, run) => run.answer(textResult('answered')), 'answered'],
    ['an answer of its own', () => Promise.resolve(textResult('own') as never), /Internal error|could not/],
    ['an error', () => Promise.reject(new Error('Over the quota.')), /Internal error|could not/],
  ])(
    'plugins may return %s from around(), and a caller whom guards refuse gets no more',
    async (_, around, expected) => {
      await start(new Acting('app', (run) => ({ around: (next) => around(next, run) })));
      expect(await call('plain')).toMatch(expected);
      expect(await call('plain', 'a', 'mallory')).toMatch(/not found|Not you/);
      expect(heard.filter((text) => text === 'guard').length).toBeGreaterThanOrEqual(2);
    },
  );

  it.each<[string, McpRing]>([
    ['around a run', 'app'],
    ['inside of the results', 'limit'],
  ])(
    'plugins may fail %s without waiting for what next() gives, and guards refuse as without them',
    async (_, ring) => {
      await start(
        new Acting(ring, () => ({
          around: (next) => {
            void next();
            return Promise.reject(new ForbiddenException('Over the quota.'));
          },
        })),
      );
      fails = 9;
      expect(await call('retries')).toMatch(/Over the quota|Internal error|could not/);
      expect(await call('plain', 'a', 'mallory')).toMatch(/not found|Not you/);
    },
  );

  it.each<McpRing>(['app', 'limit'])(
    'plugins cannot replace the denial of a guard by an error of their own, in the ring %s',
    async (ring) => {
      await start(
        new Acting(ring, () => ({
          around: (next) =>
            next().catch(() => {
              throw new Error('Something failed.');
            }),
        })),
      );
      expect(await call('plain', 'a', 'mallory')).toMatch(/not found|Not you/);
    },
  );

  it('plugins cannot answer with a result that an earlier call gave', async () => {
    let kept: Passed | undefined;
    await start(
      new Acting('app', () => ({
        around: async (next) => kept ?? (kept = await next()),
      })),
    );
    expect(await call('plain', 'first')).toBe('first');
    expect(await call('plain', 'second')).toMatch(/Internal error|could not/);
  });

  it('plugins see no values inside of the results, and can delay or fail them alone', async () => {
    const values: unknown[] = [];
    await start(
      new Acting('limit', () => ({
        around: async (next) => {
          values.push(await next());
          return textResult('own') as never;
        },
      })),
    );
    expect(await call('plain', 'secret')).toBe('secret');
    expect(JSON.stringify(values)).not.toContain('secret');
  });

  it('plugins ask the client, and the guards, for a run', async () => {
    const admitted: unknown[] = [];
    await start(
      new Acting('once', (run) => ({
        entering: async () => {
          await run.assertAdmitted();
          admitted.push(
            run.sent,
            run.isMarked,
            await run.ask('sure', { method: 'elicitation/create', params: { message: 'Sure?', requestedSchema: YES } }),
          );
        },
      })),
    );
    expect(await call('plain')).toBe('a');
    expect(admitted.slice(-3)).toEqual([{ label: 'a' }, false, { action: 'accept', content: { yes: true } }]);
    expect(heard.at(-1)).toBe('method');
  });

  it('plugins are asked about each handler once, also about one that is registered later', async () => {
    const asked: string[] = [];
    await start(
      new Acting('app', undefined, ({ kind, key, option }) => {
        asked.push(`${kind} ${key} ${String(option('timeoutMs'))}`);
        if (key === 'refused') throw new Error('There is no plan with this tool.');
        return true;
      }),
    );
    const registry = app.app.get(McpRegistry);
    registry.registerTool({ name: 'late', timeoutMs: 5, handler: () => 'late' });
    expect(() => registry.registerTool({ name: 'refused', handler: () => '' })).toThrow('There is no plan');
    expect(await call('late')).toBe('late');
    expect(asked.toSorted()).toEqual(
      ['asks', 'maps', 'outlives', 'plain', 'queries', 'refreshes', 'retries', 'swallows']
        .map((name) => `tool ${name} undefined`)
        .concat('prompt hello undefined', 'tool late 5', 'tool refused undefined')
        .toSorted(),
    );
    expect(await call('refused')).toContain('not found');
  });
});

describe('plugins around a run that the core refuses', () => {
  const forged = async (user: string, ...plugins: McpPlugin[]) => {
    const app = await TestApp.start({
      adapter: 'fastify',
      server: undefined,
      guards: [trustingGuard],
      providers: [Tools, NotMallory, ...plugins.map((useValue, at) => ({ provide: `plugin-${at}`, useValue }))],
    });
    heard.length = 0;
    const params = { name: 'plain', arguments: { label: 'a' }, requestState: 'forged' };
    const { result, error } = await new ModernClient(app.url, as(user)).ask('tools/call', params);
    app.log.release();
    await app.close();
    return result?.content[0].text ?? `${error.code} ${error.message}`;
  };
  const answering = new Acting('switch', (run) => ({ around: () => run.answer(textResult('answered')) }));
  const asking = new Acting('app', (run) => ({
    around: async (next) => {
      const asked = run.ask('sure', { method: 'elicitation/create', params: {} } as never);
      heard.push(await asked.then(String, ({ message }: Error) => message));
      return next();
    },
  }));

  it('D2: plugins are outside of what the core refuses, or inside and not asked, by their ring', async () => {
    expect(await forged('ann', noting('app'), noting('once'))).toMatch(/-32602 .*requestState/);
    expect(heard).toEqual(['app >', 'guard']);
  });

  it('D2: plugins outside of what the core refuses may answer in its place, if the guards accept the caller', async () => {
    expect(await forged('ann', answering)).toBe('answered');
    expect(await forged('mallory', answering)).toMatch(/^-32602 .*(not found|Not you)/);
    expect(await forged('mallory', noting('app'))).toMatch(/^-32602 .*(not found|Not you)/);
  });

  it('plugins outside of what the core refuses cannot ask the client', async () => {
    expect(await forged('ann', asking)).toMatch(/requestState/);
    expect(heard[0]).toMatch(/requestState/);
  });
});

describe('plugins that hide handlers', () => {
  class Hiding extends McpPlugin {
    readonly ring = 'switch';
    attach(): McpEndpointPlugin {
      return {
        hides: ({ key }, { principal }) => {
          if (key === 'broken') throw new Error('A plugin fails.');
          return principal === 'bob' && ['plain', 'hello', 'app://notes'].includes(key);
        },
      };
    }
  }
  @Injectable()
  class Others {
    @Tool({ name: 'broken' })
    broken(): string {
      return '';
    }
    @Resource({ uri: 'app://notes', name: 'notes' })
    notes(): string {
      return '';
    }
  }

  it('plugins leave what they hide out of the lists, completions and subscriptions of a caller, and lists are private', async () => {
    const app = await TestApp.start({
      adapter: 'fastify',
      server: undefined,
      guards: [trustingGuard],
      listCache: { ttlMs: 1_000, scope: 'public' },
      providers: [Tools, NotMallory, Others, { provide: 'hiding', useValue: new Hiding() }],
    });
    const seen = async (headers: Record<string, string>) => {
      const client = new ModernClient(app.url, headers);
      const { tools, cacheScope } = (await client.ask('tools/list')).result;
      const ref = { type: 'ref/prompt', name: 'hello' };
      const completed = await client.ask('completion/complete', { ref, argument: { name: 'a', value: '' } });
      const stream = await client.listen({ resourceSubscriptions: ['app://notes'] });
      const { notifications } = stream.messages[0].params;
      stream.destroy();
      const names = tools.map(({ name }: { name: string }) => name);
      return [names.includes('plain'), names.includes('broken'), cacheScope, completed.error?.code, notifications];
    };
    expect(await seen(as('bob'))).toEqual([false, false, 'private', -32602, {}]);
    const all = { resourceSubscriptions: ['app://notes'] };
    expect(await seen(as('ann'))).toEqual([true, false, 'private', undefined, all]);
    expect(await seen({})).toEqual([true, false, 'private', undefined, all]);
    app.log.release();
    await app.close();
  });
});

describe('the plugins of an app', () => {
  const endpoints: (string | undefined)[] = [];
  const started = async (plugin: object, imports = [McpStreamableModule.forRoot({ serverInfo })]): Promise<void> => {
    endpoints.length = 0;
    const app = await TestApp.of('fastify', { imports, providers: [plugin as never] });
    await app.close();
  };
  @Injectable({ scope: Scope.REQUEST })
  class PerRequest extends McpPlugin {
    readonly ring = 'app';
    attach(): undefined {}
  }
  @Injectable()
  class Named extends McpPlugin {
    readonly ring = 'app';
    override readonly endpoint = 'admin';
    attach({ name }: McpEndpointHost): undefined {
      endpoints.push(name);
    }
  }

  it('plugins must be singletons', async () => {
    await expect(started(PerRequest)).rejects.toThrow('it is a plugin, which must be a singleton');
  });

  it('plugins are called for a node that has died, again until they have ended what it left', async () => {
    const clock = new ManualClock();
    const deployment = new Deployment(clock);
    const died: string[] = [];
    const ending = {
      attach: (): McpEndpointPlugin => ({
        nodeDied: async (node) => {
          await Promise.resolve();
          if (died.push(node) < 3) throw new Error('The store is away.');
        },
      }),
    };
    const provider = { provide: 'ending', useValue: Object.assign(new Acting('app'), ending) };
    const [dead] = [
      await deployment.member({ adapter: 'fastify', server: undefined }),
      await deployment.member({ adapter: 'fastify', server: undefined, providers: [provider] }),
    ];
    deployment.kill(dead);
    await clock.advance(600_000);
    expect(died).toEqual(Array.from({ length: 3 }, () => dead.bus.nodeId));
    await deployment.bury(dead);
    await deployment.close();
  });

  it('plugins get time to end their work when the node stops, and are closed, the innermost first, also when one fails', async () => {
    const stops: string[] = [];
    class Stopping extends McpPlugin {
      constructor(readonly ring: McpRing) {
        super();
      }
      attach(): McpEndpointPlugin {
        return {
          drain: async (limitMs) => {
            await Promise.resolve();
            stops.push(`${this.ring} drained within ${limitMs} ms`);
          },
          close: () => void stops.push(`${this.ring} closed`),
        };
      }
    }
    class Failing extends McpPlugin {
      readonly ring = 'limit';
      attach(): McpEndpointPlugin {
        const fail = (): never => {
          throw new Error('It cannot stop.');
        };
        return { drain: async () => Promise.reject(new Error('It cannot drain.')), close: fail };
      }
    }
    const plugins = [new Stopping('app'), new Failing(), new Stopping('observe')];
    const providers = plugins.map((useValue) => ({ provide: useValue.ring, useValue }));
    const app = await TestApp.of('fastify', {
      imports: [McpStreamableModule.forRoot({ serverInfo, drainMs: 5_000 })],
      providers,
    });
    await app.close();
    expect(stops.slice(0, 2).toSorted()).toEqual(['app drained within 5000 ms', 'observe drained within 5000 ms']);
    expect(stops.slice(2)).toEqual(['app closed', 'observe closed']);
  });

  it('plugins begin to end their work at once, the innermost first, and calls have ended when those that were diverted have', async () => {
    const drained = gate();
    const stops: string[] = [];
    class Draining extends McpPlugin {
      constructor(readonly ring: McpRing) {
        super();
      }
      attach(): McpEndpointPlugin {
        return {
          drain: async (_limitMs, callsEnded) => {
            stops.push(`${this.ring} begins`);
            await (this.ring === 'task' ? drained.promise : callsEnded);
            stops.push(`${this.ring} ends`);
          },
        };
      }
    }
    const plugins = (['record', 'task', 'once'] as const).map((ring) => new Draining(ring));
    const app = await TestApp.of('fastify', {
      imports: [McpStreamableModule.forRoot({ serverInfo, drainMs: 5_000 })],
      providers: plugins.map((useValue) => ({ provide: useValue.ring, useValue })),
    });
    const closed = app.close();
    await eventually(() => expect(stops).toEqual(['once begins', 'task begins', 'record begins']));
    drained.open();
    await closed;
    expect([stops[3], stops.slice(4).toSorted()]).toEqual(['task ends', ['once ends', 'record ends']]);
  });

  it('plugins belong to the endpoints that they name', async () => {
    const both = [
      McpStreamableModule.forRoot({ serverInfo }),
      McpStreamableModule.forRoot({ serverInfo, name: 'admin', path: '/admin' }),
    ];
    await started(Named, both);
    expect(endpoints).toEqual(['admin']);
    await expect(started(Named)).rejects.toThrow('it belongs to the endpoint "admin", which the app does not have');
  });
});
