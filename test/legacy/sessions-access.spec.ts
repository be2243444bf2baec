import type { CanActivate, ExecutionContext } from '@nestjs/common';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ONE_ADAPTER, gate, type TestApp, type TestAppOptions, type TestTool } from '../support/app.js';
import type { RawClient } from '../support/raw-client.js';
import { expectGenericFailure, expectRefusal, NO_SESSION_ID, NO_SUCH_SESSION } from '../support/refusal.js';
import { testApps } from '../support/test-apps.js';
import { RecordedLog } from '../support/recorded-log.js';
import { as, trustingGuard } from '../support/users.js';

describe.each(ONE_ADAPTER)('who may use which session on %s', (adapter) => {
  let app: TestApp;
  const tools: Record<string, TestTool> = {
    quick: () => 'quick',
    talks: async (_, ctx) => {
      await ctx.log('info', 'one');
      return 'said';
    },
  };
  const begin = testApps(adapter, { shared: true, guards: [] });
  const start = async (options: Partial<TestAppOptions> = {}): Promise<void> => {
    app = await begin({ tools, ...options });
  };
  /** Every way to use a session. */
  const uses = (client: RawClient, sessionId: string | undefined, cursor = '0_0') => {
    const named: Record<string, string> = sessionId === undefined ? {} : { 'mcp-session-id': sessionId };
    return {
      request: () => client.post(client.toolCall('quick', {}, { id: 'r' }), named),
      notification: () =>
        client.post({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }, named),
      response: () => client.post({ jsonrpc: '2.0', id: 'x', result: {} }, named),
      get: () => client.get(undefined, named),
      replay: () => client.get(cursor, named),
      delete: () => client.delete(named),
    };
  };

  it.each(['request', 'notification', 'response', 'get', 'replay', 'delete'] as const)(
    'S5: a %s without a session id is refused, and nothing is begun',
    async (use) => {
      await start();
      const response = await uses(app.client(), undefined)[use]();
      expect(response.header('mcp-session-id')).toBeUndefined();
      await expectRefusal(response, { ...NO_SESSION_ID, id: use === 'request' ? 'r' : null });
      await app.settled({ sessions: 0, live: 0, logs: 0, openResponses: 0, timers: 0 });
    },
  );

  it.each(['request', 'get', 'delete'] as const)(
    'S5: a %s of a page of another origin reads that CORS may not expose the header, one of its own does not',
    async (use) => {
      await start();
      const refused = async (headers: Record<string, string>): Promise<string> => {
        const response = await uses(app.client(headers), undefined)[use]();
        return (await expectRefusal(response, { ...NO_SESSION_ID, id: use === 'request' ? 'r' : null })).message;
      };
      const says = 'app.enableCors({ origin, ...mcpCors() })';
      expect(await refused({ origin: 'http://localhost:5173' })).toContain(says);
      expect(await refused({ origin: new URL(app.url).origin })).not.toContain(says);
      expect(await refused({})).not.toContain(says);
    },
  );

  it('S5: an empty session id counts as a missing one', async () => {
    await start();
    const client = app.client();
    await expectRefusal(await uses(client, '').request(), { ...NO_SESSION_ID, id: 'r' });
    expect((await client.post(client.initializeMessage(), { 'mcp-session-id': '' })).status).toBe(200);
  });

  describe.each(['request', 'notification', 'response', 'get', 'replay', 'delete'] as const)('by %s', (use) => {
    it('S6: a session whose id nobody was given does not exist, whatever the id means elsewhere', async () => {
      await start();
      const bystander = await app.client().initialize();
      for (const id of ['constructor', '__proto__', 'toString', 'ABCDEFGHIJKLMNOPQRSTUV', '0', 'null', '%00']) {
        const response = await uses(app.client(), id)[use]();
        await expectRefusal(response, { ...NO_SUCH_SESSION, id: use === 'request' ? 'r' : null });
      }
      expect((await bystander.call('quick')).status).toBe(200);
      await app.settled({ sessions: 1, live: 1, logs: 1, openResponses: 0 });
    });

    it('S6: a request with the id of an ended session gets 404', async () => {
      await start();
      const client = await app.client().initialize();
      await (await client.delete()).text();
      await app.settled({ sessions: 0, live: 0, logs: 0, timers: 0 });
      const response = await uses(client, client.sessionId)[use]();
      await expectRefusal(response, { ...NO_SUCH_SESSION, id: use === 'request' ? 'r' : null });
      await app.settled({ sessions: 0, live: 0, logs: 0, timers: 0 });
    });

    it('S6: a request with two session ids is refused, whoever owns the sessions', async () => {
      await start();
      const [one, other] = [await app.client().initialize(), await app.client().initialize()];
      const both = { 'mcp-session-id': [one.sessionId!, other.sessionId!] } as never;
      const client = app.client(both);
      const response = await uses(client, undefined)[use]();
      await expectRefusal(response, { ...NO_SUCH_SESSION, id: use === 'request' ? 'r' : null });
      await app.settled({ sessions: 2, live: 2 });
    });

    it.each([
      ['another user', as('ann'), as('bob')],
      ['nobody', as('ann'), {}],
      ['somebody, when it is nobody’s', {}, as('bob')],
    ])('S7: a session does not exist for %s', async (_, owner, other) => {
      await start({ guards: [trustingGuard], responseMode: 'sse' });
      const mine = await app.client(owner).initialize();
      const stream = (await mine.call('talks')).sse();
      await stream.end();
      const foreign = uses(app.client(other), mine.sessionId, stream.events[0]!.id);
      const unknown = uses(app.client(other), 'ABCDEFGHIJKLMNOPQRSTUV', stream.events[0]!.id);
      const [answer, reference] = [await foreign[use](), await unknown[use]()];
      expect(answer.status).toBe(404);
      expect(await answer.text()).toBe(await reference.text());
      const names = (headers: object) => Object.keys(headers).toSorted();
      expect(names(answer.headers)).toEqual(names(reference.headers));
      // For its owner it does.
      expect((await (await mine.call('quick')).sse().count(1)).messages).toHaveLength(1);
      await app.settled({ sessions: 1, live: 1, inFlight: 0 });
    });
  });

  it('S8: the same user with a refreshed token is served, on POST, GET and DELETE', async () => {
    await start({ guards: [trustingGuard] });
    const client = await app.client(as('ann', 'old')).initialize();
    client.headers = as('ann', 'new');
    expect((await client.call('quick')).status).toBe(200);
    const stream = await client.listen();
    const deleted = await client.delete();
    expect(deleted.status).toBe(204);
    await stream.end();
  });

  it.each<[string, object, string | undefined]>([
    ['user.sub', { user: { sub: 'sub', id: 'id' }, auth: { clientId: 'client' } }, 'sub'],
    ['user.id', { user: { id: 'id' }, auth: { clientId: 'client' } }, 'id'],
    ['user.id, a number', { user: { id: 7 } }, '7'],
    ['auth.extra.sub', { auth: { clientId: 'client', extra: { sub: 'sub' } } }, 'sub'],
    ['user.userId', { user: { userId: 3, username: 'ann' }, auth: { clientId: 'client' } }, '3'],
    ['user._id', { user: { _id: 'mongo' }, auth: { clientId: 'client' } }, 'mongo'],
    ['nothing', { auth: { clientId: 'client' } }, undefined],
  ])('S8: by default the principal is %s', async (_, found, principal) => {
    const guard: CanActivate = {
      canActivate: (context: ExecutionContext) =>
        Object.assign(context.switchToHttp().getRequest(), found) !== undefined,
    };
    await start({ guards: [guard] });
    const client = await app.client().initialize();
    expect((await app.service.get(client.sessionId!))?.principal).toBe(principal);
    expect(await app.service.list({ principal: principal ?? null })).toHaveLength(1);
  });

  it('S8: a user without a principal is refused, and gets no session', async () => {
    const log = new RecordedLog();
    const guard: CanActivate = {
      canActivate: (context) => Boolean((context.switchToHttp().getRequest().user = { name: 'ann' })),
    };
    await start({ guards: [guard] });
    log.attach(app.app);
    const client = app.client();
    await expectGenericFailure(await client.post(client.initializeMessage()), 1);
    log.release();
    expect(log.texts('error')).toEqual([expect.stringContaining('"principal"')]);
    expect(await app.service.list()).toEqual([]);
  });

  it('S8: the principal is the result of the option "principal", also of an asynchronous one', async () => {
    const principal = async (request: { headers: Record<string, string> }): Promise<string | undefined> => {
      await new Promise(setImmediate);
      return request.headers['x-tenant'];
    };
    await start({ principal });
    const client = await app.client({ 'x-tenant': 'acme' }).initialize();
    expect((await client.call('quick')).status).toBe(200);
    client.headers = { 'x-tenant': 'evil' };
    await expectRefusal(await uses(client, client.sessionId).request(), { ...NO_SUCH_SESSION, id: 'r' });
  });

  it('S8: guards that set no principal cause one warning', async () => {
    await start({ guards: [{ canActivate: () => true }] });
    const log = new RecordedLog().attach(app.app);
    onTestFinished(() => log.release());
    for (let i = 0; i < 3; i++) await app.client().initialize();
    expect(log.texts('warn').filter((text) => text.includes('"principal"'))).toHaveLength(1);
  });

  it('S9: a request without a version header has the negotiated revision', async () => {
    await start();
    for (const version of ['2025-03-26', '2025-06-18', '2025-11-25']) {
      const client = await app.client().initialize(version);
      client.protocolVersion = undefined;
      expect((await client.call('quick')).status).toBe(200);
      const stream = await client.listen();
      // Of the three only the latest has priming events.
      expect(stream.primes).toHaveLength(version === '2025-11-25' ? 1 : 0);
      expect((await client.delete()).status).toBe(204);
      await stream.end();
    }
  });

  it.each([
    ['unsupported', '2024-11-05', ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']],
    ['nonsense', 'latest', ['latest', '2025-03-26', '2025-06-18', '2025-11-25']],
    ['empty', '', ['2025-03-26', '2025-06-18', '2025-11-25']],
    ['not the negotiated one', '2025-06-18', ['2025-06-18', '2025-11-25']],
  ])('S10: a version header that is %s is refused on every method', async (_, version, says) => {
    await start();
    const client = await app.client().initialize('2025-11-25');
    client.protocolVersion = undefined;
    client.headers = { 'mcp-protocol-version': version };
    for (const [use, send] of Object.entries(uses(client, client.sessionId))) {
      const { data } = await expectRefusal(await send(), {
        status: 400,
        code: -32000,
        id: use === 'request' ? 'r' : null,
        says,
      });
      expect(data).toMatchObject({ supported: ['2025-11-25', '2025-06-18', '2025-03-26'] });
    }
    await app.settled({ sessions: 1, live: 1, inFlight: 0, openResponses: 0 });
  });

  it('S10: the version header of an initialize is not checked', async () => {
    await start();
    const client = app.client({ 'mcp-protocol-version': '2024-11-05' });
    const response = await client.post(client.initializeMessage());
    expect(response.status).toBe(200);
    expect((await response.json()).result.protocolVersion).toBe('2025-11-25');
  });

  describe.each(['auto', 'sse', 'json'] as const)('in mode %s', (responseMode) => {
    it('S11: a request with an id that is in flight is refused, and the first request goes on', async () => {
      const [begun, go] = [gate(), gate()];
      let calls = 0;
      const waits = async (): Promise<string> => {
        calls++;
        begun.open();
        await go.promise;
        return `call ${calls}`;
      };
      await start({ responseMode, tools: { waits, quick: () => 'quick' } });
      const client = await app.client().initialize();
      const first = client.call('waits', {}, { id: 'same' });
      await begun.promise;
      for (const name of ['waits', 'quick']) {
        const again = await client.call(name, {}, { id: 'same' });
        await expectRefusal(again, { status: 400, code: -32600, id: 'same', says: ['"same"', 'in flight'] });
      }
      // An id is what it is in JSON, and of this session.
      expect((await client.call('quick', {}, { id: 1 })).status).toBe(200);
      expect((await client.call('quick', {}, { id: '1' })).status).toBe(200);
      const other = await app.client().initialize();
      expect((await other.call('quick', {}, { id: 'same' })).status).toBe(200);
      go.open();
      const response = await first;
      const text = responseMode === 'sse' ? (await response.sse().count(1)).messages[0] : await response.json();
      expect(text).toMatchObject({ id: 'same', result: { content: [{ text: 'call 1' }] } });
      expect(calls).toBe(1);
      // Answered, the id is free.
      await app.settled({ inFlight: 0 });
      expect((await client.call('quick', {}, { id: 'same' })).status).toBe(200);
    });
  });

  // The node that gets an id sees to it.
  it.skipIf(process.env['NODES'] === '2')(
    'S11: an id stays in flight while its handler runs, its client gone or not',
    async () => {
      const go = gate();
      await start({
        responseMode: 'sse',
        tools: { waits: () => go.promise.then(() => 'waited'), quick: () => 'quick' },
      });
      const client = await app.client().initialize();
      const stream = await (await client.call('waits', {}, { id: 5 })).sse().opened();
      stream.destroy();
      await app.settled({ readers: 0, inFlight: 1 });
      await expectRefusal(await client.call('quick', {}, { id: 5 }), { status: 400, code: -32600, id: 5, says: ['5'] });
      go.open();
      await app.settled({ inFlight: 0 });
      await (await client.call('quick', {}, { id: 5 })).sse().end();
    },
  );

  it('S11: a batch that repeats an id is refused as a whole', async () => {
    const called: string[] = [];
    await start({ tools: { notes: ({ what }) => String(called.push(String(what))) } });
    const client = await app.client().initialize('2025-03-26');
    const batch = [
      client.toolCall('notes', { what: 'a' }, { id: 1 }),
      client.toolCall('notes', { what: 'b' }, { id: 2 }),
      client.toolCall('notes', { what: 'c' }, { id: 1 }),
    ];
    await expectRefusal(await client.post(batch), { status: 400, code: -32600, id: 1, says: ['1'] });
    expect(called).toEqual([]);
    await app.settled({ inFlight: 0, streams: 0 });
  });
});
