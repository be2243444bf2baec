import { setImmediate as nextTurn } from 'node:timers/promises';
import { type CanActivate, ForbiddenException, Injectable, UseGuards } from '@nestjs/common';
import {
  currentMcpCall,
  McpArgs,
  type McpCall,
  type McpCallEnd,
  type McpContext,
  McpCtx,
  McpSessionService,
  type McpStreamableOptions,
  Tool,
} from 'nestjs-mcp-streamable';
import { McpTaskService, McpTasksModule } from 'nestjs-mcp-streamable/tasks';
import { createMcpTestClient, ManualClock, type McpTestClient } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type McpEndpointPlugin, McpPlugin } from '../../src/core/plugins/mcp-plugin.js';
import type { McpRing } from '../../src/core/plugins/rings.js';
import type { MaybePromise } from '../../src/core/common/promises.js';
import { McpError } from '../../src/core/protocol/errors.js';
import { gate, TestApp } from '../support/app.js';
import { eventually } from '../support/test-apps.js';

const YES = { type: 'object', properties: { yes: { type: 'boolean' } } } as const;
const Label = { type: 'object', properties: { label: { type: 'string' } } } as const;

const heard: string[] = [];
/** The ends as objects, in order. */
const ends: McpCallEnd[] = [];

/** Notes the ends of calls. */
class Listener extends McpPlugin {
  constructor(readonly ring: McpRing) {
    super();
  }
  attach(): McpEndpointPlugin {
    const note = (what: string, call: McpCall) => (end: McpCallEnd) => {
      const context = currentMcpCall() ? ' in the context of a call' : '';
      heard.push(`${this.ring} ${what} ${call.target?.key ?? 'nothing'} ${end.outcome}${context}`);
      ends.push(end);
    };
    return {
      call: (call) =>
        call.method === 'tools/call' || call.method === 'no/such'
          ? { answered: note('answered', call), ended: note('ended', call) }
          : undefined,
    };
  }
}

/** Throws in each hook that may not change a call. */
class Thrower extends McpPlugin {
  constructor(readonly ring: McpRing) {
    super();
  }
  attach(): McpEndpointPlugin {
    const fail = (): never => {
      throw new Error('A plugin fails.');
    };
    return {
      call: () => ({
        around: (serve) => {
          serve();
          return fail();
        },
        notified: fail,
        asked: fail,
        answered: fail,
        ended: fail,
      }),
      handler: () => ({ run: () => ({ entered: fail, returned: fail, asking: fail }) }),
    };
  }
}

/** Serves calls of tools, and admits subscriptions, when a test lets it. */
class Waiting extends McpPlugin {
  constructor(
    readonly ring: McpRing,
    private readonly admit?: () => MaybePromise<void>,
  ) {
    super();
  }
  attach(): McpEndpointPlugin {
    const around = async (serve: () => unknown): Promise<unknown> => {
      began.open();
      await held.promise;
      return serve();
    };
    const { admit } = this;
    return {
      call: ({ method }) => {
        if (method === 'subscriptions/listen') return admit && { admit };
        return method === 'tools/call' && !admit ? { around: around as <T>(serve: () => T) => T } : undefined;
      },
    };
  }
}

/** Notes that it is asked about a call of a tool. */
class Asked extends McpPlugin {
  readonly ring = 'app';
  attach(): McpEndpointPlugin {
    return { call: ({ method }) => void (method === 'tools/call' && acted.push('plugin')) };
  }
}

/** What acted on a call: a plugin was asked for hooks, a guard ran. */
const acted: string[] = [];

@Injectable()
class Never implements CanActivate {
  canActivate(): never {
    acted.push('guard');
    throw new ForbiddenException('Not you.');
  }
}

let held: ReturnType<typeof gate<void>>;
let began: ReturnType<typeof gate<void>>;

@Injectable()
class Tools {
  @Tool({ name: 'does', inputSchema: Label, timeoutMs: 1_000 })
  async does(@McpArgs('label') label: string, @McpCtx() ctx: McpContext): Promise<string> {
    await ctx.progress(1);
    if (label === 'fails') throw new Error('It failed.');
    if (label === 'asks') await ctx.elicit('yes', { message: 'Yes?', requestedSchema: YES });
    if (label === 'waits') await this.#wait();
    return 'done';
  }
  /** Without a limit of its own. */
  @Tool({ name: 'waits' })
  async waits(): Promise<string> {
    await this.#wait();
    return 'done';
  }
  @Tool({ name: 'denied' })
  @UseGuards(Never)
  denied(): string {
    return 'never';
  }
  @Tool({ name: 'works', inputSchema: Label, task: 'optional' })
  async works(@McpArgs('label') label: string): Promise<string> {
    if (label === 'waits') await this.#wait();
    if (label === 'fails') throw new Error('It failed.');
    return 'done';
  }

  async #wait(): Promise<void> {
    began.open();
    await held.promise;
  }
}

describe.each(['legacy', 'modern'] as const)('the ends of a call of the %s era', (era) => {
  let app: TestApp;
  let clock: ManualClock;
  let mcp: McpTestClient;
  const start = async (options: Partial<McpStreamableOptions> = {}, ...more: McpPlugin[]): Promise<void> => {
    clock = new ManualClock();
    const plugins = [
      ...more,
      new Thrower('record'),
      new Listener('app'),
      new Thrower('limit'),
      new Listener('observe'),
    ];
    app = await TestApp.start({
      adapter: 'fastify',
      server: undefined,
      clock,
      providers: [Tools, Never, ...plugins.map((useValue, at) => ({ provide: `plugin-${at}`, useValue }))],
      module: { imports: [McpTasksModule.forRoot()] },
      ...options,
    });
    mcp = await connected(false);
  };
  const connected = (tasks: boolean): Promise<McpTestClient> =>
    createMcpTestClient(app.app, {
      era,
      tasks,
      elicit: () => ({ action: 'accept', content: { yes: true } }),
    });
  beforeEach(() => {
    heard.length = 0;
    ends.length = 0;
    acted.length = 0;
    held = gate();
    began = gate();
  });
  afterEach(async () => {
    held.open();
    await app.close();
    app.log.release();
  });

  /** Each plugin hears of both once, in this order; those that throw keep no other from it. */
  const expectHeard = (target: string, ...outcomes: [string] | [string, string]): void => {
    const [answered, ended = answered] = outcomes;
    const expected = (what: string, outcome: string) =>
      ['observe', 'app'].map((ring) => `${ring} ${what} ${target} ${outcome}`);
    expect(heard).toEqual([...expected('answered', answered), ...expected('ended', ended)]);
  };
  const calling = (name: string, label?: string, options: { signal?: AbortSignal } = {}) =>
    mcp.callTool(name, label === undefined ? {} : { label }, options).then(
      ({ text }) => text,
      () => 'no answer',
    );

  it('a call whose handler has sent progress ends once, with its answer', async () => {
    await start();
    expect(await calling('does', 'plain')).toBe('done');
    expectHeard('does', 'ok');
    expect(ends[0]).toBe(ends.at(-1));
    expect(ends[0]).toMatchObject({ result: { content: [{ text: 'done' }] }, durationMs: expect.any(Number) });
  });

  it('a call whose tool fails ends as a failed tool', async () => {
    await start();
    await calling('does', 'fails');
    expectHeard('does', 'tool_error');
  });

  it('a call with arguments that do not fit ends as a failed tool', async () => {
    await start();
    await mcp.callTool('does', { label: 7 }).catch(() => {});
    expectHeard('does', 'tool_error');
  });

  it('a call that a guard denies ends as denied', async () => {
    await start();
    await calling('denied');
    expectHeard('denied', 'denied');
  });

  it('a call of a tool that does not exist ends with an error', async () => {
    await start();
    await calling('no-such');
    expectHeard('nothing', '-32602');
    expect(ends[0]!.error).toBeInstanceOf(Error);
  });

  it('a call that asks ends with its answer, and without a session with its questions before', async () => {
    await start();
    expect(await calling('does', 'asks')).toBe('done');
    if (era === 'legacy') return expectHeard('does', 'ok');
    const first = heard.splice(0, 4);
    expectHeard('does', 'ok');
    expect(first).toEqual(heard);
    expect(ends[0]).toMatchObject({ result: { resultType: 'input_required' } });
  });

  it('a call that its client cancels ends at once, and not again when its method returns', async () => {
    await start();
    const abort = new AbortController();
    const call = calling('waits', undefined, { signal: abort.signal });
    await began.promise;
    abort.abort();
    await call;
    await eventually(() => expectHeard('waits', 'cancelled'));
    held.open();
    await app.settled({ inFlight: 0 });
    expectHeard('waits', 'cancelled');
  });

  it.each<[McpRing, string[]]>([
    ['observe', []],
    ['task', ['plugin']],
  ])(
    'a call that its client cancels while a plugin of the ring %s waits ends at once, and is not served',
    async (ring, asked) => {
      await start({}, new Waiting(ring), new Asked());
      const abort = new AbortController();
      const call = calling('denied', undefined, { signal: abort.signal });
      await began.promise;
      abort.abort();
      await call;
      await app.settled({ inFlight: 0 });
      const outcomes = [...heard];
      held.open();
      await nextTurn();
      expect(heard).toEqual(outcomes);
      expect(heard.filter((text) => text.startsWith('observe'))).toHaveLength(2);
      expect(acted).toEqual(asked);
    },
  );

  it('a call whose client has gone ends as cancelled', async () => {
    await start();
    const call = calling('waits');
    await began.promise;
    await mcp.close();
    await call;
    await eventually(() => expectHeard('waits', 'cancelled'));
  });

  it('a call whose handler takes too long ends as a failed tool', async () => {
    await start();
    const call = calling('does', 'waits');
    await began.promise;
    await clock.advance(1_000);
    expect(await call).toContain('did not finish within 1000 ms');
    expectHeard('does', 'tool_error');
  });

  it('a call that takes longer than a request may ends as cancelled', async () => {
    await start({ requestTimeoutMs: 500 });
    const call = calling('waits');
    await began.promise;
    await clock.advance(500);
    await call;
    expectHeard('waits', 'cancelled');
  });

  it('a call ends as cancelled when its node stops', async () => {
    await start({ drainMs: 0 });
    const call = calling('waits');
    await began.promise;
    await app.app.close();
    await call;
    expectHeard('waits', 'cancelled');
  });

  if (era === 'legacy')
    it('a call ends as cancelled when its session ends', async () => {
      await start();
      const call = calling('waits');
      await began.promise;
      const sessions = app.app.get(McpSessionService);
      const [session] = await sessions.list();
      await sessions.terminate(session!.id);
      await call;
      expectHeard('waits', 'cancelled');
    });

  if (era === 'modern') {
    it.each<[string, () => MaybePromise<void>]>([
      [
        'at once',
        () => {
          throw new McpError('UNAVAILABLE', 'Not now.');
        },
      ],
      ['later', () => Promise.reject(new McpError('UNAVAILABLE', 'Not now.'))],
    ])('a subscription that a plugin refuses ends with the error of the plugin, %s', async (_, admit) => {
      await start({}, new Waiting('record', admit));
      const { error } = await app.modern().ask('subscriptions/listen', { notifications: { toolsListChanged: true } });
      expect(error).toMatchObject({ code: -32000, message: 'Not now.' });
      await app.settled({ subscriptions: 0 });
    });

    it('a call that becomes a task ends with the task', async () => {
      await start();
      mcp = await connected(true);
      expect(await calling('works', 'plain')).toBe('done');
      await eventually(() => expect(heard.length).toBeGreaterThanOrEqual(4));
      expectHeard('works', 'ok');
    });

    it.each<[string, string, (tasks: McpTaskService) => Promise<unknown>]>([
      ['done', 'ok', () => Promise.resolve(held.open())],
      ['cancelled', 'cancelled', async (tasks) => tasks.cancel((await tasks.list())[0]!.id)],
      ['over because its node stops', 'cancelled', () => app.app.close()],
    ])('a call that became a task ends when the task is %s', async (_, outcome, act) => {
      await start({ drainMs: 0 });
      mcp = await connected(true);
      const call = calling('works', 'waits');
      await began.promise;
      await clock.advance(10_000);
      await eventually(() => expect(heard).toEqual(['observe answered works ok', 'app answered works ok']));
      expect(ends[0]).toMatchObject({ result: { resultType: 'task' } });
      await act(app.app.get(McpTaskService, { strict: false }));
      await eventually(() => expectHeard('works', 'ok', outcome));
      expect(ends.at(-1)).toMatchObject({ taskId: expect.any(String) });
      await clock.advance(10_000);
      await call;
    });
  }
});
