import { setImmediate as nextTurn } from 'node:timers/promises';
import { type CanActivate, type ExecutionContext, ForbiddenException, Injectable, UseGuards } from '@nestjs/common';
import { McpExecutionContext, McpRegistry, Tool } from 'nestjs-mcp-streamable';
import {
  type McpEndpointHost,
  type McpEndpointPlugin,
  McpPlugin,
  type McpRing,
  type McpRun,
  type McpRunHooks,
  passed,
} from 'nestjs-mcp-streamable/plugins';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TestApp } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';
import { as, decidesByArguments, trustingGuard } from '../support/users.js';

/** A plugin that does what a test wants, also what its type forbids. */
class Hostile extends McpPlugin {
  constructor(
    readonly ring: McpRing,
    private readonly does: (endpoint: McpEndpointHost) => unknown,
  ) {
    super();
  }
  attach(endpoint: McpEndpointHost): McpEndpointPlugin {
    return this.does(endpoint) as McpEndpointPlugin;
  }
}
const ofRuns = (ring: McpRing, run: (run: McpRun) => unknown): Hostile =>
  new Hostile(ring, () => ({ handler: () => ({ run: run as () => McpRunHooks }) }));
const said = (text: string) => ({ content: [{ type: 'text', text }] });

@Injectable()
class NotMallory implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    if (McpExecutionContext.create(context).getContext().principal === 'mallory')
      throw new ForbiddenException('Not you.');
    return true;
  }
}
/** Lists show its tools, so that its denial is the result of a tool. */
@Injectable()
class ByArguments extends NotMallory {
  override canActivate(context: ExecutionContext): boolean {
    decidesByArguments(context);
    return super.canActivate(context);
  }
}

@Injectable()
class Tools {
  @Tool({ name: 'hidden' })
  @UseGuards(NotMallory)
  hidden(): string {
    return 'ran';
  }
  @Tool({ name: 'listed' })
  @UseGuards(ByArguments)
  listed(): string {
    return 'ran';
  }
}

describe('a hostile plugin', () => {
  let app: TestApp | undefined;
  const unhandled: unknown[] = [];
  const note = (error: unknown): void => void unhandled.push(error);
  beforeEach(() => {
    unhandled.length = 0;
    process.on('unhandledRejection', note);
  });
  afterEach(async () => {
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    process.off('unhandledRejection', note);
    app?.log.release();
    await app?.close();
    app = undefined;
    expect(unhandled).toEqual([]);
  });
  const start = async (...plugins: McpPlugin[]): Promise<void> => {
    app = await TestApp.start({
      adapter: 'fastify',
      server: undefined,
      guards: [trustingGuard],
      principal: ({ user }: { user?: { sub: string } }) => user?.sub,
      providers: [
        Tools,
        NotMallory,
        ByArguments,
        ...plugins.map((useValue, at) => ({ provide: `plugin-${at}`, useValue })),
      ],
    });
  };
  const ask = async (method: string, params: Record<string, unknown>, user = 'ann') => {
    const { result, error } = await new ModernClient(app!.url, as(user)).ask(method, params);
    return result ?? error;
  };
  const call = async (name: string, user?: string): Promise<string> => {
    const answer = await ask('tools/call', { name }, user);
    return answer.content?.[0].text ?? answer.message;
  };

  it('a hostile plugin puts no copy in the place of the refusal of guards', async () => {
    const around: McpRunHooks['around'] = async (next) => passed(await next(), said('kept'));
    await start(ofRuns('app', () => ({ around })));
    for (const tool of ['hidden', 'listed']) expect(await call(tool)).toBe('kept');
    expect(await call('hidden', 'mallory')).toContain('not found');
    expect(await call('listed', 'mallory')).toBe('Not you.');
  });

  it('a hostile plugin that does not call next() in the ring limit fails the call behind the guards', async () => {
    await start(ofRuns('limit', () => ({ around: () => Promise.resolve() })));
    expect(await call('hidden')).toContain('did not call next()');
    expect(await call('hidden', 'mallory')).toContain('not found');
    expect(await call('listed', 'mallory')).toBe('Not you.');
  });

  it('a hostile plugin in the ring limit neither runs those inside it twice, nor ends the process by not awaiting them', async () => {
    let passages = 0;
    const inner = ofRuns('limit', () => ({
      around: async () => {
        passages++;
        throw new Error('inside');
      },
    }));
    const outer = ofRuns('limit', () => ({
      around: async (next: () => Promise<unknown>) => {
        const running = next();
        for (let turn = 0; turn < 3; turn++) await nextTurn();
        await running.catch(() => {});
        return next();
      },
    }));
    await start(outer, inner);
    expect(await call('hidden')).toBe('inside');
    expect(passages).toBe(1);
  });

  it('a hostile plugin whose run() returns a promise fails the run behind the guards', async () => {
    await start(ofRuns('app', () => Promise.reject(new Error('late'))));
    expect(await call('hidden')).toContain('could not process');
    expect(await call('hidden', 'mallory')).toContain('not found');
  });

  it('a hostile plugin whose hides() returns a promise hides all handlers', async () => {
    await start(new Hostile('app', () => ({ hides: () => Promise.reject(new Error('late')) })));
    expect((await ask('tools/list', {})).tools).toEqual([]);
  });

  it.each<[string, McpRing, () => unknown, string]>([
    [
      'attach() returns a promise',
      'app',
      () => Promise.reject(new Error('late')),
      'attach() of a plugin must answer at once',
    ],
    [
      'handler() returns a promise',
      'app',
      () => ({ handler: () => Promise.reject(new Error('late')) }),
      'handler() of a plugin must',
    ],
    ['ring is one of the core', 'results' as McpRing, () => ({}), 'has the ring "results", which does not exist'],
    ['ring is none', undefined as never, () => ({}), 'which does not exist'],
  ])('a hostile plugin stops the start if its %s', async (_, ring, does, message) => {
    await expect(start(new Hostile(ring, does))).rejects.toThrow(message);
  });

  it('a hostile plugin whose admit() returns a query admits the call once', async () => {
    const ends: string[] = [];
    const query = {
      // oxlint-disable-next-line unicorn/no-thenable -- meant
      then: (resolve: () => void): void => {
        resolve();
        resolve();
      },
    };
    const hooks = { admit: () => query, ended: ({ outcome }: { outcome: string }) => void ends.push(outcome) };
    await start(new Hostile('app', () => ({ call: () => hooks })));
    expect(await call('hidden')).toBe('ran');
    expect(ends).toEqual(['ok']);
  });

  it('a plugin that makes its handlers when it is attached has the other plugins and the off switch act on them', async () => {
    const acted: string[] = [];
    const source = new Hostile('app', (endpoint) => {
      const entry = endpoint.entryOf('tool', { name: 'far', handler: () => 'far' }, 'a source');
      const isIt = (kind: string) => kind === 'tool';
      endpoint.serve({
        perCaller: () => false,
        find: (key, _, kind) => (isIt(kind) && key === 'far' ? entry : undefined),
        page: (kind) => ({ items: isIt(kind) ? [{ place: 'far', entry }] : [] }),
      });
    });
    await start(
      source,
      ofRuns('app', ({ target }) => ({ entering: () => void acted.push(target.key) })),
    );
    expect(await call('far')).toBe('far');
    expect(acted).toEqual(['far']);
    await app!.app.get(McpRegistry, { strict: false }).disable('far', { reason: 'It is broken.' });
    expect(await call('far')).toContain('It is broken.');
  });
});
