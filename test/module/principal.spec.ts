import { UnauthorizedException, type CanActivate } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { currentMcpCall, McpStreamableModule, type McpStreamableOptions } from 'nestjs-mcp-streamable';
import { afterEach, describe, expect, it } from 'vitest';
import { ADAPTERS, TestApp, serverInfo, whoami } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';
import { expectGenericFailure, expectRefusal } from '../support/refusal.js';
import { serverSaying } from '../support/scripted-server.js';
import { sharedApp } from '../support/test-apps.js';

describe.each(ADAPTERS)('the principal on %s', (adapter) => {
  let app: TestApp;
  let own: TestApp | undefined;
  let left: object = {};
  let principalOf: (request: never) => unknown;
  afterEach(async () => {
    await own?.close();
    own = undefined;
    left = {};
  });

  /** Leaves on the request what the test says. */
  const guard: CanActivate = {
    canActivate: (context) => Boolean(Object.assign(context.switchToHttp().getRequest<object>(), left)),
  };

  const made = (principal?: (request: never) => unknown): Promise<TestApp> => {
    const options: McpStreamableOptions = {
      serverInfo,
      server: () => serverSaying(() => currentMcpCall()?.principal),
      ...(principal && { principal: principal as McpStreamableOptions['principal'] & {} }),
    };
    return TestApp.of(adapter, { imports: [McpStreamableModule.forRoot({ ...options, guards: [guard] })] });
  };
  const start = async (...options: Parameters<typeof made>): Promise<void> => {
    app = own = await made(...options);
  };
  const [byDefault, byFunction] = [sharedApp(() => made()), sharedApp(() => made((request) => principalOf(request)))];
  /** The app of the tests whose principal is found by default, or by a function. */
  const share = async (principal?: (request: never) => unknown): Promise<void> => {
    if (principal) principalOf = principal;
    app = await (principal ? byFunction() : byDefault());
  };

  const owners = async () => (await app.service.list()).map((session) => session.principal);

  it('the principal is by default what guards usually leave', async () => {
    await share();
    const all: [object, string][] = [
      [{ user: { sub: 'ann', id: 'no' }, auth: { clientId: 'no' } }, 'ann'],
      [{ user: { id: 'bob' }, auth: { clientId: 'no' } }, 'bob'],
      [{ user: { id: 42 } }, '42'],
      [{ user: { id: 42n } }, '42'],
      [{ user: {}, auth: { clientId: 'app', extra: { sub: 'ann' } } }, 'ann'],
      [{ user: { sub: null, id: 'cid' } }, 'cid'],
      [{ user: { userId: 7, username: 'dan' } }, '7'],
      [{ user: { id: 0, userId: 'no' } }, '0'],
      [{ user: { userId: 'eve', _id: 'no' } }, 'eve'],
      [{ user: { _id: new ObjectId('65f1c0ffee65f1c0ffee65f1') } }, '65f1c0ffee65f1c0ffee65f1'],
      [{ user: undefined, auth: { clientId: 'app', extra: { sub: 'ann' } } }, 'ann'],
      [{ user: false, auth: { clientId: 'app', extra: { sub: 7 } } }, '7'],
    ];
    for (const [request, principal] of all) {
      left = request;
      const client = await app.client().initialize();
      expect((await app.service.get(client.sessionId!))?.principal).toBe(principal);
      expect(await whoami(client)).toBe(principal);
    }
    expect(app.log.texts('warn')).toEqual([]);
  });

  it.each<[string, (request: never) => unknown]>([
    ['at once', (request: { headers: Record<string, string> }) => request.headers['x-tenant']],
    ['later', (request: { headers: Record<string, string> }) => Promise.resolve(request.headers['x-tenant'])],
  ])("the principal is what the app's own function says %s", async (_, principal) => {
    await share(principal);
    left = { user: { sub: 'no' } };
    const client = await app.clientAt('mcp', { 'x-tenant': 'acme' }).initialize();
    expect(await whoami(client)).toBe('acme');
    client.headers = { 'x-tenant': 'other' };
    await expectRefusal(await client.call('whoami', {}, { id: 'x' }), { status: 404, code: -32001, id: 'x' });
    expect(await owners()).toEqual(['acme']);
  });

  it('the principal may be absent: that is the anonymous caller', async () => {
    for (const nobody of [undefined, null, '', Number.NaN]) {
      await share(() => nobody);
      const client = await app.client().initialize();
      expect(await whoami(client)).toBe('undefined');
      expect(await owners()).toEqual([undefined]);
      await client.delete();
    }
    expect(app.log.texts('warn')).toEqual([]);
  });

  it.each<[string, unknown, string]>([
    ['a number', 42, '42'],
    ['zero', 0, '0'],
    ['a bigint', 9_007_199_254_740_993n, '9007199254740993'],
    ['an ObjectId', new ObjectId('65f1c0ffee65f1c0ffee65f1'), '65f1c0ffee65f1c0ffee65f1'],
  ])('the principal may be %s, at once or later: its text', async (_, id, text) => {
    let later = false;
    await share(() => (later ? Promise.resolve(id) : id));
    const client = await app.client().initialize();
    later = true;
    expect(await whoami(client)).toBe(text);
    expect(await owners()).toEqual([text]);
  });

  it('the principal is a text or a number that stands for one: all else is generic to the client, and told to the log once, with the option', async () => {
    let principal: unknown;
    await start(() => principal);
    const all: unknown[] = [
      // Stands for several.
      2 ** 53,
      Infinity,
      { sub: 'ann' },
      { toString: () => 'ann' },
      { toHexString: () => 'every one of them' },
      () => 'ann',
      Symbol('ann'),
      true,
      ['ann'],
    ];
    for (const wrong of all) {
      principal = wrong;
      const client = app.client();
      await expectGenericFailure(await client.post(client.initializeMessage()), 1);
    }
    expect(app.log.texts('error')).toEqual([expect.stringContaining('"principal"')]);
    expect(await app.service.counts()).toMatchObject({ sessions: 0, live: 0, logs: 0 });
  });

  it('the principal of the default kind cannot be an object either', async () => {
    await start();
    left = { user: { id: { $oid: 'x' } } };
    const client = app.client();
    await expectGenericFailure(await client.post(client.initializeMessage()), 1);
    expect(app.log.texts('error')).toEqual([expect.stringContaining('"principal"')]);
  });

  it.each<[string, () => unknown]>([
    [
      'throws',
      () => {
        throw new Error('the tenant of secret@example.com is unknown');
      },
    ],
    ['rejects', () => Promise.reject(new Error('the tenant of secret@example.com is unknown'))],
  ])('the principal whose function %s is generic to the client, and told to the log', async (_, principal) => {
    await share(principal);
    const client = app.client();
    const { message } = await expectGenericFailure(await client.post(client.initializeMessage()), 1);
    expect(message).not.toContain('secret');
    expect(app.log.texts('error')).toEqual(['the tenant of secret@example.com is unknown']);
  });

  it.each<[string, object]>([
    ['a name only', { user: { username: 'ann' } }],
    ['a name only, of a known OAuth client', { user: { username: 'ann' }, auth: { clientId: 'app' } }],
    ['an empty id', { user: { id: '' } }],
    ['NaN for an id', { user: { id: Number.NaN } }],
    ['nothing', { user: {} }],
    ['no fields, as a text', { user: 'ann' }],
  ])(
    'the principal of a user with %s cannot be told: refused, generic to the client, told to the log once',
    async (_, request) => {
      await start();
      left = request;
      for (let attempt = 0; attempt < 2; attempt++) {
        const client = app.client();
        const { message } = await expectGenericFailure(await client.post(client.initializeMessage()), 1);
        expect(message).not.toMatch(/principal|ann/);
      }
      const [text, ...more] = app.log.texts('error');
      expect(text).toMatch(/option "principal" to a function/);
      expect(text).not.toMatch(/ann/);
      expect([more, app.log.texts('warn'), await owners()]).toEqual([[], [], []]);
    },
  );

  it('the principal that the function of the app leaves unknown is refused as well when there is a user', async () => {
    await start((request: { user?: { misspelt?: string } }) => request.user?.misspelt);
    await app.client().initialize();
    left = { user: { sub: 'ann' } };
    const client = app.client();
    await expectGenericFailure(await client.post(client.initializeMessage()), 1);
    expect(app.log.texts('error')).toEqual([expect.stringContaining('"principal"')]);
    expect(await owners()).toEqual([undefined]);
  });

  it('the principal that is unknown is refused on every method, and in both eras', async () => {
    await share();
    const client = await app.client().initialize();
    left = { user: { username: 'ann' } };
    await expectGenericFailure(await client.call('whoami', {}, { id: 'x' }), 'x');
    await expectGenericFailure(await client.get(), null);
    await expectGenericFailure(await client.delete(), null);
    const modern = new ModernClient(client.url);
    await expectGenericFailure(await modern.call('whoami', {}, { id: 'y' }), 'y');
    expect(await owners()).toEqual([undefined]);
  });

  it('the principal that is unknown is refused, wherever the guard stands', async () => {
    const endpoint = McpStreamableModule.forRoot({ serverInfo, server: () => serverSaying(() => 'served') });
    const refused = async () => {
      left = { user: { username: 'ann' } };
      const client = app.client();
      await expectGenericFailure(await client.post(client.initializeMessage()), 1);
      expect(app.log.texts('error')).toEqual([expect.stringContaining('"principal"')]);
    };
    app = await TestApp.of(adapter, { imports: [endpoint], providers: [{ provide: APP_GUARD, useValue: guard }] });
    await refused();
    await app.close();
    app = await TestApp.of(adapter, { imports: [endpoint] }, (nest) => void nest.useGlobalGuards(guard));
    await refused();
    await app.close();
    // Middleware leaves it on the request of Node, which on Fastify is another one than guards see.
    app = await TestApp.of(adapter, { imports: [endpoint] }, (nest) => {
      nest.use((request: object, _response: object, next: () => void) => {
        Object.assign(request, left);
        next();
      });
    });
    await refused();
    left = { user: { id: 'ann' } };
    await app.client().initialize();
    expect(await owners()).toEqual(['ann']);
  });

  it('the principal tells users apart whom the recipe of Nest for Passport leaves', async () => {
    await share();
    left = { user: { userId: 1, username: 'john' } };
    const johns = await app.client().initialize();
    left = { user: { userId: 2, username: 'maria' } };
    await expectRefusal(await johns.call('whoami', {}, { id: 'x' }), { status: 404, code: -32001, id: 'x' });
    await app.client().initialize();
    expect(await owners()).toEqual(['1', '2']);
  });

  it('the principal may be refused by its function', async () => {
    await share(() => {
      throw new UnauthorizedException('No tenant.');
    });
    const client = app.client();
    const response = await client.post(client.initializeMessage());
    await expectRefusal(response, { status: 401, code: -32000, id: 1, says: ['No tenant.'] });
  });

  it.each([{}, { extra: {} }, { extra: { sub: '' } }, { extra: { sub: null } }])(
    'S8: the principal is anonymous, with the warning, for a guard that leaves an OAuth client without a subject (%#)',
    async (auth) => {
      await start();
      left = { auth: { clientId: 'app', ...auth } };
      await app.client().initialize();
      expect(await owners()).toEqual([undefined]);
      expect(app.log.texts('warn')).toEqual([expect.stringContaining('"principal"')]);
    },
  );

  it('the principal that guards leave unknown is warned of, once, where there is no user', async () => {
    await start();
    expect(app.log.texts('warn')).toEqual([]);
    await whoami(await app.client().initialize());
    await app.client().initialize();
    expect(app.log.texts('warn')).toEqual([expect.stringContaining('"principal"')]);
  });

  it('the principal that global guards leave unknown is warned of too, unless the option says that this is meant', async () => {
    left = {};
    const warnings = async (options: Partial<McpStreamableOptions>) => {
      const server = () => serverSaying(() => 'served');
      const imports = [McpStreamableModule.forRoot({ serverInfo, server, ...options })];
      app = await TestApp.of(adapter, { imports, providers: [{ provide: APP_GUARD, useValue: guard }] });
      await app.client().initialize();
      await app.client().initialize();
      return app.log.texts('warn');
    };
    expect(await warnings({})).toEqual([expect.stringContaining('"principal"')]);
    await app.close();
    expect(await warnings({ principal: () => undefined })).toEqual([]);
  });
});

/** As in MongoDB's driver. */
class ObjectId {
  readonly #hex: string;
  constructor(hex: string) {
    this.#hex = hex;
  }
  toHexString(): string {
    return this.#hex;
  }
}
