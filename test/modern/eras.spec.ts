import type { McpEras } from 'nestjs-mcp-streamable';
import { LEGACY_REVISIONS, MODERN_REVISIONS } from 'nestjs-mcp-streamable/server';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { send, type RawResponse } from '../support/http.js';
import { LATEST } from '../support/raw-client.js';
import { ModernClient, MODERN, modernMeta } from '../support/modern-client.js';
import { expectRefusal } from '../support/refusal.js';
import { testApps } from '../support/test-apps.js';

const UNSUPPORTED_VERSION = -32022;

describe.each(ONE_ADAPTER)('the eras that an endpoint serves, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, tools: { greet: () => 'hello' } });
  const modern = (app: TestApp): ModernClient => new ModernClient(app.url);

  it.each<McpEras>(['both', 'modern'])(
    '§0: eras "%s": a modern request is served, and makes no session',
    async (eras) => {
      const app = await start({ eras });
      const response = await modern(app).call('greet');
      expect(response.status).toBe(200);
      expect((await response.json()).result.content[0].text).toBe('hello');
      await app.settled({ sessions: 0, live: 0, inFlight: 0 });
    },
  );

  it.each<McpEras>(['both', 'legacy'])('§0: eras "%s": a session is served', async (eras) => {
    const app = await start({ eras });
    const client = await app.client().initialize();
    expect((await (await client.call('greet')).json()).result.content[0].text).toBe('hello');
    await app.settled({ sessions: 1 });
  });

  it('§0: one endpoint serves both eras at once, also requests with the same ids', async () => {
    const app = await start({ eras: 'both' });
    const legacy = await app.client().initialize();
    const answers = await Promise.all([
      modern(app).call('greet', {}, { id: 1 }),
      legacy.call('greet', {}, { id: 1 }),
      modern(app).call('greet', {}, { id: 1 }),
      legacy.call('greet', {}, { id: 2 }),
    ]);
    const bodies = await Promise.all(answers.map((answer) => answer.json()));
    expect(bodies.map(({ id }) => id)).toEqual([1, 1, 1, 2]);
    // Each in the form of its era.
    expect(bodies.map(({ result }) => result.resultType)).toEqual(['complete', undefined, 'complete', undefined]);
  });

  it('§0: server/discover names the revisions that are served', async () => {
    for (const eras of ['both', 'modern'] as const) {
      const { result } = await modern(await start({ eras })).ask('server/discover');
      expect(result.supportedVersions).toEqual([...MODERN_REVISIONS]);
    }
  });

  it.each<[string, McpEras, readonly string[]]>([
    ['both', 'both', MODERN_REVISIONS],
    ['modern', 'modern', MODERN_REVISIONS],
    ['legacy', 'legacy', LEGACY_REVISIONS],
  ])('M3: eras "%s": an unknown revision is refused with those that are served', async (_, eras, supported) => {
    const app = await start({ eras });
    const client = modern(app);
    const meta = { 'io.modelcontextprotocol/protocolVersion': '2099-01-01' };
    const headers = { 'mcp-protocol-version': '2099-01-01' };
    const response = await client.request('tools/list', {}, { id: 'a', meta, headers });
    const refusal = { status: 400, code: UNSUPPORTED_VERSION, id: 'a', says: ['2099-01-01'] };
    const { data } = await expectRefusal(response, refusal);
    expect(data).toEqual({ supported, requested: '2099-01-01' });
  });

  describe('modern only', () => {
    const startModern = (): Promise<TestApp> => start({ eras: 'modern' });
    const expectLegacyRefused = async (response: RawResponse, id: unknown, requested?: string): Promise<void> => {
      const { data } = await expectRefusal(response, {
        status: 400,
        code: UNSUPPORTED_VERSION,
        id: id as number,
        says: [MODERN],
      });
      expect(data).toEqual({ supported: [MODERN], ...(requested && { requested }) });
    };

    it('§0: initialize is refused with the revisions that are served, and makes no session', async () => {
      const app = await startModern();
      const client = app.client();
      await expectLegacyRefused(await client.post(client.initializeMessage()), 1, LATEST);
      await app.settled({ sessions: 0, live: 0 });
    });

    it('§0: requests of sessions are refused with the revisions that are served, whatever session they name', async () => {
      const app = await startModern();
      const client = app.client();
      await expectLegacyRefused(await client.call('greet'), 1);
      client.sessionId = 'no-such-session-here';
      client.protocolVersion = LATEST;
      await expectLegacyRefused(await client.call('greet', {}, { id: 'x' }), 'x', LATEST);
    });

    it('§0: notifications are accepted with 202, and ignored', async () => {
      const app = await startModern();
      const response = await app.client().post({ jsonrpc: '2.0', method: 'notifications/initialized' });
      expect(response.status).toBe(202);
      expect(response.header('content-type')).toBeUndefined();
      expect(await response.text()).toBe('');
    });

    it('§0: batches and responses are refused', async () => {
      const app = await startModern();
      const client = app.client();
      const refusal = { status: 400, code: -32600 };
      await expectRefusal(await client.post([client.toolCall('greet')]), refusal);
      await expectRefusal(await client.post({ jsonrpc: '2.0', id: 1, result: {} }), refusal);
      await expectRefusal(await client.post({ jsonrpc: '2.0', id: 1, error: { code: 1, message: 'x' } }), refusal);
    });

    it.each(['GET', 'DELETE', 'HEAD', 'PUT', 'PATCH'])('M12: %s is answered 405', async (method) => {
      const app = await startModern();
      for (const headers of [
        { accept: 'text/event-stream' },
        { accept: 'text/event-stream', 'mcp-session-id': 'abc', 'mcp-protocol-version': LATEST },
        { accept: 'text/event-stream', 'mcp-protocol-version': MODERN },
      ]) {
        const response = await send(app.url, { method, headers: headers as Record<string, string> });
        expect(response.status).toBe(405);
        expect(response.header('allow')).toBe('POST');
        const text = await response.text();
        if (method !== 'HEAD') expect(JSON.parse(text)).toMatchObject({ jsonrpc: '2.0', id: null, error: {} });
      }
      await app.settled({ openResponses: 0 });
    });

    it('§0: McpSessionService is provided, and has no sessions', async () => {
      const app = await startModern();
      expect(await app.service.list()).toEqual([]);
      expect(await app.service.notify(() => true, { method: 'notifications/tools/list_changed' })).toBe(0);
    });
  });

  describe('legacy only', () => {
    const startLegacy = (): Promise<TestApp> => start({ eras: 'legacy' });

    it.each(['tools/call', 'server/discover', 'subscriptions/listen', 'no/such'])(
      '§0: a modern %s is refused with the revisions of sessions',
      async (method) => {
        const app = await startLegacy();
        const params = method === 'tools/call' ? { name: 'greet' } : {};
        const response = await modern(app).request(method, params, { id: 3 });
        const refusal = { status: 400, code: UNSUPPORTED_VERSION, id: 3, says: [MODERN] };
        const { data } = await expectRefusal(response, refusal);
        expect(data).toEqual({ supported: LEGACY_REVISIONS, requested: MODERN });
        await app.settled({ sessions: 0, live: 0, inFlight: 0 });
      },
    );

    it('§0: a request that claims to be modern by its header alone is refused the same way', async () => {
      const app = await startLegacy();
      const client = app.client({ 'mcp-protocol-version': MODERN });
      const response = await client.call('greet');
      expect(response.status).toBe(400);
      const { error } = await response.json();
      expect(error.data.supported).toEqual(LEGACY_REVISIONS);
    });

    it('§0: modern notifications are accepted, and modern batches and responses refused', async () => {
      const app = await startLegacy();
      const client = app.client({ 'mcp-protocol-version': MODERN });
      const notified = await client.post({
        jsonrpc: '2.0',
        method: 'notifications/x',
        params: { _meta: modernMeta() },
      });
      expect(notified.status).toBe(202);
      expect(await notified.text()).toBe('');
      await expectRefusal(await client.post([client.toolCall('greet')]), { status: 400, code: -32600 });
      await expectRefusal(await client.post({ jsonrpc: '2.0', id: 1, result: {} }), { status: 400, code: -32600 });
    });

    it('E2: the methods POST, GET and DELETE are served', async () => {
      const app = await startLegacy();
      const response = await send(app.url, { method: 'PUT' });
      expect(response.status).toBe(405);
      expect(response.header('allow')).toBe('GET, POST, DELETE');
      await response.text();
    });
  });
});
