import { type CanActivate, type ExecutionContext, ForbiddenException, Injectable, UseGuards } from '@nestjs/common';
import { McpExecutionContext, Prompt, Resource, ResourceTemplate, Tool } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER } from '../support/app.js';
import { registryOf, testApps } from '../support/test-apps.js';
import { ModernClient } from '../support/modern-client.js';

const denies: CanActivate = {
  canActivate(): never {
    throw new ForbiddenException('Only staff may do this');
  },
};
/** Decides by an argument that it takes for granted. */
const owns: CanActivate = {
  canActivate(context: ExecutionContext): boolean {
    const args = McpExecutionContext.create(context).getArgs<
      Record<string, string> & { variables?: Record<string, string> }
    >();
    return (args.variables ?? args)['owner']!.toLowerCase() === 'ann';
  },
};

@Injectable()
class Hidden {
  @UseGuards(denies)
  @Tool({ name: 'hidden' })
  tool(): string {
    return 'ran';
  }
  @UseGuards(denies)
  @Tool({
    name: 'hidden-region',
    inputSchema: { type: 'object', properties: { region: { type: 'string', 'x-mcp-header': 'Region' } } },
  })
  regional(): string {
    return 'ran';
  }
  @UseGuards(denies)
  @Resource({ uri: 'hidden://one', name: 'hidden' })
  resource(): string {
    return 'read';
  }
  @UseGuards(denies)
  @ResourceTemplate({ uriTemplate: 'hidden://t/{id}', name: 'hidden' })
  template(): string {
    return 'read';
  }
  @UseGuards(denies)
  @Prompt({ name: 'hidden', arguments: [{ name: 'id' }] })
  prompt(): string {
    return 'got';
  }
  @UseGuards(owns)
  @Tool({ name: 'owned', inputSchema: { type: 'object', properties: { owner: { type: 'string' } } } })
  owned(): string {
    return 'ran';
  }
  @UseGuards(owns)
  @Tool({
    name: 'owned-region',
    inputSchema: { type: 'object', properties: { region: { type: 'string', 'x-mcp-header': 'Region' } } },
  })
  ownedRegional(): string {
    return 'ran';
  }
  @UseGuards(owns)
  @ResourceTemplate({ uriTemplate: 'owned://{owner}/{id}', name: 'owned' })
  ownedTemplate(): string {
    return 'read';
  }
}

describe.each(ONE_ADAPTER)('a handler that guards keep from a caller, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [Hidden] });

  const asker = async () => {
    const client = await (await start()).client().initialize();
    return async (method: string, params: object) => {
      const response = await client.post({ jsonrpc: '2.0', id: 'x', method, params });
      return { status: response.status, challenge: response.header('www-authenticate'), ...(await response.json()) };
    };
  };
  const OF_HIDDEN: readonly (readonly [method: string, params: object])[] = [
    ['tools/call', { name: 'hidden' }],
    ['resources/read', { uri: 'hidden://one' }],
    ['resources/read', { uri: 'hidden://t/7' }],
    ['prompts/get', { name: 'hidden' }],
  ];

  it('D31: a handler that guards keep from a caller gets the answer of one that does not exist', async () => {
    const ask = await asker();
    for (const [method, params] of [...OF_HIDDEN, ['resources/subscribe', { uri: 'hidden://one' }]] as const) {
      const hidden = await ask(method, params);
      const text = JSON.stringify(params).replaceAll('hidden', 'absent');
      const absent = await ask(method, JSON.parse(text) as object);
      expect([method, hidden.error.code]).toEqual([method, -32602]);
      expect(JSON.parse(JSON.stringify(hidden).replaceAll('hidden', 'absent'))).toEqual(absent);
    }
  });

  it.each([
    ['a state that is none', { requestState: 'none' }],
    ['a state that is no text', { requestState: 7 }],
  ])(
    'D31: a handler that guards keep from a caller gets the answer of one that does not exist, in both eras, with %s',
    async (_, retry) => {
      const app = await start();
      const modern = new ModernClient(app.url);
      const legacy = await app.client().initialize();
      for (const [method, params] of OF_HIDDEN) {
        const inSession = async (sent: object) =>
          (await legacy.post({ jsonrpc: '2.0', id: 'x', method, params: sent })).json();
        const asked = { ...params, ...retry };
        const missing = JSON.parse(JSON.stringify(asked).replaceAll('hidden', 'absent')) as Record<string, unknown>;
        for (const [hidden, absent] of [
          [await modern.ask(method, asked, { id: 'x' }), await modern.ask(method, missing, { id: 'x' })],
          [await inSession(asked), await inSession(missing)],
        ]) {
          expect([method, hidden.error.code]).toEqual([method, -32602]);
          expect(JSON.parse(JSON.stringify(hidden).replaceAll('hidden', 'absent'))).toEqual(absent);
        }
      }
    },
  );

  it('D31: a handler that guards keep from a caller gets the answer of one that does not exist, also when a header does not repeat an argument', async () => {
    const modern = new ModernClient((await start()).url);
    const answer = async (name: string) => {
      const response = await modern.call(name, { region: 'eu' }, { id: 'x' });
      return { status: response.status, text: (await response.text()).replaceAll(name, 'it') };
    };
    expect(await answer('hidden-region')).toEqual(await answer('absent-region'));
  });

  it('D31: a handler that guards keep from a caller is denied as "denials" says when the guard decides by arguments, since lists show it', async () => {
    const ask = await asker();
    const { status, result } = await ask('tools/call', { name: 'owned', arguments: { owner: 'bob' } });
    expect([status, result]).toMatchObject([200, { isError: true, content: [{ text: 'Forbidden resource' }] }]);
    expect(await ask('resources/read', { uri: 'owned://bob/1' })).toMatchObject({
      status: 403,
      error: { code: -32000 },
    });
  });

  it('D31: a handler that guards keep from a caller is denied with one answer, whatever else is wrong with the call, or with the handler', async () => {
    const app = await start();
    const modern = new ModernClient(app.url);
    const args = { owner: 'bob', region: 'eu' };
    const headers = { 'mcp-param-region': 'eu' };
    const answer = async (more: object = {}, sent: Record<string, string> = headers) => {
      const params = { name: 'owned-region', arguments: args, ...more };
      const response = await modern.request('tools/call', params, { id: 'x', headers: sent });
      return { status: response.status, text: await response.text() };
    };
    const denied = await answer();
    expect(denied).toMatchObject({ status: 200, text: expect.stringContaining('Forbidden resource') });
    expect(await answer({ requestState: 'none' })).toEqual(denied);
    expect(await answer({}, { 'mcp-param-region': 'us' })).toEqual(denied);
    const registry = registryOf(app);
    await registry.disable('owned-region', { reason: 'Not now.' });
    expect(await answer()).toEqual(denied);
    expect(await answer({ requestState: 'none' })).toEqual(denied);
    await registry.enable('owned-region');
  });
});
