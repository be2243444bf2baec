import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, type TestApp, type TestAppOptions } from '../support/app.js';
import { testApps } from '../support/test-apps.js';
import { LATEST } from '../support/raw-client.js';
import { expectRefusal } from '../support/refusal.js';
import { scriptedServer } from '../support/scripted-server.js';
import { as, trustingGuard } from '../support/users.js';

const SOUND = { protocolVersion: LATEST, capabilities: {}, clientInfo: { name: 'a', version: '1' } };

describe.each(ONE_ADAPTER)('initialize on %s', (adapter) => {
  let app: TestApp;
  const begin = testApps(adapter, { shared: true, guards: [], tools: { quick: () => 'quick' } });
  const start = async (options: Partial<TestAppOptions> = {}): Promise<TestApp> => {
    app = await begin(options);
    return app;
  };

  it.each(['auto', 'sse', 'json'] as const)(
    'S1: initialize is answered with one JSON body and a session id in %s mode',
    async (mode) => {
      await start({ responseMode: mode });
      const client = app.client();
      const response = await client.post(client.initializeMessage());
      expect(response.status).toBe(200);
      expect(response.header('content-type')).toMatch('application/json');
      const id = response.header('mcp-session-id')!;
      // 22 characters out of 62 carry 131 bits.
      expect(id).toMatch(/^[A-Za-z0-9]{22}$/);
      const body = await response.json();
      expect(body).toMatchObject({ jsonrpc: '2.0', id: 1, result: { protocolVersion: LATEST } });
      expect(body.result.serverInfo.name).toBe('test');
      await app.settled({ sessions: 1, live: 1, inFlight: 0, streams: 0, readers: 0, logs: 1, events: 0 });
    },
  );

  it('S1: the answer of initialize has the session id, and no other response has it', async () => {
    await start();
    const client = await app.client().initialize();
    const stream = await client.listen();
    const others = [
      await client.call('quick'),
      await client.post({ jsonrpc: '2.0', method: 'notifications/whatever' }),
      await client.post(client.initializeMessage()),
      await client.post(client.toolCall('quick'), { 'mcp-protocol-version': 'nonsense' }),
      await client.get('nonsense'),
      await client.delete(),
      await client.call('quick'),
    ];
    for (const response of [stream.response, ...others]) expect(response.header('mcp-session-id')).toBeUndefined();
    for (const response of others) await response.text();
    await stream.end();
  });

  it('S1: every session has an id of its own', async () => {
    await start();
    const clients = await Promise.all(Array.from({ length: 50 }, () => app.client().initialize()));
    expect(new Set(clients.map(({ sessionId }) => sessionId)).size).toBe(50);
    await app.settled({ sessions: 50, live: 50, logs: 50 });
  });

  it('S1: sessionIdGenerator gives the id of a session', async () => {
    const ids = ['~!session-number-one!~', 'x'.repeat(256)];
    await start({ sessionIdGenerator: () => ids.shift()! });
    const first = await app.client().initialize();
    const second = await app.client().initialize();
    expect(first.sessionId).toBe('~!session-number-one!~');
    expect(second.sessionId).toBe('x'.repeat(256));
    expect((await (await first.call('quick')).json()).result.content[0].text).toBe('quick');
  });

  it.each([
    ['too short', 'short'],
    ['too long', 'x'.repeat(257)],
    ['not visible', 'session with spaces'],
    ['not ASCII', 'sitzung-für-jemanden'],
    ['a header of its own', 'session-number-1\r\nset-cookie: a=b'],
    ['not a text', 1234567890123456],
  ])('S1: an id of sessionIdGenerator that is %s fails its initialize', async (_, id) => {
    await start({ sessionIdGenerator: () => id as string });
    const client = app.client();
    const response = await client.post(client.initializeMessage());
    expect(response.header('mcp-session-id')).toBeUndefined();
    await expectRefusal(response, { status: 500, code: -32603, id: 1 });
    await app.settled({ sessions: 0, live: 0, logs: 0 });
  });

  it('S1: an id that is in use fails its initialize, and its session continues', async () => {
    await start({ sessionIdGenerator: () => 'always-the-same-id' });
    const owner = await app.client().initialize();
    const other = app.client();
    await expectRefusal(await other.post(other.initializeMessage()), { status: 500, code: -32603, id: 1 });
    await app.settled({ sessions: 1, live: 1, logs: 1 });
    expect((await owner.call('quick')).status).toBe(200);
    const found = await app.service.get('always-the-same-id');
    expect(found).toMatchObject({ id: 'always-the-same-id' });
  });

  it.each(['2025-03-26', '2025-06-18', '2025-11-25'])(
    'S1: a session has the revision %s that its client asked for',
    async (asked) => {
      await start();
      const client = await app.client().initialize(asked);
      expect(client.protocolVersion).toBe(asked);
      expect(await app.service.get(client.sessionId!)).toMatchObject({ protocolVersion: asked });
    },
  );

  it.each(['2024-11-05', '2024-10-07', '2026-07-28', '1999-01-01', 'latest', '', '__proto__'])(
    'S1: a client that asks for revision "%s" is offered 2025-11-25',
    async (asked) => {
      await start();
      const client = await app.client().initialize(asked);
      expect(client.protocolVersion).toBe('2025-11-25');
      expect(await app.service.get(client.sessionId!)).toMatchObject({ protocolVersion: '2025-11-25' });
      expect((await client.call('quick')).status).toBe(200);
    },
  );

  it('S1: an initialize with headers of another era begins a session', async () => {
    await start();
    const client = app.client();
    const response = await client.post(client.initializeMessage(), { 'mcp-method': 'initialize', 'mcp-name': 'x' });
    expect(response.status).toBe(200);
    expect(response.header('mcp-session-id')).toBeDefined();
    await response.text();
  });

  it.each([
    ['no params', undefined, /protocolVersion/],
    ['no version', { capabilities: {}, clientInfo: { name: 'a', version: '1' } }, /protocolVersion/],
    ['a version that is no text', { protocolVersion: 1, capabilities: {}, clientInfo: {} }, /protocolVersion.* 1/],
    ['no capabilities', { protocolVersion: LATEST, clientInfo: { name: 'a', version: '1' } }, /capabilities/],
    ['a list of capabilities', { protocolVersion: LATEST, capabilities: [], clientInfo: {} }, /capabilities/],
    ['no client', { protocolVersion: LATEST, capabilities: {} }, /clientInfo/],
    ['a nameless client', { protocolVersion: LATEST, capabilities: {}, clientInfo: { version: '1' } }, /clientInfo/],
    [
      'settings of an extension that are no object',
      { ...SOUND, capabilities: { extensions: { 'com.example/x': 5 } } },
      /"params\.capabilities\.extensions\.com\.example\/x": .*number/,
    ],
    ['a capability that is true', { ...SOUND, capabilities: { sampling: true } }, /capabilities\.sampling/],
    ['icons that are a text', { ...SOUND, clientInfo: { name: 'a', version: '1', icons: 'x' } }, /clientInfo\.icons/],
    ['a null client', { protocolVersion: LATEST, capabilities: {}, clientInfo: null }, /clientInfo/],
  ])('S1: an initialize with %s is refused, and begins nothing', async (_, params, message) => {
    await start();
    const response = await app.client().post({ jsonrpc: '2.0', id: 'i', method: 'initialize', params });
    expect(response.header('mcp-session-id')).toBeUndefined();
    await expectRefusal(response, { status: 400, code: -32602, id: 'i', says: [message] });
    await app.settled({ sessions: 0, live: 0, logs: 0 });
  });

  it('S3: an initialize ignores the id of a session that never existed, has ended, or belongs to another principal', async () => {
    await start({ guards: [trustingGuard] });
    const ended = await app.client(as('ann')).initialize();
    await (await ended.delete()).text();
    const foreign = await app.client(as('bob')).initialize();
    for (const old of ['never-was-a-session', '__proto__', ended.sessionId!, foreign.sessionId!]) {
      const client = app.client(as('ann'));
      const response = await client.post(client.initializeMessage(), { 'mcp-session-id': old });
      expect(response.status).toBe(200);
      await response.text();
      client.sessionId = response.header('mcp-session-id');
      expect(client.sessionId).toMatch(/^[A-Za-z0-9]{22}$/);
      expect(client.sessionId).not.toBe(old);
      expect((await client.call('quick')).status).toBe(200);
    }
    expect((await foreign.call('quick')).status).toBe(200);
    await app.settled({ sessions: 5, live: 5 });
  });

  it('S4: an initialize on its own live session is refused, and the session continues', async () => {
    await start({ guards: [trustingGuard] });
    const client = await app.client(as('ann')).initialize();
    const again = client.initializeMessage(LATEST, { roots: {} }) as { id: number };
    await expectRefusal(await client.post(again), {
      status: 400,
      code: -32600,
      id: again.id,
      says: [/already initialized/],
    });
    expect((await client.call('quick')).status).toBe(200);
    // Also when the session is only a record on this node.
    await app.release(client.sessionId!);
    await expectRefusal(await client.post(again), { status: 400, code: -32600, id: again.id });
    await app.settled({ sessions: 1 });
  });

  describe('with an SDK server: its factory', () => {
    it('S1: the factory makes one server for each session, for this session', async () => {
      const made: { id: string; client: string; version: string; request: boolean }[] = [];
      await start({
        tools: {},
        server: (context) => {
          const { session, request } = context;
          const { id, clientInfo, protocolVersion } = session!;
          made.push({ id, client: clientInfo.name, version: protocolVersion, request: request !== undefined });
          return scriptedServer({ quick: () => id }, context);
        },
      });
      const [one, other] = [await app.client().initialize(), await app.client().initialize('2025-06-18')];
      expect(made).toEqual([
        { id: one.sessionId, client: 'raw', version: '2025-11-25', request: true },
        { id: other.sessionId, client: 'raw', version: '2025-06-18', request: true },
      ]);
      expect((await (await one.call('quick')).json()).result.content[0].text).toBe(one.sessionId);
      expect((await (await other.call('quick')).json()).result.content[0].text).toBe(other.sessionId);
      expect(made).toHaveLength(2);
    });
  });
});
