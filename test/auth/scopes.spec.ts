import { Injectable, UseGuards } from '@nestjs/common';
import { Complete, McpRegistry, Prompt, Tool } from 'nestjs-mcp-streamable';
import { RequireScopes } from 'nestjs-mcp-streamable/auth';
import { beforeEach, describe, expect, it } from 'vitest';
import { fourOf } from '../handlers/four.js';
import { gate, ONE_ADAPTER } from '../support/app.js';
import { asking, type Kind, KINDS, LISTS, nameOf } from '../support/kinds.js';
import {
  asker,
  authorizationServer,
  bearer,
  challengeIn,
  ERAS,
  METADATA_URL,
  protectedApps,
} from './protected-apps.js';

let hold: ReturnType<typeof gate<void>>;
const slow = { canActivate: () => hold.promise.then(() => true) };

@RequireScopes('notes:read')
class Base {
  @Tool({ name: 'inherited' })
  inherited() {
    return 'inherited';
  }
}
@Injectable()
@RequireScopes('notes:list')
class Derived extends Base {}

@Injectable()
class Late {
  @Tool({ name: 'late' })
  @RequireScopes('notes:write')
  @UseGuards(slow)
  late() {
    return 'late';
  }
}

@Injectable()
class Letters {
  @Prompt({ name: 'letter', arguments: [{ name: 'to' }] })
  letter() {
    return 'Dear all';
  }
  @Complete({ prompt: 'letter', argument: 'to' })
  @RequireScopes('contacts:read')
  contacts() {
    return ['ann'];
  }
}

const providers = [
  fourOf('open'),
  fourOf('secret', { onMethods: [RequireScopes('notes:write')] }),
  fourOf('shown', { onMethods: [RequireScopes('notes:write', { listed: true })] }),
  fourOf('both', { onClass: [RequireScopes('notes:list')], onMethods: [RequireScopes('notes:write', 'notes:send')] }),
  fourOf('mixed', {
    onClass: [RequireScopes('notes:list')],
    onMethods: [RequireScopes('notes:write', { listed: true })],
  }),
  Derived,
  Late,
  Letters,
];

type Asker = Awaited<ReturnType<typeof asker>>;

describe.each(ONE_ADAPTER)('scopes of handlers, on %s', (adapter) => {
  const idp = authorizationServer();
  const start = protectedApps(adapter, idp, { providers, auth: { requiredScopes: ['notes:read'] } });
  beforeEach(() => {
    hold = gate();
    hold.open();
  });

  const ask = ({ request }: Asker, kind: Kind, host: string) => {
    const { method, params } = asking(kind, host);
    return request(method, params);
  };
  const listed = async ({ request }: Asker, kind: Kind, headers: Record<string, string> = {}) => {
    const { method, field, key } = LISTS[kind];
    const { result } = await (await request(method, {}, headers)).json();
    return (result[field] as Record<string, string>[]).map((entry) => entry[key]!);
  };

  /** Each kind in one era: the eras differ in what is answered, the kinds in what is asked. */
  const KINDS_AND_ERAS = KINDS.map((kind, at) => [kind, ERAS[at % 2]!] as const);
  describe.each(KINDS_AND_ERAS)('of a %s, in the %s era', (kind, era) => {
    it('A7: a handler with scopes is refused with 403 and all scopes of the operation when some are missing', async () => {
      const caller = await asker(await start(), era, await bearer(idp(), 'notes:read'));
      for (const [host, scope] of [
        ['secret', 'notes:read notes:write'],
        ['shown', 'notes:read notes:write'],
        ['both', 'notes:read notes:list notes:write notes:send'],
      ] as const) {
        const response = await ask(caller, kind, host);
        expect([host, response.status]).toEqual([host, 403]);
        expect(challengeIn(response)).toEqual({
          error: 'insufficient_scope',
          error_description: `This needs an access token with the scopes: ${scope}`,
          scope,
          resource_metadata: METADATA_URL,
        });
        expect(await response.json()).toMatchObject({
          id: expect.anything(),
          error: { code: -32000, message: expect.stringContaining(scope), data: { scopes: scope.split(' ') } },
        });
      }
    });

    it('A7: a handler with scopes is served when the token has the scopes', async () => {
      const all = 'notes:read notes:list notes:write notes:send';
      const caller = await asker(await start(), era, await bearer(idp(), all));
      for (const host of ['open', 'secret', 'shown', 'both']) {
        expect([host, (await ask(caller, kind, host)).status]).toEqual([host, 200]);
      }
    });

    it('A11: a handler with scopes is listed only if the token allows it, also within one session', async () => {
      const caller = await asker(await start(), era, await bearer(idp(), 'notes:read'));
      const names = (...hosts: string[]) => hosts.map((host) => nameOf(kind, host));
      const hosts = names('open', 'secret', 'shown', 'both', 'mixed');
      const seen = async (scope: string) =>
        (await listed(caller, kind, await bearer(idp(), scope))).filter((name) => hosts.includes(name));
      expect(await seen('notes:read')).toEqual(names('open', 'shown'));
      expect(await seen('notes:read notes:write')).toEqual(names('open', 'secret', 'shown'));
      expect(await seen('notes:read notes:list')).toEqual(names('open', 'shown', 'mixed'));
      expect(await seen('notes:read notes:list notes:write notes:send')).toEqual(hosts);
    });
  });

  describe.each(ERAS)('in the %s era', (era) => {
    it('A7: scopes that a class inherits are added', async () => {
      const app = await start();
      const one = await asker(app, era, await bearer(idp(), 'notes:read'));
      const refused = await one.request('tools/call', { name: 'inherited', arguments: {} });
      expect(challengeIn(refused)['scope']).toBe('notes:read notes:list');
      const two = await asker(app, era, await bearer(idp(), 'notes:read notes:list'));
      expect((await two.request('tools/call', { name: 'inherited', arguments: {} })).status).toBe(200);
    });

    it('A7: completions need their scopes', async () => {
      const ref = { type: 'ref/prompt', name: 'letter' };
      const params = { ref, argument: { name: 'to', value: '' } };
      const few = await asker(await start(), era, await bearer(idp(), 'notes:read'));
      const response = await few.request('completion/complete', params);
      expect([response.status, challengeIn(response)['scope']]).toEqual([403, 'notes:read contacts:read']);
    });

    it('A8: a broad scope implies narrow ones, in calls, in lists and for all requests', async () => {
      const implies = { 'notes:admin': ['notes:editor'], 'notes:editor': ['notes:write', 'notes:read'] };
      const app = await start({ auth: { implies } });
      const caller = await asker(app, era, await bearer(idp(), 'notes:admin'));
      expect((await ask(caller, 'tool', 'secret')).status).toBe(200);
      expect(await listed(caller, 'tool')).toContain('secret');
      const refused = await ask(caller, 'tool', 'both');
      // What the token stands for is not repeated away: a client may replace its token by one with these.
      expect(challengeIn(refused)['scope']).toBe('notes:read notes:list notes:write notes:send');
    });

    it('A8: a function may decide which scopes imply others', async () => {
      const implies = (granted: string, needed: string) => needed.startsWith(granted.replace(/\*$/, ''));
      const caller = await asker(await start({ auth: { implies } }), era, await bearer(idp(), 'notes:*'));
      expect((await ask(caller, 'tool', 'both')).status).toBe(200);
      const other = await start({ auth: { implies, requiredScopes: [] } });
      // The empty text in the last ones is no scope: it is what every scope begins with.
      for (const scope of ['mail:*', ' mail:*', 'mail:* ', '']) {
        const stranger = await asker(other, era, await bearer(idp(), scope));
        expect([scope, (await ask(stranger, 'tool', 'both')).status]).toEqual([scope, 403]);
      }
    });

    it('A7, A12: a caller without a token, where that is allowed, gets 401 without an error', async () => {
      const app = await start({ auth: { anonymous: true } });
      const caller = await asker(app, era, {});
      expect((await ask(caller, 'tool', 'open')).status).toBe(200);
      expect(await listed(caller, 'tool')).toEqual(['open', 'shown']);
      const malformed = { authorization: 'Bearer\tx' };
      expect((await caller.request('tools/list', {}, malformed)).status).toBe(400);
      const refused = await ask(caller, 'tool', 'secret');
      expect(refused.status).toBe(401);
      expect(challengeIn(refused)).toEqual({ scope: 'notes:read notes:write', resource_metadata: METADATA_URL });
    });

    it('A7: a refusal after the stream has begun is a JSON-RPC error that names the scopes', async () => {
      hold = gate();
      const app = await start({ responseMode: 'auto', sseAfterMs: 1 });
      const caller = await asker(app, era, await bearer(idp(), 'notes:read'));
      const response = await caller.request('tools/call', { name: 'late', arguments: {} });
      expect(response.status).toBe(200);
      const stream = response.sse();
      hold.open();
      await stream.end();
      expect(stream.messages.at(-1)).toMatchObject({
        error: { code: -32000, data: { scopes: ['notes:read', 'notes:write'] } },
      });
    });

    it('A7: a refusal in sse mode is a JSON-RPC error that names the scopes', async () => {
      const caller = await asker(await start({ responseMode: 'sse' }), era, await bearer(idp(), 'notes:read'));
      const stream = (await ask(caller, 'tool', 'secret')).sse();
      await stream.end();
      expect(stream.messages.at(-1)).toMatchObject({ error: { data: { scopes: ['notes:read', 'notes:write'] } } });
    });
  });

  it('A11: lists that depend on a token are private', async () => {
    const listCache = { ttlMs: 1_000, scope: 'public' } as const;
    const headers = await bearer(idp(), 'notes:read');
    for (const [auth, given] of [
      [{}, headers],
      [{ anonymous: true }, headers],
      [{ anonymous: true }, {}],
    ] as const) {
      const app = await start({ listCache, auth });
      const { request } = await asker(app, 'modern', given);
      const { result } = await (await request('tools/list')).json();
      expect(result.cacheScope).toBe('private');
    }
    const { request } = await asker(await start({ listCache }), 'modern', headers);
    expect((await (await request('server/discover')).json()).result.cacheScope).toBe('private');
  });

  it('A7: a refusal in a batch is a JSON-RPC error that names the scopes', async () => {
    const app = await start();
    const client = await app.client(await bearer(idp(), 'notes:read')).initialize('2025-03-26');
    const response = await client.post([
      client.toolCall('secret', {}, { id: 'a' }),
      client.toolCall('open', {}, { id: 'b' }),
    ]);
    expect(response.status).toBe(200);
    const answers = (await response.json()) as { id: string }[];
    expect(answers.find(({ id }) => id === 'a')).toMatchObject({
      error: { code: -32000, data: { scopes: ['notes:read', 'notes:write'] } },
    });
    expect(answers.find(({ id }) => id === 'b')).toMatchObject({ result: { content: [{ text: 'open' }] } });
  });

  it('only callers that may read a resource are notified of its changes', async () => {
    const app = await start();
    const few = await asker(app, 'legacy', await bearer(idp(), 'notes:read'));
    const refused = await (await few.request('resources/subscribe', { uri: 'secret://fixed' })).json();
    expect(refused.error.code).toBe(-32602);
    const enough = await asker(app, 'legacy', await bearer(idp(), 'notes:read notes:write'));
    expect((await (await enough.request('resources/subscribe', { uri: 'secret://fixed' })).json()).result).toEqual({});
  });
});

describe.each(ONE_ADAPTER)('@RequireScopes()', (adapter) => {
  const idp = authorizationServer();
  const start = protectedApps(adapter, idp, { providers: [fourOf('secret', { onMethods: [RequireScopes('a')] })] });

  it('a 403 of scopes is HTTP, also where other denials are results', async () => {
    const caller = await asker(await start({ denials: 'result' }), 'modern', await bearer(idp()));
    expect((await caller.request('tools/call', { name: 'secret', arguments: {} })).status).toBe(403);
  });

  it('@RequireScopes() works with a guard of the app that leaves an AuthInfo, without the option "auth"', async () => {
    const guard = (scopes: string[] | undefined) => ({
      canActivate: (context: { switchToHttp(): { getRequest(): object } }) => {
        const auth = { token: 'own', clientId: 'app', scopes };
        Object.assign(context.switchToHttp().getRequest(), scopes && { auth });
        return true;
      },
    });
    const statuses = [];
    for (const scopes of [['a'], ['b'], undefined]) {
      const app = await start({ auth: undefined, guards: [guard(scopes)] });
      const caller = await asker(app, 'modern', {});
      const response = await caller.request('tools/call', { name: 'secret', arguments: {} });
      statuses.push([response.status, response.header('www-authenticate')]);
      await response.text();
    }
    const description = 'error_description="This needs an access token with the scopes: a"';
    expect(statuses).toEqual([
      [200, undefined],
      [403, `Bearer error="insufficient_scope", ${description}, scope="a"`],
      [401, 'Bearer scope="a"'],
    ]);
  });

  it('@RequireScopes() treats scopes that are not an array as none', async () => {
    let scopes: unknown;
    const guard = {
      canActivate: (context: { switchToHttp(): { getRequest(): object } }) =>
        Boolean(Object.assign(context.switchToHttp().getRequest(), { auth: { token: 'own', scopes } })),
    };
    const caller = await asker(await start({ auth: undefined, guards: [guard] }), 'modern', {});
    for (scopes of ['ab', 'a', null, {}, [['a']], undefined]) {
      const response = await caller.request('tools/call', { name: 'secret', arguments: {} });
      expect([scopes, response.status]).toEqual([scopes, 403]);
      await response.text();
    }
  });

  it('@RequireScopes() refuses a malformed scope when the decorator is applied', () => {
    for (const scopes of [[], [''], ['a b'], ['a"'], ['ä'], [undefined]]) {
      expect(() => RequireScopes(...(scopes as [string]))).toThrow('@RequireScopes() takes scopes');
    }
  });

  it('A9: @RequireScopes() refuses the scope that must not be in a challenge', () => {
    expect(() => RequireScopes('a', 'offline_access')).toThrow('cannot take "offline_access"');
  });

  it('handlers that are registered at run time decide by ctx.auth', async () => {
    const app = await start();
    const registry = app.app.get(McpRegistry, { strict: false });
    registry.registerTool({ name: 'late', handler: (_args, ctx) => ctx.auth!.scopes.join(' ') });
    const caller = await asker(app, 'modern', await bearer(idp(), 'x y'));
    const { result } = await (await caller.request('tools/call', { name: 'late', arguments: {} })).json();
    expect(result.content[0].text).toBe('x y');
  });
});
