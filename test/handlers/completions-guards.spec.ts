import { type CanActivate, type ExecutionContext, ForbiddenException, Injectable, UseGuards } from '@nestjs/common';
import { Complete, McpExecutionContext, Prompt, ResourceTemplate } from 'nestjs-mcp-streamable';
import { RequireScopes } from 'nestjs-mcp-streamable/auth';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER } from '../support/app.js';
import { testApps } from '../support/test-apps.js';

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
const owner = [{ name: 'owner' }, { name: 'id' }];

/** What completions were asked for. */
let proposed: string[] = [];

@Injectable()
class Hidden {
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
  @Complete({ prompt: 'hidden', argument: 'id' })
  @Complete({ template: 'hidden://t/{id}', argument: 'id' })
  @Complete({ prompt: 'owned', argument: 'id' })
  @Complete({ prompt: 'owned', argument: 'owner' })
  @Complete({ template: 'owned://{owner}/{id}', argument: 'id' })
  @Complete({ prompt: 'scoped', argument: 'id' })
  ids(value: string, others: Record<string, string>): string[] {
    proposed.push(value, ...Object.values(others));
    return ['7'];
  }

  @UseGuards(owns)
  @Prompt({ name: 'owned', arguments: owner })
  ownedPrompt(): string {
    return 'got';
  }
  @UseGuards(owns)
  @ResourceTemplate({ uriTemplate: 'owned://{owner}/{id}', name: 'owned' })
  ownedTemplate(): string {
    return 'read';
  }
  @RequireScopes('orders:read', { listed: true })
  @Prompt({ name: 'scoped', arguments: [{ name: 'id' }] })
  scoped(): string {
    return 'got';
  }
}

describe.each(ONE_ADAPTER)('a completion for an entry with guards, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [Hidden] });

  const asker = async () => {
    proposed = [];
    const client = await (await start()).client().initialize();
    return async (method: string, params: object) => {
      const response = await client.post({ jsonrpc: '2.0', id: 'x', method, params });
      return { status: response.status, challenge: response.header('www-authenticate'), ...(await response.json()) };
    };
  };
  const completion = (ref: object, known?: object, argument = 'id') => ({
    ref,
    argument: { name: argument, value: 'bob' },
    ...(known && { context: { arguments: known } }),
  });

  it.each([
    ['prompt', completion({ type: 'ref/prompt', name: 'hidden' })],
    ['template', completion({ type: 'ref/resource', uri: 'hidden://t/{id}' })],
  ])(
    'D30: a completion for an entry with guards, a %s, gets the answer for an unknown entry if lists hide it',
    async (_, params) => {
      const method = 'completion/complete';
      const ask = await asker();
      const hidden = await ask(method, params);
      const text = JSON.stringify(params).replaceAll('hidden', 'absent');
      const absent = await ask(method, JSON.parse(text) as object);
      expect(hidden.error.code).toBe(-32602);
      expect(JSON.parse(JSON.stringify(hidden).replaceAll('hidden', 'absent'))).toEqual(absent);
    },
  );

  it.each([
    ['prompt', { type: 'ref/prompt', name: 'owned' }],
    ['template', { type: 'ref/resource', uri: 'owned://{owner}/{id}' }],
  ])(
    'D30: a completion for an entry with guards, a %s, is completed when its guards admit the arguments that are known',
    async (_, ref) => {
      const ask = await asker();
      const denial = { status: 403, error: { code: -32000, message: 'Forbidden resource' } };
      expect(await ask('completion/complete', completion(ref, { owner: 'bob' }))).toMatchObject(denial);
      expect(await ask('completion/complete', completion(ref))).toMatchObject(denial);
      expect(proposed).toEqual([]);
      const { result } = await ask('completion/complete', completion(ref, { owner: 'ann' }));
      expect(result.completion.values).toEqual(['7']);
    },
  );

  it('D30: a completion for an entry with guards is decided on by guards with the argument that is completed, too', async () => {
    const ask = await asker();
    const ref = { type: 'ref/prompt', name: 'owned' };
    expect(await ask('completion/complete', completion(ref, undefined, 'owner'))).toMatchObject({ status: 403 });
    expect(proposed).toEqual([]);
  });

  it('D30: a completion for an entry with guards gets no other value of the completed argument than the one that guards have seen', async () => {
    const ask = await asker();
    const ref = { type: 'ref/prompt', name: 'owned' };
    const params = { ...completion(ref, { owner: 'bob', id: '1' }), argument: { name: 'owner', value: 'ann' } };
    expect((await ask('completion/complete', params)).result.completion.values).toEqual(['7']);
    expect(proposed).toEqual(['ann', '1']);
  });

  it('D30: a completion for an entry with guards needs the scopes of the prompt', async () => {
    const ask = await asker();
    const { status, challenge } = await ask('completion/complete', completion({ type: 'ref/prompt', name: 'scoped' }));
    expect(status).toBe(401);
    expect(challenge).toContain('scope="orders:read"');
    expect(proposed).toEqual([]);
  });
});
