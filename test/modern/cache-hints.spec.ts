import { type CanActivate, Injectable, UseGuards } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import {
  type McpCacheHints,
  McpArgs,
  McpCtx,
  type McpContext,
  Prompt,
  Resource,
  ResourceTemplate,
  Tool,
} from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { registryOf, testApps } from '../support/test-apps.js';
import { LISTS } from '../support/kinds.js';
import { ModernClient } from '../support/modern-client.js';
import { as, trustingGuard } from '../support/users.js';

const open: CanActivate = { canActivate: () => true };
const HOUR: Required<McpCacheHints> = { ttlMs: 3_600_000, scope: 'public' };
const PUBLIC = { ttlMs: 3_600_000, cacheScope: 'public' };
const PRIVATE = { ttlMs: 3_600_000, cacheScope: 'private' };
const NONE = { ttlMs: 0, cacheScope: 'private' };

@Injectable()
class Handlers {
  @Tool({ name: 'b' })
  b(): string {
    return 'b';
  }
  @Tool({ name: 'a' })
  a(): string {
    return 'a';
  }
  @Tool({ name: 'c' })
  c(): string {
    return 'c';
  }
  @Prompt({ name: 'p' })
  p(): string {
    return 'p';
  }
  @Resource({ uri: 'app://plain', name: 'plain' })
  plain(): string {
    return 'plain';
  }
  @Resource({ uri: 'app://terms', name: 'terms', cache: HOUR })
  terms(): string {
    return 'terms';
  }
  @Resource({ uri: 'app://mine', name: 'mine', cache: { ttlMs: 3_600_000 } })
  mine(): string {
    return 'mine';
  }
  @Resource({ uri: 'app://own', name: 'own', cache: HOUR })
  own(): object {
    return { contents: [{ text: 'own' }], ttlMs: 5, cacheScope: 'private' };
  }
  @Resource({ uri: 'app://asking', name: 'asking', cache: HOUR })
  async asking(@McpCtx() ctx: McpContext): Promise<string> {
    const requestedSchema = { type: 'object' as const, properties: { name: { type: 'string' as const } } };
    const { action } = await ctx.elicit('who', { message: 'Who?', requestedSchema });
    return action;
  }
  @ResourceTemplate({ uriTemplate: 'app://orders/{id}', name: 'order', cache: HOUR })
  order(@McpArgs('id') id: string): string {
    return id;
  }
}

@Injectable()
class Guarded {
  @Tool({ name: 'guarded' })
  @UseGuards(open)
  tool(): string {
    return 'guarded';
  }
  @Resource({ uri: 'app://guarded', name: 'guarded', cache: HOUR })
  @UseGuards(open)
  resource(): string {
    return 'guarded';
  }
}

const hintsOf = ({ result }: { result: Record<string, unknown> }) => ({
  ttlMs: result['ttlMs'],
  cacheScope: result['cacheScope'],
});
const read = async (app: TestApp, uri: string, headers?: Record<string, string>) =>
  hintsOf(await new ModernClient(app.url, headers).ask('resources/read', { uri }));
const listed = async (app: TestApp, method: string, headers?: Record<string, string>) =>
  hintsOf(await new ModernClient(app.url, headers).ask(method));
const METHODS = [...Object.values(LISTS).map(({ method }) => method), 'server/discover'];
const allOf = (hints: object) => Object.fromEntries(METHODS.map((method) => [method, hints]));
const allListed = async (app: TestApp) =>
  Object.fromEntries(await Promise.all(METHODS.map(async (method) => [method, await listed(app, method)])));

describe.each(ONE_ADAPTER)('M10: cache hints on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, guards: [], providers: [Handlers] });

  it('cache hints are on every cacheable result, and forbid caching by default', async () => {
    const app = await start();
    expect(await allListed(app)).toEqual(allOf(NONE));
    expect(await read(app, 'app://plain')).toEqual(NONE);
    const { result } = await new ModernClient(app.url).ask('tools/call', { name: 'a', arguments: {} });
    expect(hintsOf({ result })).toEqual({ ttlMs: undefined, cacheScope: undefined });
  });

  it('cache hints of a resource are those of its options, or of the result of its handler', async () => {
    const app = await start();
    expect(await read(app, 'app://terms')).toEqual(PUBLIC);
    expect(await read(app, 'app://mine')).toEqual(PRIVATE);
    expect(await read(app, 'app://orders/7')).toEqual(PUBLIC);
    expect(await read(app, 'app://own')).toEqual({ ttlMs: 5, cacheScope: 'private' });
  });

  it('cache hints of lists are those of the option listCache', async () => {
    const app = await start({ listCache: HOUR });
    expect(await allListed(app)).toEqual(allOf(PUBLIC));
    const reserved = await start({ listCache: { ttlMs: 3_600_000 } });
    expect(await allListed(reserved)).toEqual(allOf(PRIVATE));
  });

  it('cache hints are private for entries with guards, and for their lists', async () => {
    const app = await start({ listCache: HOUR, providers: [Guarded] });
    expect(await read(app, 'app://guarded')).toEqual(PRIVATE);
    expect(await read(app, 'app://terms')).toEqual(PUBLIC);
    const { 'tools/list': tools, 'resources/list': resources, ...others } = await allListed(app);
    expect([tools, resources]).toEqual([PRIVATE, PRIVATE]);
    expect(Object.values(others)).toEqual([PUBLIC, PUBLIC, PUBLIC]);
  });

  it('cache hints are the same on all pages of a list', async () => {
    const app = await start({ listCache: HOUR, providers: [Guarded], pageSize: 1 });
    const client = new ModernClient(app.url);
    const pages: { names: string[]; cacheScope: string; nextCursor?: string }[] = [];
    do {
      const cursor = pages.at(-1)?.nextCursor;
      const { result } = await client.ask('tools/list', cursor === undefined ? {} : { cursor });
      pages.push({ ...result, names: result.tools.map(({ name }: { name: string }) => name) });
    } while (pages.at(-1)!.nextCursor);
    expect(pages.map(({ names, cacheScope }) => [names, cacheScope])).toEqual(
      ['b', 'a', 'c', 'guarded'].map((name) => [[name], 'private']),
    );
  });

  it.each<[string, Parameters<typeof start>[0]]>([
    ['the endpoint has guards', { guards: [trustingGuard] }],
    ['the app has a global guard', { module: { providers: [{ provide: APP_GUARD, useValue: open }] } }],
    ['the app gets a global guard late', { configure: (app) => void app.useGlobalGuards(open) }],
  ])('cache hints are private where %s', async (_, options) => {
    const app = await start({ listCache: HOUR, ...options });
    expect(await allListed(app)).toEqual(allOf(PRIVATE));
    expect(await read(app, 'app://terms')).toEqual(PRIVATE);
    expect(await read(app, 'app://orders/7')).toEqual(PRIVATE);
  });

  it('cache hints are private for callers with a principal', async () => {
    const principal = ({ headers }: { headers: Record<string, string> }) => headers['authorization'];
    const app = await start({ listCache: HOUR, principal });
    expect(await read(app, 'app://terms', as('ann'))).toEqual(PRIVATE);
    expect(await listed(app, 'tools/list', as('ann'))).toEqual(PRIVATE);
    expect(await read(app, 'app://terms')).toEqual(PUBLIC);
    expect(await listed(app, 'tools/list')).toEqual(PUBLIC);
  });

  it('cache hints are missing on questions, and forbid caching of a result that depends on an answer of the client', async () => {
    const app = await start();
    const client = new ModernClient(app.url);
    const options = { capabilities: { elicitation: { form: {} } } };
    const asked = await client.ask('resources/read', { uri: 'app://asking' }, options);
    expect(asked.result).toMatchObject({ resultType: 'input_required' });
    expect(hintsOf(asked)).toEqual({ ttlMs: undefined, cacheScope: undefined });
    const { requestState } = asked.result as { requestState: string };
    const inputResponses = { who: { action: 'decline' } };
    const answered = await client.ask('resources/read', { uri: 'app://asking', inputResponses, requestState }, options);
    expect(answered.result).toMatchObject({ resultType: 'complete', contents: [{ text: 'decline' }] });
    expect(hintsOf(answered)).toEqual(NONE);
  });

  it('cache hints are missing on results of the legacy era', async () => {
    const app = await start({ listCache: HOUR });
    const client = await app.client().initialize();
    const ask = async (method: string, params: object = {}) =>
      (await client.post({ jsonrpc: '2.0', id: client.nextId(), method, params })).json();
    const answers = [
      ...(await Promise.all(Object.values(LISTS).map(({ method }) => ask(method)))),
      await ask('resources/read', { uri: 'app://terms' }),
      await ask('resources/read', { uri: 'app://own' }),
    ];
    for (const { result } of answers) {
      expect(Object.keys(result)).not.toContain('ttlMs');
      expect(Object.keys(result)).not.toContain('cacheScope');
    }
  });
});

describe.each(ONE_ADAPTER)('M10: the order of lists on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, guards: [], providers: [Handlers, Guarded] });
  const names = async (app: TestApp) => {
    const { result } = await new ModernClient(app.url).ask('tools/list');
    return (result.tools as { name: string }[]).map(({ name }) => name);
  };

  it('the order of lists is that of discovery, the same in every app and for every client', async () => {
    const apps = [await start(), await start(), await start()];
    for (const app of apps) {
      for (let n = 0; n < 3; n++) expect(await names(app)).toEqual(['b', 'a', 'c', 'guarded']);
    }
  });

  it('the order of lists has newly registered entries last, and updated ones in their place', async () => {
    const app = await start();
    const registry = registryOf(app);
    const handler = () => 'x';
    const first = registry.registerTool({ name: 'z', handler });
    const second = registry.registerTool({ name: 'y', handler });
    const all = ['b', 'a', 'c', 'guarded', 'z', 'y'];
    expect(await names(app)).toEqual(all);
    first.update({ description: 'changed' });
    expect(await names(app)).toEqual(all);
    second.remove();
    first.remove();
    registry.registerTool({ name: 'y', handler });
    registry.registerTool({ name: 'z', handler });
    expect(await names(app)).toEqual(['b', 'a', 'c', 'guarded', 'y', 'z']);
  });
});
