import { Injectable, UseGuards } from '@nestjs/common';
import {
  Complete,
  ListResources,
  McpArgs,
  McpCatalogue,
  type McpCatalogueTool,
  type McpContext,
  McpCtx,
  McpRegistry,
  McpStreamableModule,
  type McpStreamableModuleOptions,
  McpToolCaller,
  Prompt,
  Resource,
  ResourceTemplate,
  Tool,
} from 'nestjs-mcp-streamable';
import { McpAuditModule } from 'nestjs-mcp-streamable/audit';
import { InMemoryStateStore, type McpStateStore } from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { gate, TestApp, serverInfo } from '../support/app.js';
import { KINDS } from '../support/kinds.js';
import { ModernClient } from '../support/modern-client.js';
import type { RawClient } from '../support/raw-client.js';
import { sharedApp } from '../support/test-apps.js';
import { Never, trustingGuard } from '../support/users.js';

const REASON = 'The payment provider is down.';
const TEXT = `The tool "refund" is switched off: ${REASON}`;
const OFF = { isError: true, content: [{ type: 'text', text: TEXT }] };

let running = gate();
let held = gate();

@Injectable()
class Handlers {
  runs = 0;

  @Tool({ name: 'refund' })
  refund(): string {
    this.runs++;
    return 'refunded';
  }
  @Tool({ name: 'slow' })
  async slow(@McpCtx() _: McpContext): Promise<string> {
    running.open(undefined);
    await held.promise;
    return 'done';
  }
  @Tool({ name: 'staff_only' })
  @UseGuards(Never)
  staffOnly(): string {
    return 'never';
  }
  @Tool({ name: '__proto__' })
  odd(): string {
    return 'odd';
  }
  @Resource({ uri: 'ledger://today', name: 'ledger' })
  ledger(): string {
    return 'all of today';
  }
  @ResourceTemplate({ uriTemplate: 'order://{id}', name: 'order' })
  order(@McpArgs() { uri }: { uri: string }): string {
    return uri;
  }
  @ListResources('order://{id}')
  orders(): object[] {
    return [{ uri: 'order://1' }];
  }
  @Prompt({ name: 'dun', arguments: [{ name: 'customer' }] })
  dun(): string {
    return 'Pay!';
  }
  @Complete({ prompt: 'dun', argument: 'customer' })
  customers(): string[] {
    return ['ann'];
  }
}

/** Keeps values as a store of an app does, which fails when a test says so. */
class FaultyStore implements McpStateStore {
  away = false;
  hangs = false;
  reads = 0;
  readonly kept = new Map<string, unknown>();

  async get(key: string): Promise<unknown> {
    this.reads++;
    await this.#answers();
    return structuredClone(this.kept.get(key));
  }
  async set(key: string, value: unknown): Promise<void> {
    await this.#answers();
    this.kept.set(key, structuredClone(value));
  }
  async delete(key: string): Promise<boolean> {
    return this.kept.delete(key);
  }
  async #answers(): Promise<void> {
    if (this.hangs) await new Promise(() => {});
    if (this.away) throw new Error('The store is away.');
  }
}

describe('a handler that is switched off', () => {
  let app: TestApp;
  let registry: McpRegistry;
  let legacy: RawClient;
  let modern: ModernClient;

  const launch = (options: Partial<McpStreamableModuleOptions> = {}, clock?: ManualClock): Promise<TestApp> =>
    TestApp.of(
      'fastify',
      {
        imports: [McpStreamableModule.forRoot({ serverInfo, guards: [trustingGuard], ...options })],
        providers: [Handlers, Never],
      },
      undefined,
      clock,
    );
  const share = sharedApp(launch);
  async function start(launched = share()): Promise<void> {
    [running, held] = [gate(), gate()];
    app = await launched;
    app.app.get(Handlers).runs = 0;
    registry = app.app.get(McpRegistry);
    modern = new ModernClient(app.url);
    legacy = await app.client().initialize();
  }
  afterEach(async () => {
    for (const kind of KINDS)
      for (const { key, disabled } of registry.list(kind)) if (disabled) await registry.enable(key, { kind });
  });
  const ask = async (method: string, params: object = {}) =>
    (await legacy.post({ jsonrpc: '2.0', id: legacy.nextId(), method, params })).json();
  const listed = async (method: string): Promise<string[]> => {
    const { result } = await ask(method);
    const list = Object.values(result).find(Array.isArray) as { name?: string; uri?: string }[];
    return list.map(({ name, uri }) => uri ?? name!);
  };

  it('a handler that is switched off is absent from lists in both eras, and the model reads the reason when it calls it; until it is on again', async () => {
    await start();
    await registry.disable('refund', { reason: REASON });
    expect(await listed('tools/list')).toEqual(['slow', '__proto__']);
    expect((await modern.ask('tools/list')).result.tools).toHaveLength(2);
    expect((await ask('tools/call', { name: 'refund' })).result).toEqual(OFF);
    expect((await modern.ask('tools/call', { name: 'refund' })).result).toMatchObject({
      ...OFF,
      resultType: 'complete',
    });
    expect(app.app.get(Handlers).runs).toBe(0);
    const [info, other] = registry.list('tool');
    expect(info).toMatchObject({ key: 'refund', disabled: { reason: REASON, since: expect.any(Number) } });
    expect(other).not.toHaveProperty('disabled');
    await registry.enable('refund');
    expect(await listed('tools/list')).toContain('refund');
    expect((await ask('tools/call', { name: 'refund' })).result).toMatchObject({ content: [{ text: 'refunded' }] });
    expect(registry.list('tool')[0]).not.toHaveProperty('disabled');
  });

  it('a handler that is switched off may be a resource, a template with its listed resources, or a prompt with its completions', async () => {
    await start();
    await registry.disable('ledger://today', { kind: 'resource', reason: 'Closed.' });
    await registry.disable('order://{id}', { kind: 'template' });
    await registry.disable('dun', { kind: 'prompt', reason: REASON });
    expect(await listed('resources/list')).toEqual([]);
    expect(await listed('resources/templates/list')).toEqual([]);
    expect(await listed('prompts/list')).toEqual([]);
    const error = (code: number, message: unknown) => ({ error: { code, message } });
    expect(await ask('resources/read', { uri: 'ledger://today' })).toMatchObject(
      error(-32603, 'The resource "ledger://today" is switched off: Closed.'),
    );
    expect(await ask('resources/read', { uri: 'order://7' })).toMatchObject(
      error(-32603, 'The resource template "order://{id}" is switched off.'),
    );
    expect(await ask('prompts/get', { name: 'dun' })).toMatchObject(error(-32603, expect.stringContaining(REASON)));
    expect(await ask('resources/subscribe', { uri: 'ledger://today' })).toHaveProperty('error');
    const completion = { ref: { type: 'ref/prompt', name: 'dun' }, argument: { name: 'customer', value: '' } };
    expect(await ask('completion/complete', completion)).toMatchObject(error(-32602, expect.any(String)));
    expect(await listed('tools/list')).toHaveLength(3);
    for (const [key, kind] of [
      ['ledger://today', 'resource'],
      ['order://{id}', 'template'],
      ['dun', 'prompt'],
    ] as const)
      await registry.enable(key, { kind });
    expect(await listed('resources/list')).toEqual(['ledger://today', 'order://1']);
    expect(await ask('completion/complete', completion)).toMatchObject({ result: { completion: { values: ['ann'] } } });
  });

  it('a handler that is switched off is announced to clients of both eras, once for each change', async () => {
    await start();
    const stream = await legacy.listen();
    const subscription = await modern.listen({ toolsListChanged: true });
    await registry.disable('refund');
    await registry.disable('refund', { reason: 'another reason' });
    await stream.count(1);
    await registry.enable('refund');
    await registry.enable('refund');
    await stream.count(2);
    await subscription.count(3);
    expect(stream.messages.map(({ method }) => method)).toEqual(
      Array.from({ length: 2 }, () => 'notifications/tools/list_changed'),
    );
    stream.destroy();
    subscription.destroy();
  });

  it('a handler that is switched off lets calls continue that run, and refuses those of the app itself', async () => {
    await start();
    const call = ask('tools/call', { name: 'slow' });
    await running.promise;
    await registry.disable('slow', { reason: REASON });
    const within = app.app.get(McpToolCaller);
    expect(await within.callTool('slow')).toMatchObject({ isError: true });
    expect((await within.listTools()).map(({ name }) => name)).not.toContain('slow');
    held.open(undefined);
    expect((await call).result).toMatchObject({ content: [{ text: 'done' }] });
  });

  it('a handler that is switched off is not told of to a caller from whom a guard hides it', async () => {
    await start();
    const before = await ask('tools/call', { name: 'staff_only' });
    await registry.disable('staff_only', { reason: REASON });
    const after = await ask('tools/call', { name: 'staff_only' });
    expect(after.error.message).toBe(before.error.message);
    expect(JSON.stringify(after)).not.toContain(REASON);
    expect(await ask('tools/call', { name: 'no such tool' })).toHaveProperty('error');
  });

  it('a handler that is switched off may have a name that no handler has yet, or that of a prototype', async () => {
    await start();
    await registry.disable('later', { reason: REASON });
    await registry.disable('__proto__', { reason: REASON });
    const warnings = app.log.texts('warn').filter((text) => text.includes('disable()'));
    expect(warnings).toEqual([expect.stringContaining('has no tool "later" yet')]);
    registry.registerTool({ name: 'later', handler: () => 'too early' });
    expect(await listed('tools/list')).toEqual(['refund', 'slow']);
    for (const name of ['later', '__proto__'])
      expect((await ask('tools/call', { name })).result.content[0].text).toBe(
        `The tool "${name}" is switched off: ${REASON}`,
      );
    await registry.enable('__proto__');
    expect((await ask('tools/call', { name: '__proto__' })).result).toMatchObject({ content: [{ text: 'odd' }] });
    expect(({} as Record<string, unknown>)['off']).toBeUndefined();
  });

  it.each<[string, () => Promise<void>, string]>([
    ['without a name', () => registry.disable(''), 'must be a text of at most 2000 characters; got ""'],
    ['with a name that is no text', () => registry.disable(5 as never), 'got 5'],
    ['with an endless reason', () => registry.disable('a', { reason: 'x'.repeat(501) }), 'at most 500 characters'],
    [
      'of another kind',
      () => registry.enable('a', { kind: 'method' as never }),
      'The kinds are: tool, resource, template, prompt.',
    ],
    ['of the kind __proto__', () => registry.disable('a', { kind: '__proto__' as never }), 'cannot be switched off'],
  ])('a handler that is switched off cannot be one %s', async (_, act, text) => {
    await start();
    await expect(act()).rejects.toThrow(text);
    expect(await listed('tools/list')).toHaveLength(3);
  });

  describe('with a state store', () => {
    let own: TestApp | undefined;
    afterEach(() => own?.close());
    const startOver = async (stateStore: McpStateStore, clock?: ManualClock): Promise<void> => {
      own = await launch({ stateStore }, clock);
      await start(Promise.resolve(own));
    };
    const restart = async (stateStore: McpStateStore, clock?: ManualClock): Promise<void> => {
      await own!.close();
      await startOver(stateStore, clock);
    };
    const isOff = async (): Promise<boolean> => (await ask('tools/call', { name: 'refund' })).result.isError === true;

    it('a handler that is switched off, with a state store, is off after a restart, and on after the next if it was switched on', async () => {
      const store = new FaultyStore();
      await startOver(store);
      await registry.disable('refund', { reason: REASON });
      await registry.disable('dun', { kind: 'prompt' });
      expect([...store.kept.keys()]).toEqual(['path.mcp:switches:all']);
      await restart(store);
      expect((await ask('tools/call', { name: 'refund' })).result).toEqual(OFF);
      expect(await listed('prompts/list')).toEqual([]);
      await registry.enable('refund');
      await restart(store);
      expect(await isOff()).toBe(false);
      expect(await listed('prompts/list')).toEqual([]);
    });

    it.each([
      ['off', true],
      ['on', false],
    ])(
      'a handler that is switched off, with a state store, is %s if the last of many changes at the same moment says so',
      async (_, off) => {
        const store = new FaultyStore();
        await startOver(store);
        const changes = Array.from({ length: 100 }, (_, n) =>
          (n % 2 === 0) === off ? registry.enable('refund') : registry.disable('refund'),
        );
        await Promise.all(changes);
        expect(await isOff()).toBe(off);
        await restart(store);
        expect(await isOff()).toBe(off);
      },
    );

    it('a handler that is switched off, with a state store, is off at once when the store fails; the error says so, and the store gets it when it is back', async () => {
      const [store, clock] = [new FaultyStore(), new ManualClock()];
      await startOver(store, clock);
      store.away = true;
      await expect(registry.disable('refund', { reason: REASON })).rejects.toMatchObject({
        code: 'STORE_UNAVAILABLE',
        message: expect.stringContaining('The tool "refund" is switched off here'),
      });
      expect(await isOff()).toBe(true);
      await clock.advance(60_000);
      expect(await isOff()).toBe(true);
      store.away = false;
      await clock.advance(60_000);
      await restart(store, clock);
      expect(await isOff()).toBe(true);
    });

    it('a handler that is switched off, with a state store, stays off when the store fails, hangs, or has lost everything', async () => {
      const [store, clock] = [new FaultyStore(), new ManualClock()];
      await startOver(store, clock);
      await registry.disable('refund', { reason: REASON });
      store.away = true;
      await clock.advance(30_000);
      expect(await isOff()).toBe(true);
      store.away = false;
      store.kept.clear();
      await clock.advance(30_000);
      expect(await isOff()).toBe(true);
      expect(store.kept.size).toBe(1);
      store.hangs = true;
      const enabling = registry.enable('refund').catch(({ message }: Error) => message);
      expect(await isOff()).toBe(false);
      await clock.advance(5_000);
      expect(await enabling).toContain('The tool "refund" is switched on here');
      expect((await ask('tools/call', { name: 'slow_' })).error.code).toBe(-32602);
    });

    it('a handler that is switched off, with a state store, stays off at a node that starts while the store fails: its calls are refused until it answers', async () => {
      const store = new FaultyStore();
      await startOver(store);
      await registry.disable('refund', { reason: REASON });
      store.away = true;
      await restart(store);
      expect(app.log.texts('error').join('\n')).toContain('could not read which handlers are switched off');
      const refused = await modern.request('tools/call', { name: 'refund' });
      expect(refused.status).toBe(503);
      await refused.text();
      expect((await ask('tools/call', { name: 'refund' })).error.message).toContain('does not know yet');
      expect(app.app.get(Handlers).runs).toBe(0);
      store.away = false;
      expect((await ask('tools/call', { name: 'refund' })).result).toEqual(OFF);
    });

    it('a handler that is switched off, with a state store, is not told of to a caller from whom a guard hides it by a node that does not know what is off, and the store is not read for this caller', async () => {
      const store = new FaultyStore();
      store.away = true;
      await startOver(store);
      const missing = await modern.ask('tools/call', { name: 'no such tool' });
      const reads = store.reads;
      const hidden = await modern.ask('tools/call', { name: 'staff_only' });
      expect(hidden.error).toEqual(JSON.parse(JSON.stringify(missing.error).replaceAll('no such tool', 'staff_only')));
      expect((await ask('tools/call', { name: 'staff_only' })).error).toMatchObject(hidden.error);
      expect(store.reads).toBe(reads);
      expect((await modern.ask('tools/call', { name: 'refund' })).error.message).toContain('does not know yet');
      expect(store.reads).toBe(reads + 1);
    });

    it('a handler that is switched off, with a state store, is refused when the node learns of it at a call; others run, and pay nothing after it', async () => {
      const store = new FaultyStore();
      await startOver(store);
      await registry.disable('refund', { reason: REASON });
      store.away = true;
      await restart(store);
      store.away = false;
      expect((await ask('tools/call', { name: '__proto__' })).result).toMatchObject({ content: [{ text: 'odd' }] });
      const reads = store.reads;
      expect((await ask('tools/call', { name: '__proto__' })).result).toMatchObject({ content: [{ text: 'odd' }] });
      expect((await ask('tools/call', { name: 'refund' })).result).toEqual(OFF);
      expect(store.reads).toBe(reads);
    });

    it.each<[string, unknown]>([
      ['a text', 'off'],
      ['other kinds', [{ kind: 'method', key: 'refund', off: true, at: 1 }, null, 5, { kind: 'tool' }]],
      [
        'odd values',
        [
          { kind: 'tool', key: {}, off: 1, at: 'x' },
          { kind: 'tool', key: 'slow', off: true, at: Infinity },
        ],
      ],
      ['no reason for its reason', [{ kind: 'tool', key: 'refund', off: true, at: 1, reason: { toString: 1 } }]],
    ])(
      'a handler that is switched off, with a state store, is not what the store has, if that is %s',
      async (_, value) => {
        const store = new FaultyStore();
        store.kept.set('path.mcp:switches:all', value);
        await startOver(store);
        expect(await listed('tools/list')).toHaveLength(3);
        await registry.disable('refund', { reason: REASON });
        await restart(store);
        expect(await isOff()).toBe(true);
      },
    );

    it('a handler that is switched off, with a state store, leaves nothing in the store of an app that switches nothing', async () => {
      const clock = new ManualClock();
      const store = new InMemoryStateStore(clock);
      await startOver(store, clock);
      await clock.advance(60_000);
      expect(await isOff()).toBe(false);
      expect(store.size).toBe(0);
    });
  });

  it('a handler that is switched off cannot be one of an SDK server', async () => {
    const imports = [McpStreamableModule.forRoot({ serverInfo, server: () => ({}) as never })];
    const ofServers = await TestApp.of('fastify', { imports });
    await expect(ofServers.app.get(McpRegistry).disable('refund')).rejects.toThrow(
      'whose handlers are those of the SDK',
    );
    await ofServers.close();
  });
});

describe('a handler that is switched off while its call waits', () => {
  /** Lets a call in that waits for its record. */
  let admitted = gate();
  let waiting = gate();
  let runs: string[] = [];

  @McpCatalogue()
  @Injectable()
  class Plugins {
    list(): McpCatalogueTool[] {
      return [{ name: 'plugin' }];
    }
    call(name: string): string {
      runs.push(name);
      return name;
    }
  }
  const sink = {
    write: async ({ outcome }: { outcome: string }) => {
      if (outcome !== 'attempt') return;
      waiting.open(undefined);
      await admitted.promise;
    },
  };
  const launch = sharedApp(() =>
    TestApp.of('fastify', {
      imports: [McpStreamableModule.forRoot({ serverInfo }), McpAuditModule.forRoot({ sink, required: true })],
      providers: [Handlers, Never, Plugins],
    }),
  );

  it.each<[string, string, 'tool' | 'template', Record<string, string>, (registry: McpRegistry) => void]>([
    ['a decorated tool', 'refund', 'tool', { name: 'refund' }, () => {}],
    ['a tool of a catalogue', 'plugin', 'tool', { name: 'plugin' }, () => {}],
    [
      'a tool of a catalogue that has changed',
      'plugin',
      'tool',
      { name: 'plugin' },
      (registry) => registry.changed(Plugins),
    ],
    ['a template', 'order://{id}', 'template', { uri: 'order://1' }, () => {}],
  ])(
    'a handler that is switched off while its call waits is refused, also if it is %s, and runs when it is on again',
    async (_, key, kind, params, meanwhile) => {
      const app = await launch();
      const registry = app.app.get(McpRegistry);
      const client = new ModernClient(app.url);
      const method = kind === 'tool' ? 'tools/call' : 'resources/read';
      [admitted, waiting, runs] = [gate(), gate(), []];
      app.app.get(Handlers).runs = 0;
      const answerOf = async (change: () => Promise<void>) => {
        [admitted, waiting] = [gate(), gate()];
        const call = client.ask(method, params);
        await waiting.promise;
        await change();
        meanwhile(registry);
        admitted.open(undefined);
        return JSON.stringify(await call);
      };
      expect(await answerOf(() => registry.disable(key, { kind, reason: 'Not now.' }))).toContain(
        'switched off: Not now.',
      );
      expect([runs, app.app.get(Handlers).runs]).toEqual([[], 0]);
      expect(await answerOf(() => registry.enable(key, { kind }))).not.toContain('switched off');
    },
  );

  it('a handler that is switched off while its call waits is refused, also if it is no longer registered', async () => {
    const app = await launch();
    const registry = app.app.get(McpRegistry);
    [admitted, waiting] = [gate(), gate()];
    const tool = registry.registerTool({ name: 'late', handler: () => 'ran' });
    const call = new ModernClient(app.url).ask('tools/call', { name: 'late' });
    await waiting.promise;
    await registry.disable('late', { reason: 'Not now.' });
    tool.remove();
    admitted.open(undefined);
    expect((await call).result.content[0].text).toContain('switched off: Not now.');
    await registry.enable('late');
  });
});

describe('a list without a handler that is switched off', () => {
  it('a list without a handler that is switched off is public, as it is the same for all callers', async () => {
    @Injectable()
    class Plain {
      @Tool({ name: 'refund' })
      refund(): string {
        return '';
      }
      @Tool({ name: 'search' })
      search(): string {
        return '';
      }
    }
    const app = await TestApp.of('fastify', {
      imports: [McpStreamableModule.forRoot({ serverInfo, listCache: { ttlMs: 1_000, scope: 'public' } })],
      providers: [Plain],
    });
    await app.app.get(McpRegistry).disable('refund');
    const { result } = await new ModernClient(app.url).ask('tools/list');
    expect(result).toMatchObject({ tools: [{ name: 'search' }], cacheScope: 'public', ttlMs: 1_000 });
    expect(result.tools).toHaveLength(1);
    await app.close();
  });
});
