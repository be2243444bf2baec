import { beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, TestApp } from '../support/app.js';
import { LATEST, type RawClient } from '../support/raw-client.js';
import { sharedApp } from '../support/test-apps.js';
import { expectRefusal } from '../support/refusal.js';

const PARSE_ERROR = { status: 400, code: -32700 };
const INVALID_REQUEST = { status: 400, code: -32600 };
/** One character more than an id or a progress token may have. */
const LONG = 'x'.repeat(257);

describe.each(ONE_ADAPTER)('the messages of a POST on %s', (adapter) => {
  let app: TestApp;
  let called: number;

  const together = sharedApp(() => TestApp.start({ adapter, tools: { count: () => String(++called) } }));
  beforeEach(async () => {
    called = 0;
    app = await together();
  });

  /** With a session and without: what is not understood is not even asked for its session. */
  async function refusedEitherWay(body: string, expected: Parameters<typeof expectRefusal>[1]): Promise<void> {
    await expectRefusal(await app.client().post(body), expected);
    await app.settled({ sessions: 0, live: 0 });
    const client = await app.client().initialize();
    await expectRefusal(await client.post(body), expected);
    expect(called).toBe(0);
    await app.settled({ sessions: 1, inFlight: 0, streams: 0, logs: 1, events: 0 });
  }

  it.each(['', ' \n', '{', 'nonsense', '{"jsonrpc":"2.0",}', "{'jsonrpc':'2.0'}", '[{}'])(
    'E7: a body that is no JSON is refused (%#)',
    async (body) => {
      await refusedEitherWay(body, PARSE_ERROR);
    },
  );

  it('E7: a POST without a body is refused', async () => {
    await expectRefusal(await app.client().post(undefined), { ...PARSE_ERROR, says: ['empty'] });
  });

  it.each<[unknown, string | number | null, string]>([
    [null, null, 'object'],
    [42, null, 'object'],
    ['tools/list', null, 'object'],
    [{}, null, '"jsonrpc"'],
    [{ jsonrpc: '1.0', id: 1, method: 'ping' }, 1, '"1.0"'],
    [{ id: 1, method: 'ping' }, 1, '"jsonrpc"'],
    [{ jsonrpc: '2.0', id: null, method: 'ping' }, null, '"id"'],
    [{ jsonrpc: '2.0', id: null, method: 'initialize', params: {} }, null, '"id"'],
    [{ jsonrpc: '2.0', id: null, method: 'notifications/initialized' }, null, '"id"'],
    [{ jsonrpc: '2.0', id: 1.5, method: 'ping' }, null, '1.5'],
    [{ jsonrpc: '2.0', id: {}, method: 'ping' }, null, '"id"'],
    [{ jsonrpc: '2.0', id: true, method: 'ping' }, null, 'true'],
    [{ jsonrpc: '2.0', id: 2 ** 53, method: 'ping' }, null, '9007199254740992'],
    [{ jsonrpc: '2.0', method: 'initialize', params: {} }, null, '"initialize"'],
    [{ jsonrpc: '2.0', method: 'tools/list' }, null, '"tools/list"'],
    [{ jsonrpc: '2.0', method: 'tools/call', params: { name: 'count' } }, null, '"tools/call"'],
    [{ jsonrpc: '2.0', id: 1, method: 42 }, 1, '42'],
    [{ jsonrpc: '2.0', id: 1, method: 'ping', params: [1] }, 1, '"params"'],
    [{ jsonrpc: '2.0', id: 1, method: 'ping', params: { _meta: 1 } }, 1, '"_meta"'],
    [{ jsonrpc: '2.0', id: 1 }, 1, '"method"'],
    [{ jsonrpc: '2.0', id: 1, method: 'ping', result: {} }, 1, '"result"'],
    [{ jsonrpc: '2.0', id: 1, result: 'done' }, null, '"result"'],
    [{ jsonrpc: '2.0', id: 1, error: 'failed' }, null, '"error"'],
    [[], null, 'empty'],
    [{ jsonrpc: '2.0', id: LONG, method: 'tools/call', params: { name: 'count' } }, null, '257 characters'],
    [{ jsonrpc: '2.0', id: LONG, result: {} }, null, '257 characters'],
    [{ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { _meta: { progressToken: LONG } } }, 1, '257 characters'],
    [{ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: LONG } }, null, '257 characters'],
  ])('E8: a POST of what is no JSON-RPC 2.0 is refused (%#)', async (body, id, named) => {
    await refusedEitherWay(JSON.stringify(body), { ...INVALID_REQUEST, id, says: [named] });
  });

  it.each(['initialize', 'tools/call'])('E8: "%s" nested 20,000 levels deep is refused', async (method) => {
    const deep = '{"a":['.repeat(10_000) + ']}'.repeat(10_000);
    const params = `{"protocolVersion":"${LATEST}","name":"count","arguments":{"a":${deep}},"capabilities":{"a":${deep}}}`;
    const body = `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`;
    await refusedEitherWay(body, { ...INVALID_REQUEST, id: 1, says: ['512 levels'] });
  });

  it('E8: a batch with an invalid message is refused with its position, and nothing of it is dispatched', async () => {
    const client = await app.client().initialize('2025-03-26');
    const batch = [client.toolCall('count'), { jsonrpc: '2.0', id: null, method: 'ping' }, client.toolCall('count')];
    await expectRefusal(await client.post(batch), { ...INVALID_REQUEST, says: ['Message 1', '"id"'] });
    expect(called).toBe(0);
    await app.settled({ inFlight: 0, streams: 0 });
  });

  it('E8: a long value is not sent back at full length', async () => {
    const body = { jsonrpc: '2.0', id: 1, method: 'x'.repeat(10_000), result: {} };
    const { message } = await expectRefusal(await app.client().post(body), { ...INVALID_REQUEST, id: 1 });
    expect(message.length).toBeLessThan(500);
  });

  describe('batches', () => {
    const calls = (client: RawClient, count: number): object[] =>
      Array.from({ length: count }, () => client.toolCall('count'));

    it.each([1, 3, 100])('E9: %i requests are served at 2025-03-26, and answered with an array', async (count) => {
      const client = await app.client().initialize('2025-03-26');
      const response = await client.post(calls(client, count));
      expect(response.status).toBe(200);
      const answers = await response.json();
      expect(answers).toHaveLength(count);
      expect(called).toBe(count);
      await app.settled({ inFlight: 0, streams: 0, events: 0 });
    });

    it('E9: batches of notifications and responses alone are accepted', async () => {
      const client = await app.client().initialize('2025-03-26');
      const batch = [
        { jsonrpc: '2.0', method: 'notifications/roots/list_changed' },
        { jsonrpc: '2.0', id: 'nobody-waits', result: {} },
      ];
      const response = await client.post(batch);
      expect([response.status, await response.text()]).toEqual([202, '']);
    });

    it('E9: more than 100 messages are refused, and none is dispatched', async () => {
      const client = await app.client().initialize('2025-03-26');
      await expectRefusal(await client.post(calls(client, 101)), { ...INVALID_REQUEST, says: ['101', '100'] });
      expect(called).toBe(0);
      await app.settled({ inFlight: 0, streams: 0 });
    });

    it.each(['2025-06-18', LATEST])('E9: batches are refused at %s', async (revision) => {
      const client = await app.client().initialize(revision);
      for (const count of [1, 2]) {
        await expectRefusal(await client.post(calls(client, count)), { ...INVALID_REQUEST, says: [revision] });
      }
      expect(called).toBe(0);
    });

    it('E9: batches with an initialize in them are refused, in a session and without', async () => {
      const client = await app.client().initialize('2025-03-26');
      const batch = [...calls(client, 1), client.initializeMessage('2025-03-26')];
      const refusal = { ...INVALID_REQUEST, says: ['"initialize"', 'batch'] };
      await expectRefusal(await client.post(batch), refusal);
      await expectRefusal(await app.client().post(batch), refusal);
      await expectRefusal(await app.client().post([client.initializeMessage('2025-03-26')]), refusal);
      expect(called).toBe(0);
      await app.settled({ sessions: 1, live: 1, inFlight: 0 });
    });

    it('E9: batches with one id twice are refused', async () => {
      const client = await app.client().initialize('2025-03-26');
      const batch = [client.toolCall('count', {}, { id: 'a' }), client.toolCall('count', {}, { id: 'a' })];
      await expectRefusal(await client.post(batch), { ...INVALID_REQUEST, id: 'a', says: ['"a"'] });
      expect(called).toBe(0);
      await app.settled({ inFlight: 0 });
    });
  });

  describe('Last-Event-ID', () => {
    const cursor = { 'last-event-id': '0_0' };

    it('E10: Last-Event-ID is refused on a request, which is not dispatched', async () => {
      const client = await app.client().initialize();
      const response = await client.post(client.toolCall('count', {}, { id: 'x' }), cursor);
      await expectRefusal(response, { status: 400, code: -32000, id: 'x', says: ['Last-Event-ID', 'GET'] });
      expect(called).toBe(0);
      await app.settled({ sessions: 1, inFlight: 0, streams: 0 });
    });

    it('E10: Last-Event-ID is refused on an initialize, which begins no session', async () => {
      const client = app.client();
      await expectRefusal(await client.post(client.initializeMessage(), cursor), { status: 400, code: -32000, id: 1 });
      await app.settled({ sessions: 0, live: 0, logs: 0 });
    });

    it('E10: Last-Event-ID is none when it is empty', async () => {
      const client = await app.client({ 'last-event-id': '' }).initialize();
      expect((await client.call('count')).status).toBe(200);
      const listening = await client.listen();
      listening.destroy();
    });

    it('E10: Last-Event-ID is refused on a notification', async () => {
      const client = await app.client().initialize();
      const notification = { jsonrpc: '2.0', method: 'notifications/roots/list_changed' };
      await expectRefusal(await client.post(notification, cursor), { status: 400, code: -32000 });
    });
  });
});
