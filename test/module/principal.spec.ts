import { UnauthorizedException, type CanActivate } from '@nestjs/common';
import { currentMcpCall, McpStreamableModule, type McpStreamableOptions } from 'nestjs-mcp-streamable';
import { afterEach, describe, expect, it } from 'vitest';
import { ADAPTERS } from '../support/app.js';
import { NestApp, serverInfo, serverSaying, whoami } from '../support/nest-app.js';
import { expectGenericFailure, expectRefusal } from '../support/refusal.js';

describe.each(ADAPTERS)('the principal on %s', (adapter) => {
  let app: NestApp;
  let left: object;
  afterEach(() => app.close());

  /** Leaves on the request what the test says. */
  const guard: CanActivate = {
    canActivate: (context) => Boolean(Object.assign(context.switchToHttp().getRequest<object>(), left)),
  };

  async function start(principal?: (request: never) => unknown, guards = [guard]): Promise<void> {
    left = {};
    const options: McpStreamableOptions = {
      serverInfo,
      server: () => serverSaying(() => currentMcpCall()?.principal),
      ...(principal && { principal: principal as McpStreamableOptions['principal'] & {} }),
    };
    app = await NestApp.start(adapter, { imports: [McpStreamableModule.forRoot({ ...options, guards })] });
  }

  const owners = async () => (await app.service.list()).map((session) => session.principal);

  it.each<[object, string]>([
    [{ user: { sub: 'ann', id: 'no' }, auth: { clientId: 'no' } }, 'ann'],
    [{ user: { id: 'bob' }, auth: { clientId: 'no' } }, 'bob'],
    [{ user: { id: 42 } }, '42'],
    [{ user: { id: 42n } }, '42'],
    [{ user: {}, auth: { clientId: 'app', token: 't' } }, 'app'],
    [{ user: { sub: null, id: 'cid' } }, 'cid'],
  ])('is by default what guards usually leave: %o', async (request, principal) => {
    await start();
    left = request;
    const client = await app.client().initialize();
    expect(await owners()).toEqual([principal]);
    expect(await whoami(client)).toBe(principal);
    expect(app.log.texts('warn')).toEqual([]);
  });

  it.each<[string, (request: never) => unknown]>([
    ['at once', (request: { headers: Record<string, string> }) => request.headers['x-tenant']],
    ['later', (request: { headers: Record<string, string> }) => Promise.resolve(request.headers['x-tenant'])],
  ])("is what the app's own function says %s", async (_, principal) => {
    await start(principal);
    left = { user: { sub: 'no' } };
    const client = await app.client('mcp', { 'x-tenant': 'acme' }).initialize();
    expect(await whoami(client)).toBe('acme');
    client.headers = { 'x-tenant': 'other' };
    await expectRefusal(await client.call('whoami', {}, { id: 'x' }), { status: 404, code: -32001, id: 'x' });
    expect(await owners()).toEqual(['acme']);
  });

  it.each([undefined, null, ''])('may be nobody: %j is the anonymous caller', async (nobody) => {
    await start(() => nobody, []);
    expect(await whoami(await app.client().initialize())).toBe('undefined');
    expect(await owners()).toEqual([undefined]);
    expect(app.log.texts('warn')).toEqual([]);
  });

  it.each<[string, unknown]>([
    ['a number', 42],
    ['an object', { sub: 'ann' }],
    ['true', true],
    ['a list', ['ann']],
  ])('cannot be %s: generic to the client, told to the log, with the option', async (_, principal) => {
    await start(() => principal);
    const client = app.client();
    await expectGenericFailure(await client.post(client.initializeMessage()), 1);
    expect(app.log.texts('error')).toEqual([expect.stringContaining('"principal"')]);
    expect(await app.service.counts()).toMatchObject({ sessions: 0, live: 0, logs: 0 });
  });

  it('of the default kind cannot be an object either', async () => {
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
  ])('whose function %s is generic to the client, and told to the log', async (_, principal) => {
    await start(principal);
    const client = app.client();
    const { message } = await expectGenericFailure(await client.post(client.initializeMessage()), 1);
    expect(message).not.toContain('secret');
    expect(app.log.texts('error')).toEqual(['the tenant of secret@example.com is unknown']);
  });

  it('may be refused by its function', async () => {
    await start(() => {
      throw new UnauthorizedException('No tenant.');
    });
    const client = app.client();
    const response = await client.post(client.initializeMessage());
    await expectRefusal(response, { status: 401, code: -32000, id: 1, says: ['No tenant.'] });
  });

  it('that guards leave unknown is warned of, once', async () => {
    await start();
    expect(app.log.texts('warn')).toEqual([]);
    await whoami(await app.client().initialize());
    await app.client().initialize();
    expect(app.log.texts('warn')).toEqual([expect.stringContaining('"principal"')]);
  });
});
