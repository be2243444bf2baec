import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, TestApp } from '../support/app.js';
import type { RawClient } from '../support/raw-client.js';
import { sharedApp } from '../support/test-apps.js';
import { expectRefusal } from '../support/refusal.js';
import { MODERN, modernMeta } from '../support/modern-client.js';
import { loneFetch } from '../support/ways.js';

const UNSUPPORTED_VERSION = -32022;
const NO_SESSION_ID = -32000;
const NOT_FOUND = -32001;

describe.each(ONE_ADAPTER)('which era a POST belongs to on %s', (adapter) => {
  let app: TestApp;
  let called: string[];

  const together = sharedApp(() =>
    TestApp.start({
      adapter,
      tools: {
        greet: () => {
          called.push('greet');
          return 'hello';
        },
      },
    }),
  );
  beforeEach(async () => {
    called = [];
    app = await together();
  });

  const listing = (client: RawClient, meta?: object): object => ({
    jsonrpc: '2.0',
    id: client.nextId(),
    method: 'tools/list',
    params: meta ? { _meta: meta } : {},
  });

  it.each([
    ['initialize', 'a session'],
    ['tools/list', 'asked for its session'],
  ])('§0: %s without a modern claim is legacy', async (method) => {
    const client = app.client();
    if (method === 'initialize') {
      expect((await client.initialize()).sessionId).toMatch(/^[!-~]{22,}$/);
    } else {
      await expectRefusal(await client.post(listing(client)), { status: 400, code: NO_SESSION_ID, id: 1 });
    }
  });

  it.each([
    ['their revision', MODERN],
    ['a revision of its own', '2025-11-25'],
  ])('§0: initialize is legacy also when it carries the headers of the modern era, with %s', async (_, revision) => {
    const client = app.client();
    const response = await client.post(client.initializeMessage(), {
      'mcp-method': 'initialize',
      'mcp-name': 'x',
      'mcp-param-x': 'y',
      'mcp-protocol-version': revision,
    });
    expect(response.status).toBe(200);
    expect(response.header('mcp-session-id')).toBeDefined();
    expect((await response.json()).result.protocolVersion).toBe('2025-11-25');
    await app.settled({ sessions: 1 });
  });

  it('§0: initialize with a modern claim is modern, and makes no session', async () => {
    const client = app.client();
    const message = client.initializeMessage() as { params: object };
    const response = await client.post({ ...message, params: { ...message.params, _meta: modernMeta() } });
    expect(response.status).toBeGreaterThanOrEqual(400);
    expect(response.header('mcp-session-id')).toBeUndefined();
    await app.settled({ sessions: 0, live: 0 });
  });

  it('§0: an MCP-Protocol-Version that is no modern revision claims nothing', async () => {
    for (const version of ['', '1999-01-01', '2025-11-25x', 'constructor']) {
      const client = app.client();
      const response = await client.post(listing(client), { 'mcp-protocol-version': version });
      await expectRefusal(response, { status: 400, code: NO_SESSION_ID, id: 1, says: ['Mcp-Session-Id'] });
    }
  });

  it('§0: a message whose _meta names a revision is modern, whatever the value', async () => {
    const client = await app.client().initialize();
    for (const version of ['1999-01-01', '2025-11-25', '', null, 42, {}]) {
      const call = client.toolCall('greet');
      const response = await client.post({ ...call, params: { ...call.params, _meta: modernMeta(version) } });
      expect([version, response.status]).toEqual([version, 400]);
      const { id, error } = await response.json();
      expect(id).toBe(call.id);
      expect(error.code).not.toBe(NO_SESSION_ID);
      expect(called).toEqual([]);
    }
  });

  it('§0: a POST of an unknown revision is refused with those that are served', async () => {
    const client = app.client();
    const response = await client.post(listing(client, modernMeta('1999-01-01')));
    const { data } = await expectRefusal(response, {
      status: 400,
      code: UNSUPPORTED_VERSION,
      id: 1,
      says: ['1999-01-01'],
    });
    expect(data).toMatchObject({ requested: '1999-01-01' });
    expect((data as { supported: string[] }).supported).toEqual([MODERN]);
  });

  it('§0: a message is modern when its header says so', async () => {
    const client = await app.client().initialize();
    client.protocolVersion = MODERN;
    // Served as legacy it would be refused for its revision (S10) and asked to send another header.
    const { id, error } = await (await client.post(listing(client))).json();
    expect([id, error.code]).not.toContain(NO_SESSION_ID);
    await app.settled({ sessions: 1, inFlight: 0 });
  });

  it('§0: a modern message ignores the headers of session and cursor', async () => {
    const client = app.client();
    client.sessionId = 'no-such-session-here';
    const response = await client.post(listing(client, modernMeta('1999-01-01')), { 'last-event-id': 'nonsense' });
    await expectRefusal(response, { status: 400, code: UNSUPPORTED_VERSION, id: 1 });
  });

  it.each<[string, (message: object) => [object, Record<string, string>]]>([
    ['by its _meta', (message) => [{ ...message, params: { _meta: modernMeta() } }, {}]],
    ['by its header', (message) => [message, { 'mcp-protocol-version': MODERN }]],
  ])('§0: a notification that is modern %s is accepted with 202, and affects no session', async (_, claim) => {
    const client = app.client();
    const response = await client.post(...claim({ jsonrpc: '2.0', method: 'notifications/cancelled' }));
    expect(response.status).toBe(202);
    expect(response.header('content-type')).toBeUndefined();
    expect(await response.text()).toBe('');
    await app.settled({ sessions: 0, live: 0, streams: 0 });
  });

  it.each<[string, object, Record<string, string>]>([
    ['result by its _meta', { result: { _meta: modernMeta() } }, {}],
    ['result by its header', { result: {} }, { 'mcp-protocol-version': MODERN }],
    ['error by its header', { error: { code: -1, message: 'no' } }, { 'mcp-protocol-version': MODERN }],
  ])('§0: a posted response that is modern (%s) is refused', async (_, response, headers) => {
    const client = await app.client().initialize();
    const answer = await client.post({ jsonrpc: '2.0', id: 'q', ...response }, headers);
    await expectRefusal(answer, { status: 400, code: -32600, says: [MODERN] });
  });

  it('§0: a batch with one modern message is refused whole', async () => {
    const client = await app.client().initialize('2025-03-26');
    const batch = [client.toolCall('greet'), listing(client, modernMeta()), client.toolCall('greet')];
    const refusal = { status: 400, code: -32600, says: ['batch'] };
    await expectRefusal(await client.post(batch), refusal);
    await expectRefusal(await client.post([client.toolCall('greet')], { 'mcp-protocol-version': MODERN }), refusal);
    // Before E10, and before the session is looked for.
    client.sessionId = 'no-such-session-here';
    await expectRefusal(await client.post(batch, { 'last-event-id': 'nonsense' }), refusal);
    expect(called).toEqual([]);
    await app.settled({ sessions: 1, inFlight: 0, streams: 0 });
  });

  it('§0: a legacy message beside a lost session is not taken for modern', async () => {
    const client = app.client();
    client.sessionId = 'no-such-session-here';
    await expectRefusal(await client.post(listing(client)), { status: 404, code: NOT_FOUND, id: 1 });
  });

  it('§0: the official client that negotiates its era by itself falls back to a session where it must', async () => {
    app = await TestApp.start({ adapter, eras: 'legacy', tools: { greet: () => 'hello' } });
    const client = new Client({ name: 'auto', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } });
    const transport = new StreamableHTTPClientTransport(new URL(app.url), { fetch: loneFetch });
    await client.connect(transport);
    expect(transport.sessionId).toBeDefined();
    expect(transport.protocolVersion).toBe('2025-11-25');
    const result = await client.callTool({ name: 'greet' });
    expect(result.content).toEqual([{ type: 'text', text: 'hello' }]);
    await app.settled({ sessions: 1, inFlight: 0 });
    await transport.terminateSession();
    await client.close();
    await app.settled({ sessions: 0, readers: 0, openResponses: 0 });
    await app.close();
  });

  it('§0: the official client that negotiates its era by itself needs no session where it need not', async () => {
    const client = new Client({ name: 'auto', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } });
    const transport = new StreamableHTTPClientTransport(new URL(app.url), { fetch: loneFetch });
    await client.connect(transport);
    expect(client.getProtocolEra()).toBe('modern');
    expect(client.getNegotiatedProtocolVersion()).toBe(MODERN);
    expect(transport.sessionId).toBeUndefined();
    const result = await client.callTool({ name: 'greet' });
    expect(result.content).toEqual([{ type: 'text', text: 'hello' }]);
    await app.settled({ sessions: 0, live: 0, inFlight: 0 });
    await client.close();
  });
});
