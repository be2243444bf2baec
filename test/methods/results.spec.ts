import { Injectable } from '@nestjs/common';
import { inputRequired } from '@modelcontextprotocol/server';
import { McpArgs, type McpContext, Prompt, Resource, Tool } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { TestApp } from '../support/app.js';
import { registryOf, testApps } from '../support/test-apps.js';
import { ModernClient } from '../support/modern-client.js';
import { ASKABLE, Caller, ERAS, EVERYTHING, FORM, registerAll, REQUESTS, type Requested } from './callers.js';

const SERVER_INFO = 'io.modelcontextprotocol/serverInfo';
const SAID = { type: 'text', text: 'said' };
const OWN = { name: 'own', version: '2' };
const ICON = { src: 'https://a.example/icon.png', mimeType: 'image/png', sizes: ['48x48'] };
const Sum = z.object({ sum: z.number() });

@Injectable()
class Everything {
  @Tool({ name: 'add', title: 'Adds', icons: [ICON], outputSchema: Sum, inputSchema: z.object({ a: z.number() }) })
  add(@McpArgs('a') a: number): z.infer<typeof Sum> {
    return { sum: a };
  }
  @Resource({ uri: 'app://text', name: 'text', title: 'A text', icons: [ICON] })
  text(): string {
    return 'text';
  }
  @Prompt({ name: 'hello', title: 'Says hello', icons: [ICON] })
  hello(): string {
    return 'Hello';
  }
}

const completing: Requested = [
  'completion/complete',
  { ref: { type: 'ref/prompt', name: 'completes' }, argument: { name: 'a', value: '' } },
];
/** What every method of the era without sessions answers when all is right. */
const RIGHT: readonly Requested[] = [
  ['server/discover', {}],
  ['tools/list', {}],
  ['resources/list', {}],
  ['resources/templates/list', {}],
  ['prompts/list', {}],
  ['tools/call', { name: 'add', arguments: { a: 1 } }],
  ['resources/read', { uri: 'app://text' }],
  ['prompts/get', { name: 'hello' }],
  completing,
];
const CACHED = RIGHT.map(([method]) => method).filter((method) => /list$|discover|read/.test(method));

describe('outgoing results', () => {
  const startApp = testApps('fastify', { shared: true, providers: [Everything], instructions: 'Add a lot.' });
  const start = async (options = {}): Promise<TestApp> => {
    const app = await startApp(options);
    const complete = { a: (): string[] => ['one'] };
    registryOf(app).registerPrompt({ name: 'completes', arguments: [{ name: 'a' }], handler: () => 'x', complete });
    return app;
  };
  const whole = (more: object): object => ({ content: [SAID], contents: [], messages: [], ...more });

  it('D13: a result of revision 2026-07-28 has a resultType, that of a session has none', async () => {
    const app = await start();
    const [modern, legacy] = [await Caller.of(app, 'modern'), await Caller.of(app, 'legacy')];
    for (const request of RIGHT) {
      expect((await modern.ask(...request)).result).toMatchObject({ resultType: 'complete' });
      if (request[0] !== 'server/discover')
        expect((await legacy.ask(...request)).result).not.toHaveProperty('resultType');
    }
  });

  it('D13: tools, resources and prompts may ask', async () => {
    const app = await start();
    registerAll(app, 'asks', () => inputRequired({ inputRequests: { q: inputRequired.elicit(FORM) } }));
    const caller = await Caller.of(app, 'modern', EVERYTHING);
    for (const kind of ASKABLE) {
      const { result } = await caller.ask(...REQUESTS[kind]('asks'));
      expect(result).toMatchObject({
        resultType: 'input_required',
        inputRequests: { q: { method: 'elicitation/create' } },
      });
      expect(Object.keys(result).toSorted()).toEqual(['_meta', 'inputRequests', 'resultType']);
    }
  });

  it.each(ERAS)('D13: a completion that asks is a mistake of its handler, in the %s era', async (era) => {
    const app = await startApp();
    const complete = { a: () => inputRequired({ requestState: 'x' }) as never };
    registryOf(app).registerPrompt({ name: 'completes', arguments: [{ name: 'a' }], handler: () => 'x', complete });
    const caller = await Caller.of(app, era, EVERYTHING);
    expect(await caller.ask(...completing)).toMatchObject({ status: 200, error: { code: -32603 } });
    expect(app.log.texts('error')).toHaveLength(1);
  });

  it.each(['task', 'other', 5, null])('D13: no method has another resultType (%#)', async (resultType) => {
    const app = await start();
    registerAll(app, 'odd', () => whole({ resultType, task: { taskId: '1' } }));
    const caller = await Caller.of(app, 'modern', EVERYTHING);
    for (const kind of ASKABLE) {
      const { result, error } = await caller.ask(...REQUESTS[kind]('odd'));
      expect(result).toBeUndefined();
      expect(error).toMatchObject({ code: -32603, message: expect.stringContaining('resultType') });
    }
  });

  describe('D14: the server info', () => {
    const infoOf = ({ result }: { result?: { _meta?: Record<string, unknown> } }): unknown =>
      result?._meta?.[SERVER_INFO];
    const test = { name: 'test', version: '1.0.0' };

    it('the server info is in every result of revision 2026-07-28', async () => {
      const caller = await Caller.of(await start(), 'modern');
      for (const request of RIGHT) expect([request, infoOf(await caller.ask(...request))]).toEqual([request, test]);
    });

    it('the server info is in questions and in failures of tools', async () => {
      const app = await start();
      registerAll(app, 'asks', (_: object, ctx: McpContext) => ctx.elicit('q', FORM));
      const caller = await Caller.of(app, 'modern', EVERYTHING);
      for (const kind of ASKABLE) expect(infoOf(await caller.ask(...REQUESTS[kind]('asks')))).toEqual(test);
      const failed = await caller.call('add', { a: 'x' });
      expect([failed.result.isError, infoOf(failed)]).toEqual([true, test]);
    });

    it('the server info is the one that the handler sets, if any, beside the rest of its "_meta"', async () => {
      const app = await start();
      registerAll(app, 'own', () => whole({ _meta: { [SERVER_INFO]: OWN, more: 1 } }));
      registerAll(app, 'other', () => whole({ _meta: { more: 1 } }));
      registerAll(app, 'unset', () => whole({ _meta: { [SERVER_INFO]: undefined, more: 1 } }));
      const caller = await Caller.of(app, 'modern');
      for (const kind of ASKABLE) {
        for (const [name, info] of Object.entries({ own: OWN, other: test, unset: test })) {
          const { result } = await caller.ask(...REQUESTS[kind](name));
          expect(result._meta).toEqual({ [SERVER_INFO]: info, more: 1 });
        }
      }
    });

    it('the server info is in the result that ends a subscription', async () => {
      const app = await start();
      const client = new ModernClient(app.url);
      const [some, none] = [await client.listen({ toolsListChanged: true }), await client.listen({})];
      await none.end();
      expect(infoOf(none.messages.at(-1))).toEqual(test);
      await app.shutDown();
      expect(await some.end()).toBe('end');
      expect(some.messages.at(-1).result).toMatchObject({ resultType: 'complete' });
      expect(infoOf(some.messages.at(-1))).toEqual(test);
    });

    it('the server info is not in results of sessions', async () => {
      const caller = await Caller.of(await start(), 'legacy');
      for (const request of RIGHT.slice(1)) expect(infoOf(await caller.ask(...request))).toBeUndefined();
    });
  });

  describe('D15: cache hints', () => {
    it('cache hints are on the results of six methods of revision 2026-07-28, and on no others', async () => {
      const app = await start();
      const [modern, legacy] = [await Caller.of(app, 'modern'), await Caller.of(app, 'legacy')];
      const hinted: string[] = [];
      for (const [method, params] of RIGHT) {
        const { result } = await modern.ask(method, params);
        if (result.ttlMs === 0 && result.cacheScope === 'private') hinted.push(method);
        else expect(result).not.toHaveProperty('ttlMs');
        const session = await legacy.ask(method, params);
        expect(session.result ?? {}).not.toHaveProperty('ttlMs');
        expect(session.result ?? {}).not.toHaveProperty('cacheScope');
      }
      expect(hinted).toEqual(CACHED);
      expect(hinted).toHaveLength(6);
    });

    it.each([
      { ttlMs: -1, cacheScope: 'private' },
      { ttlMs: 1.5, cacheScope: 'everyone' },
      { ttlMs: '5', cacheScope: null },
      { ttlMs: Infinity, cacheScope: 5 },
    ])('cache hints of a handler that are none are replaced (%#)', async (hints) => {
      const app = await startApp({ guards: [] });
      const cache = { ttlMs: 700, scope: 'public' as const };
      const handler = (): object => ({ contents: [{ text: 'x' }], ...hints });
      registryOf(app).registerResource({ uri: 'app://cached', name: 'cached', cache, handler });
      registryOf(app).registerResource({ uri: 'app://plain', name: 'plain', handler });
      const caller = await Caller.of(app, 'modern');
      const cached = await caller.ask('resources/read', { uri: 'app://cached' });
      const cacheScope = hints.cacheScope === 'private' ? 'private' : 'public';
      expect(cached.result).toMatchObject({ ttlMs: 700, cacheScope });
      const plain = await caller.ask('resources/read', { uri: 'app://plain' });
      expect(plain.result).toMatchObject({ ttlMs: 0, cacheScope: 'private' });
    });
  });

  describe('D16: fields are deleted by era, not by revision', () => {
    it.each(['2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'])(
      '%s gets titles, icons and schemas',
      async (revision) => {
        const app = await start();
        const caller = await Caller.of(app, revision === '2026-07-28' ? 'modern' : 'legacy', {}, revision);
        const [tool] = (await caller.ask('tools/list')).result.tools;
        expect(tool).toMatchObject({ name: 'add', title: 'Adds', icons: [ICON] });
        expect(tool.outputSchema).toMatchObject({ type: 'object', required: ['sum'] });
        const [resource] = (await caller.ask('resources/list')).result.resources;
        expect(resource).toMatchObject({ title: 'A text', icons: [ICON] });
        const [prompt] = (await caller.ask('prompts/list')).result.prompts;
        expect(prompt).toMatchObject({ title: 'Says hello', icons: [ICON] });
        expect((await caller.call('add', { a: 1 })).result.structuredContent).toEqual({ sum: 1 });
      },
    );

    it('tasks, which the modern era does not have, are deleted in both', async () => {
      const app = await start();
      const [modern, legacy] = [await Caller.of(app, 'modern'), await Caller.of(app, 'legacy')];
      for (const caller of [modern, legacy]) {
        for (const tool of (await caller.ask('tools/list')).result.tools) expect(tool).not.toHaveProperty('execution');
      }
      expect((await modern.ask('server/discover')).result.capabilities).not.toHaveProperty('tasks');
      const client = app.client();
      const { result } = await (await client.post(client.initializeMessage())).json();
      expect(result.capabilities).not.toHaveProperty('tasks');
    });
  });

  describe.each(ERAS)('D17: results in the %s era', (era) => {
    class Order {
      readonly #margin = 5;
      id = 1;
      at = new Date(0);
      get margin(): number {
        return this.#margin;
      }
    }
    const ask = async (handler: () => unknown, kind: (typeof ASKABLE)[number] = 'tool') => {
      const app = await start();
      registerAll(app, 'returns', handler);
      const caller = await Caller.of(app, era);
      return { app, ...(await caller.ask(...REQUESTS[kind]('returns'))) };
    };
    const AT = '1970-01-01T00:00:00.000Z';

    it('results of tools have content, also when there is none', async () => {
      const content = [{ type: 'text', text: 'The tool returned nothing.' }];
      for (const nothing of [undefined, null]) expect((await ask(() => nothing)).result.content).toEqual(content);
    });

    it.each<[string, () => unknown, object]>([
      ['an instance of a class', () => new Order(), { id: 1, at: AT }],
      ['what has a toJSON', () => ({ secret: 1, toJSON: () => ({ id: 1 }) }), { id: 1 }],
      ['a prototypeless object', () => Object.assign(Object.create(null) as object, { a: 1 }), { a: 1 }],
      ['structured content of a class', () => ({ content: [SAID], structuredContent: new Order() }), { id: 1, at: AT }],
    ])('results are the JSON of %s', async (_, make, sent) => {
      expect((await ask(make)).result.structuredContent).toEqual(sent);
    });

    it('results are the toJSON() of a whole result', async () => {
      for (const kind of ASKABLE) {
        const made = whole({ contents: [{ uri: 'a://b', text: 'x' }], messages: ['x'] });
        const { result } = await ask(() => ({ ...whole({ secret: 1 }), toJSON: () => made }), kind);
        expect(result).not.toHaveProperty('secret');
        expect(JSON.stringify(result)).toContain('"x"');
      }
    });

    it.each<[kind: (typeof ASKABLE)[number], object]>([
      ['tool', { content: [SAID], isError: 'yes' }],
      ['tool', { content: [{ type: 'image', data: 'not base64!', mimeType: 'image/png' }] }],
      ['tool', { content: [SAID], _meta: 5 }],
      ['resource', { contents: [{ uri: 5, text: 'x' }] }],
      ['resource', { contents: [{ blob: 'not base64!' }] }],
      ['resource', { contents: [{ text: 'x' }], _meta: [] }],
      ['prompt', { messages: ['x'], description: 5 }],
      ['prompt', { messages: [{ role: 'user', content: { ...SAID, annotations: { priority: 7 } } }] }],
    ])('results are checked: a %s does not answer otherwise (%#)', async (kind, result) => {
      const { app, ...answer } = await ask(() => result, kind);
      if (kind === 'tool') expect(answer.result).toMatchObject({ isError: true });
      else expect(answer.error).toMatchObject({ code: -32603 });
      // The operator is told what is wrong.
      expect(app.log.texts('error').join()).toMatch(/does not match the specification\. \w+/);
    });
  });

  it.each(ERAS)(
    'D37: a result that would try too many alternatives of its schema fails, in the %s era',
    async (era) => {
      const app = await start();
      const anyOf = ['and', 'or', 'nor'].map((op) => ({
        properties: { items: { type: 'array', items: { $ref: '#' } }, op: { const: op } },
        required: ['op'],
      }));
      const nested = (levels: number): object =>
        Array.from({ length: levels }).reduce<object>((inner) => ({ items: [inner], op: 'nor' }), { op: 'nor' });
      const tool = { inputSchema: z.object({ levels: z.number() }), outputSchema: { type: 'object', anyOf } };
      registryOf(app).registerTool({ ...tool, name: 'search', handler: ({ levels }) => nested(levels) });
      const caller = await Caller.of(app, era);
      expect((await caller.call('search', { levels: 5 })).result.structuredContent).toEqual(nested(5));
      expect((await caller.call('search', { levels: 12 })).result).toMatchObject({ isError: true });
      expect(app.log.texts('error').join()).toContain('too many alternatives');
    },
  );

  describe('D19: an endpoint sends its name and capabilities', () => {
    const CAPABILITIES = {
      tools: { listChanged: true },
      prompts: { listChanged: true },
      resources: { subscribe: true, listChanged: true },
      completions: {},
      logging: {},
    };

    it.each([
      ['2025-03-26', '2025-03-26'],
      ['2025-06-18', '2025-06-18'],
      ['2025-11-25', '2025-11-25'],
      ['2024-11-05', '2025-11-25'],
      ['2026-07-28', '2025-11-25'],
      ['latest', '2025-11-25'],
    ])(
      'an endpoint sends its name and capabilities at "initialize", which asks for %s and gets %s',
      async (asked, got) => {
        const client = (await start()).client();
        const { result } = await (await client.post(client.initializeMessage(asked))).json();
        expect(result).toEqual({
          protocolVersion: got,
          capabilities: CAPABILITIES,
          serverInfo: { name: 'test', version: '1.0.0' },
          instructions: 'Add a lot.',
        });
      },
    );

    it('an endpoint sends its name and capabilities at "server/discover", with the revisions of its era', async () => {
      const caller = await Caller.of(await start(), 'modern');
      const { result } = await caller.ask('server/discover');
      expect(result).toEqual({
        resultType: 'complete',
        supportedVersions: ['2026-07-28'],
        capabilities: CAPABILITIES,
        instructions: 'Add a lot.',
        ttlMs: 0,
        cacheScope: 'private',
        _meta: { [SERVER_INFO]: { name: 'test', version: '1.0.0' } },
      });
    });
  });
});
