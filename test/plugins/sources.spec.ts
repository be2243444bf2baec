import { Injectable } from '@nestjs/common';
import { McpRegistry, Prompt, Resource, ResourceTemplate, Tool } from 'nestjs-mcp-streamable';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type HandlerSource, partOf, type SourceItem } from '../../src/core/plugins/handler-source.js';
import {
  type ListedKind,
  type McpEndpointHost,
  type McpEndpointPlugin,
  McpPlugin,
} from '../../src/core/plugins/mcp-plugin.js';
import { gate, TestApp } from '../support/app.js';
import { asking, KINDS, LISTS, type Kind, nameOf, page, resultText } from '../support/kinds.js';
import { ModernClient } from '../support/modern-client.js';
import type { RawClient } from '../support/raw-client.js';
import { sharedApp } from '../support/test-apps.js';

type Entry = ReturnType<McpEndpointHost['entryOf']>;
type Visible = (key: string) => boolean;

/** A source whose handlers and answers a test decides. Its lists are in the order of the keys, which are the places. */
class Remote extends McpPlugin implements HandlerSource {
  readonly ring = 'app';
  readonly entries: Record<ListedKind, Entry[]> = { tool: [], resource: [], template: [], prompt: [] };
  readonly sizes: number[] = [];
  host!: McpEndpointHost;
  kinds: readonly ListedKind[] = KINDS;
  isPerCaller = false;
  failure: Error | undefined;
  later = false;

  constructor(readonly name: string) {
    super();
  }
  attach(endpoint: McpEndpointHost): McpEndpointPlugin {
    this.host = endpoint;
    endpoint.serve(this);
    return {};
  }
  /** Adds handlers, as four of a kind are named. */
  add(kind: Kind, names: readonly string[], visible?: Visible): void {
    for (const name of names) {
      const key = nameOf(kind, name);
      const access = visible && { visible: () => visible(key) };
      const handler = (): string => `${key} of ${this.name}`;
      const registration = {
        tool: { name },
        prompt: { name },
        resource: { uri: key, name },
        template: { uriTemplate: key, name },
      }[kind];
      this.entries[kind].push(this.host.entryOf(kind, { ...registration, handler, ...access }, this.name));
    }
  }
  reset(): void {
    for (const kind of KINDS) this.entries[kind] = [];
    Object.assign(this, { kinds: KINDS, isPerCaller: false, failure: undefined, later: false });
    this.sizes.length = 0;
  }
  perCaller(kind: ListedKind): boolean | undefined {
    return this.kinds.includes(kind) ? this.isPerCaller : undefined;
  }
  async find(key: string, _call: unknown, kind: ListedKind): Promise<Entry | undefined> {
    if (this.failure) throw this.failure;
    const own = this.entries[kind].find((entry) => entry.key === key);
    const matching = kind === 'resource' ? this.entries.template : [];
    return Promise.resolve(own ?? matching.find(({ template }) => template!.written(key)));
  }
  page(kind: ListedKind, _call: unknown, after: string | undefined, size: number): ReturnType<HandlerSource['page']> {
    if (this.failure) throw this.failure;
    this.sizes.push(size);
    if (after !== undefined && !/^[a-z]+\d/.test(after)) return undefined;
    const items = this.entries[kind].map((entry): SourceItem & { place: string } => ({ place: entry.key, entry }));
    const sorted = items.toSorted((one, other) => (one.place < other.place ? -1 : 1));
    return { ...partOf(sorted, after, size, ({ place }) => place > after!), later: this.later };
  }
}

@Injectable()
class Own {
  @Tool({ name: 'own1' })
  tool(): string {
    return 'own';
  }
  @Prompt({ name: 'own1' })
  prompt(): string {
    return 'own';
  }
  @Resource({ uri: 'own1://fixed', name: 'own1' })
  resource(): string {
    return 'own';
  }
  @ResourceTemplate({ uriTemplate: 'own1://{id}/of', name: 'own1' })
  template(): string {
    return 'own';
  }
}

describe('the sources of an endpoint', () => {
  const [first, second] = [new Remote('first'), new Remote('second')];
  let app: TestApp;
  let client: RawClient;
  const launch = sharedApp((options: object) =>
    TestApp.start({
      adapter: 'fastify',
      server: undefined,
      pageSize: 3,
      listCache: { ttlMs: 1_000, scope: 'public' },
      providers: [Own, ...[first, second].map((useValue) => ({ provide: Symbol(), useValue }))],
      ...options,
    }),
  );
  const start = async (options: object = {}): Promise<void> => {
    app = await launch(options);
    client = await app.client().initialize();
  };
  beforeEach(() => start());
  afterEach(() => {
    first.reset();
    second.reset();
  });
  const walk = async (kind: Kind, cursor?: string): Promise<string[][]> => {
    const { names, nextCursor } = await page(client, kind, { cursor });
    return nextCursor === undefined ? [names] : [names, ...(await walk(kind, nextCursor))];
  };
  const keys = (kind: Kind, ...names: string[]): string[] => names.map((name) => nameOf(kind, name));
  const modern = (): ModernClient => new ModernClient(app.url);
  const ask = async (kind: Kind, name: string): Promise<string> => {
    const { method, params } = asking(kind, name);
    const { result, error } = await modern().ask(method, params);
    return result ? resultText(result) : error.message;
  };
  const refusal = async (kind: Kind, cursor: string) =>
    (await modern().ask(LISTS[kind].method, { cursor })).error as { code: number; message: string };
  const encoded = (text: string): string => Buffer.from(text).toString('base64url');

  it.each(KINDS)('D46: the sources of an endpoint fill pages one after the other (%s)', async (kind) => {
    first.add(kind, ['a2', 'a1']);
    second.add(kind, ['b1', 'b2', 'b3']);
    expect(await walk(kind)).toEqual([keys(kind, 'own1', 'a1', 'a2'), keys(kind, 'b1', 'b2', 'b3')]);
    first.add(kind, ['a3', 'a4']);
    expect(await walk(kind)).toEqual([
      keys(kind, 'own1', 'a1', 'a2'),
      keys(kind, 'a3', 'a4', 'b1'),
      keys(kind, 'b2', 'b3'),
    ]);
  });

  it.each(KINDS)(
    'the sources of an endpoint serve what they list, and find it in their own time (%s)',
    async (kind) => {
      first.add(kind, ['a1']);
      second.add(kind, ['b1']);
      expect(await ask(kind, 'a1')).toBe(`${nameOf(kind, 'a1')} of first`);
      expect(await ask(kind, 'b1')).toBe(`${nameOf(kind, 'b1')} of second`);
      expect(await ask(kind, 'own1')).toBe('own');
      expect(await ask(kind, 'nowhere')).toMatch(/not found|unknown/i);
    },
  );

  it.each(KINDS)(
    'D46: the sources of an endpoint leave a name to the table and to the source before, which the log says once (%s)',
    async (kind) => {
      first.add(kind, ['own1', 'same1']);
      second.add(kind, ['same1', 'own1', 'z1']);
      for (let time = 0; time < 2; time++) expect((await walk(kind)).flat()).toEqual(keys(kind, 'own1', 'same1', 'z1'));
      expect(await ask(kind, 'own1')).toBe('own');
      expect(await ask(kind, 'same1')).toMatch(/ of first$/);
      const remarks = app.log
        .texts('warn')
        .filter((line) => line.includes(`The ${kind} `) && line.includes('left out'));
      expect(remarks).toHaveLength(3);
    },
  );

  it.each(KINDS)(
    'D46: the sources of an endpoint are asked for what a page has room for, and no guard for a later page (%s)',
    async (kind) => {
      const asked: string[] = [];
      const visible = (key: string): boolean => {
        asked.push(key);
        return !key.startsWith('a2');
      };
      first.add(kind, ['a1', 'a2', 'a3', 'a4', 'a5', 'a6'], visible);
      const { names, nextCursor } = await page(client, kind);
      expect(names).toEqual(keys(kind, 'own1', 'a1', 'a3'));
      // Of the page that lacked one, the guards of a whole page run side by side.
      expect(first.sizes).toEqual([2, 3]);
      expect(asked).toEqual(keys(kind, 'a1', 'a2', 'a3', 'a4', 'a5'));
      asked.length = 0;
      expect((await page(client, kind, { cursor: nextCursor })).names).toEqual(keys(kind, 'a4', 'a5', 'a6'));
      expect(asked).toEqual(keys(kind, 'a4', 'a5', 'a6'));
      expect(await ask(kind, 'a2')).toMatch(/not found|unknown/i);
    },
  );

  it.each(KINDS)(
    'D46: the sources of an endpoint say without guards whether a full page has another one behind it (%s)',
    async (kind) => {
      const asked: string[] = [];
      first.add(kind, ['a1', 'a2']);
      expect(await walk(kind)).toHaveLength(1);
      second.add(kind, ['b1'], (key) => asked.push(key) > 0);
      const { nextCursor } = await page(client, kind);
      expect(asked).toEqual([]);
      expect(await page(client, kind, { cursor: nextCursor })).toEqual({ names: keys(kind, 'b1') });
    },
  );

  it('D46: the sources of an endpoint neither repeat nor lose what others come and go beside', async () => {
    first.add('tool', ['a2', 'a4', 'a6']);
    const { names, nextCursor } = await page(client, 'tool');
    expect(names).toEqual(['own1', 'a2', 'a4']);
    first.entries.tool = [];
    first.add('tool', ['a1', 'a3', 'a5', 'a6']);
    expect((await page(client, 'tool', { cursor: nextCursor })).names).toEqual(['a5', 'a6']);
    first.entries.tool = [];
    expect(await page(client, 'tool', { cursor: nextCursor })).toEqual({ names: [] });
  });

  it('D46: the sources of an endpoint end a page that has room, if the rest is for another request', async () => {
    first.later = true;
    first.add('tool', ['a1', 'a2', 'a3', 'a4'], (key) => key === 'a4');
    second.add('tool', ['b1']);
    expect(await walk('tool')).toEqual([['own1'], ['a4', 'b1']]);
    expect(first.sizes).toEqual([2, 3]);
  });

  it('a list is not asked for further parts of a source when one was empty, or when its call has ended', async () => {
    let asked = 0;
    const part = vi.spyOn(first, 'page').mockImplementation(() => ({ items: [], next: `a${++asked}` }));
    expect(await page(client, 'tool')).toEqual({ names: ['own1'], nextCursor: encoded('4:2:a1') });
    expect(asked).toBe(1);
    const [hidden] = [first.host.entryOf('tool', { name: 'h', visible: () => false, handler: () => '' }, 'first')];
    const asking = gate();
    part.mockImplementation(async () => {
      if (++asked > 10) asking.open();
      await new Promise(setImmediate);
      return { items: [{ place: 'a1', entry: hidden }], next: 'a1' };
    });
    const message = { jsonrpc: '2.0', id: 'endless', method: 'tools/list' };
    const answer = client.post(message);
    await asking.promise;
    await client.notify('notifications/cancelled', { requestId: 'endless' });
    await (await answer).text();
    await app.settled({ inFlight: 0 });
    const before = asked;
    for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
    expect(asked - before).toBeLessThan(3);
    part.mockRestore();
  });

  it('the sources of an endpoint may have places with any characters', async () => {
    first.add('tool', ['a1:ü', 'a1:日本', 'a1:💥', 'a9']);
    expect((await walk('tool')).flat().toSorted()).toEqual(['own1', 'a1:ü', 'a1:日本', 'a1:💥', 'a9'].toSorted());
  });

  it.each(KINDS)(
    'D46: a cursor that no source has is refused, and one of a source that lists no more (%s)',
    async (kind) => {
      first.add(kind, ['a1', 'a2', 'a3']);
      const { nextCursor } = await page(client, kind);
      expect(Buffer.from(nextCursor!, 'base64url').toString()).toMatch(/^4:2:a2/);
      const texts = [
        '4:2:',
        '4:2',
        '4:02x:a1',
        '4:2:%',
        '4:4:a1',
        '4:1:0:0',
        '4:999999999:a1',
        '4:-1:1',
        '3:0:a1',
        '5:2:a1',
      ];
      const hostile = [...texts.map(encoded), '\uD800', '💥', nextCursor!.slice(1), 'A'.repeat(100_000)];
      for (const cursor of hostile) {
        const { code, message } = await refusal(kind, cursor);
        expect([cursor, code]).toEqual([cursor, -32602]);
        expect(message).toContain('Request the list again without a cursor.');
      }
      first.kinds = [];
      expect((await refusal(kind, nextCursor!)).code).toBe(-32602);
      expect((await walk(kind)).flat()).toEqual(keys(kind, 'own1'));
    },
  );

  it('a source that fails fails the lists and calls that ask it, and no others', async () => {
    first.failure = new Error('The remote server is away: secret.');
    const { error } = await modern().ask('tools/list');
    expect(error.code).toBe(-32603);
    expect(await ask('tool', 'elsewhere')).not.toContain('secret');
    expect(await ask('tool', 'own1')).toBe('own');
  });

  it('D46: the sources of an endpoint make lists private if one of them differs by caller', async () => {
    const scope = async (kind: Kind): Promise<string> => (await modern().ask(LISTS[kind].method)).result.cacheScope;
    expect(await scope('tool')).toBe('public');
    first.isPerCaller = true;
    first.kinds = ['tool'];
    expect([await scope('tool'), await scope('prompt')]).toEqual(['private', 'public']);
  });

  it('the sources of an endpoint have completions and subscriptions as the table has', async () => {
    const complete = { id: (value: string) => [`${value}1`] };
    const template = { uriTemplate: 'far://{id}/of', name: 'far', handler: () => 'far', complete };
    first.entries.template.push(first.host.entryOf('template', template, 'first'));
    const prompt = { name: 'p1', arguments: [{ name: 'id' }], handler: () => 'p', complete };
    first.entries.prompt.push(first.host.entryOf('prompt', prompt, 'first'));
    const argument = { name: 'id', value: 'x' };
    for (const ref of [
      { type: 'ref/resource', uri: 'far://{id}/of' },
      { type: 'ref/prompt', name: 'p1' },
    ]) {
      expect((await modern().ask('completion/complete', { ref, argument })).result.completion.values).toEqual(['x1']);
    }
    const subscribe = async (uri: string) =>
      await (
        await client.post({ jsonrpc: '2.0', id: client.nextId(), method: 'resources/subscribe', params: { uri } })
      ).json();
    expect(await subscribe('far://7/of')).toMatchObject({ result: {} });
    expect((await subscribe('nowhere://7/of')).error.code).toBe(-32602);
  });

  it.each(['a1://../of', 'a1://%2e%2E/of', 'a1://x%2F..%2Fy/of', 'a1://%FF/of'])(
    'D42: a template of a source is not found for a URI that no template matches (%s)',
    async (uri) => {
      first.add('template', ['a1']);
      expect((await modern().ask('resources/read', { uri })).error).toMatchObject({ code: -32602 });
      const subscribe = { jsonrpc: '2.0', id: client.nextId(), method: 'resources/subscribe', params: { uri } };
      expect((await (await client.post(subscribe)).json()).error.code).toBe(-32602);
    },
  );

  it('the sources of an endpoint tell clients that their lists have changed', async () => {
    const listener = await client.listen();
    first.host.changed('prompt');
    first.host.changed('tool', new Set([null]));
    first.host.changed('tool', new Set(['ann']));
    await listener.count(2);
    const methods = listener.messages.map(({ method }: { method: string }) => method).toSorted();
    expect(methods).toEqual(['notifications/prompts/list_changed', 'notifications/tools/list_changed']);
  });

  it('the handlers of a source are checked, and plugins are asked about them', async () => {
    const third = new Remote('third');
    await start({ readOnly: true, providers: [{ provide: Symbol(), useValue: third }] });
    const { host } = third;
    const handler = (): string => 'ran';
    const entryOf = (registration: object) => () => host.entryOf('tool', { handler, ...registration }, 'third');
    expect(entryOf({ name: '' })).toThrow('must be a non-empty string');
    expect(entryOf({ name: 'writes' })).toThrow('readOnly');
    expect(entryOf({ name: 'x', handler: 'none' })).toThrow('tool "x" (third) cannot be served: its "handler" must be');
    const annotations = { readOnlyHint: true };
    expect(entryOf({ name: 'limited', annotations, maxConcurrent: -1 })).toThrow('maxConcurrent');
    const entry = entryOf({ name: 'reads', annotations })();
    expect([entry.key, entry.source]).toEqual(['reads', 'third']);
  });

  it('the handlers of a source are switched off by name, without a remark that there is none', async () => {
    first.add('tool', ['a1']);
    const registry = app.app.get(McpRegistry, { strict: false });
    await registry.disable('a1', { reason: 'It is broken.' });
    expect((await walk('tool')).flat()).toEqual(['own1']);
    expect(await ask('tool', 'a1')).toContain('It is broken.');
    expect(app.log.texts('warn').filter((line) => line.includes('disable()'))).toEqual([]);
    await registry.enable('a1');
    expect((await walk('tool')).flat()).toEqual(['own1', 'a1']);
  });
});
