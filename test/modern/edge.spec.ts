import { beforeEach, describe, expect, it } from 'vitest';
import { ADAPTERS, type TestApp, NOTHING } from '../support/app.js';
import { send } from '../support/http.js';
import { testApps } from '../support/test-apps.js';
import { type ModernClient, MODERN, modernMeta } from '../support/modern-client.js';
import { expectRefusal } from '../support/refusal.js';
import { cut, postInChunks, senderOf } from '../support/raw-socket.js';

describe.each(ADAPTERS)('the edge and modern requests, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, port: true, maxBodyBytes: 10_000 });
  let app: TestApp;
  let client: ModernClient;
  let called: unknown[];
  beforeEach(async () => {
    called = [];
    const echo = (args: object): object => {
      called.push(args);
      return args;
    };
    app = await start({ tools: { echo } });
    client = app.modern();
  });
  const echoed = (args: object) => client.message('tools/call', { name: 'echo', arguments: args }, { id: 7 });

  it.each([
    ['Host', { host: 'evil.test' }],
    ['Origin', { origin: 'http://evil.test' }],
  ])('E1: a foreign %s is refused before the body is read', async (_, headers) => {
    const message = echoed({ a: 1 });
    const response = await client.post(message, { ...client.headersOf(message), ...(headers as object) });
    await expectRefusal(response, { status: 403, code: -32000 });
    expect(called).toEqual([]);
  });

  it('E1: an Origin that equals the Host passes', async () => {
    const { origin } = new URL(app.url);
    const response = await client.call('echo', { a: 1 }, { headers: { origin } });
    expect((await response.json()).result.structuredContent).toEqual({ a: 1 });
  });

  it.each(['PUT', 'PATCH', 'HEAD'])('E2: %s gets 405', async (method) => {
    const message = echoed({ a: 1 });
    const response = await send(app.url, { method, headers: client.headersOf(message) });
    expect(response.status).toBe(405);
    expect(response.header('allow')).toBe('GET, POST, DELETE');
    await response.text();
  });

  it.each(['text/plain', 'application/jsonx', undefined])('E4: the media type %s is refused', async (type) => {
    const response = await client.call('echo', {}, { headers: { 'content-type': type } });
    await expectRefusal(response, { status: 415, code: -32000 });
  });

  it.each(['application/json', 'text/event-stream', 'text/html', undefined])(
    'E5: Accept %s does not admit both forms of an answer',
    async (accept) => {
      const response = await client.call('echo', {}, { headers: { accept } });
      await expectRefusal(response, { status: 406, code: -32000 });
    },
  );

  it('E5: a request that accepts */* is served', async () => {
    expect((await client.call('echo', {}, { headers: { accept: '*/*' } })).status).toBe(200);
  });

  it('E6: a body over the limit is refused', async () => {
    const response = await client.call('echo', { text: 'x'.repeat(20_000) });
    await expectRefusal(response, { status: 413, code: -32000 });
    await app.settled(NOTHING);
  });

  it.each(['', '{', 'null', '"text"', '[]', '{}'])(
    'E7, E8: a body that is no request is refused (%#)',
    async (body) => {
      const response = await client.post(body, client.headersOf(echoed({})));
      const code = body === '' || body === '{' ? -32700 : -32600;
      await expectRefusal(response, { status: 400, code });
    },
  );

  it.each<[string, object]>([
    ['an id that is null', { id: null }],
    ['an id that is an object', { id: {} }],
    ['an id that is a fraction', { id: 1.5 }],
    ['an id of 257 characters', { id: 'x'.repeat(257) }],
    [
      'a progress token of 257 characters',
      { params: { name: 'echo', _meta: { ...modernMeta(), progressToken: 'x'.repeat(257) } } },
    ],
    ['another jsonrpc', { jsonrpc: '1.0' }],
    ['no method', { method: undefined }],
    ['params that are an array', { params: [] }],
  ])('E8: a message with %s is refused', async (_, change) => {
    const message = { ...echoed({}), ...change };
    const response = await client.post(message, client.headersOf(echoed({})));
    expect(response.status).toBe(400);
    expect((await response.json()).error.code).toBe(-32600);
    expect(called).toEqual([]);
  });

  it('E8: arguments nested 2,000 levels deep are refused', async () => {
    const deep = '{"a":['.repeat(1_000) + ']}'.repeat(1_000);
    const text = JSON.stringify(echoed({})).replace('"arguments":{', `"arguments":{"deep":${deep},`).replace(',}', '}');
    const response = await client.post(text, client.headersOf(echoed({})));
    await expectRefusal(response, { status: 400, code: -32600, id: 7, says: ['512 levels'] });
    expect(called).toEqual([]);
  });

  it('E8: a request method without an id is refused', async () => {
    const { id: _, ...message } = echoed({});
    await expectRefusal(await client.post(message, client.headersOf(echoed({}))), { status: 400, code: -32600 });
    expect(called).toEqual([]);
  });

  it('E9: a batch is refused, whatever its number of messages and their kind', async () => {
    for (const batch of [[echoed({})], [echoed({}), { jsonrpc: '2.0', method: 'notifications/x' }]]) {
      const response = await client.post(batch, client.headersOf(echoed({})));
      await expectRefusal(response, { status: 400, code: -32600, says: ['batch'] });
    }
    expect(called).toEqual([]);
  });

  it('§0: a posted response is refused', async () => {
    for (const answer of [{ result: { _meta: modernMeta() } }, { error: { code: 1, message: 'no' } }]) {
      const response = await client.post({ jsonrpc: '2.0', id: 1, ...answer }, client.headersOf(echoed({})));
      await expectRefusal(response, { status: 400, code: -32600, says: [MODERN] });
    }
  });

  it('E11: characters that chunks cut are decoded whole', async () => {
    const text = 'Übergröße 🏳️‍🌈 漢字';
    const message = echoed({ text });
    const bytes = Buffer.from(JSON.stringify(message));
    const response = await postInChunks(senderOf(client, message), cut(bytes, 1));
    expect((await response.json()).result.structuredContent).toEqual({ text });
  });
});
