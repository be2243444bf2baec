import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, TestApp, type TestTool } from '../support/app.js';
import { LATEST, type RawClient } from '../support/raw-client.js';
import { expectRefusal } from '../support/refusal.js';
import { AnyResource } from '../support/test-tools.js';

const KEYS = ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'valueOf', '__defineGetter__'];

/** Names that every object has, in all the places where a client may put names. */
describe.each(ONE_ADAPTER)('hostile: keys of prototypes on %s', (adapter) => {
  let app: TestApp;
  let client: RawClient;
  let release: ReturnType<typeof gate<void>>;
  let received: unknown[];

  const tools: Record<string, TestTool> = {
    quick: () => 'quick',
    takes: (args) => String(received.push(args)),
    waits: async (_, ctx) => {
      await Promise.race([release.promise, new Promise((resolve) => ctx.signal.addEventListener('abort', resolve))]);
      return 'waited';
    },
    progresses: async (_, ctx) => {
      await ctx.progress(1);
      return 'progressed';
    },
  };
  const text = async (body: unknown): Promise<string> =>
    (await (await client.post(body)).json()).result.content[0].text;

  beforeEach(async () => {
    [received, release] = [[], gate()];
    app = await TestApp.start({ adapter, port: true, tools, sseAfterMs: 60_000, module: { providers: [AnyResource] } });
    client = await app.client().initialize();
  });
  afterEach(async () => {
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
    expect((await client.call('quick')).status).toBe(200);
    await app.close();
  });

  it.each(KEYS)('hostile: "%s" as a request id is an id like any other', async (id) => {
    expect(await (await client.call('quick', {}, { id })).json()).toMatchObject({ id, result: {} });
    const waiting = client.call('waits', {}, { id });
    await app.settled({ inFlight: 1 });
    await expectRefusal(await client.call('quick', {}, { id }), { status: 400, code: -32600, id, says: [id] });
    await client.notify('notifications/cancelled', { requestId: id });
    expect(await (await waiting).text()).toBe('');
    await app.settled({ inFlight: 0, streams: 0 });
    expect(await (await client.call('quick', {}, { id })).json()).toMatchObject({ id, result: {} });
  });

  it.each(KEYS)('hostile: "%s" as a method is one that is not known', async (method) => {
    const response = await client.post({ jsonrpc: '2.0', id: 1, method, params: {} });
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ id: 1, error: { code: -32601 } });
    await client.notify(method);
    await client.notify(`notifications/${method}`);
  });

  it.each(KEYS)(
    'hostile: "%s" as the id of a response, in a cancellation or as a progress token is unknown',
    async (id) => {
      await client.respond(id, {});
      await client.notify('notifications/cancelled', { requestId: id });
      await client.notify('notifications/progress', { progressToken: id, progress: 1 });
      await app.settled({ inFlight: 0, outbound: 0 });
    },
  );

  it.each<[unknown]>([[{}], [[]], [null], [1.5], [true], [{ toString: 'x' }]])(
    'hostile: %j where an id belongs is no id',
    async (id) => {
      await client.notify('notifications/cancelled', { requestId: id });
      await client.notify('notifications/progress', { progressToken: id, progress: 1 });
      await app.settled({ inFlight: 0, outbound: 0 });
    },
  );

  it.each(KEYS)('hostile: "%s" as a progress token comes back as it is', async (progressToken) => {
    const stream = (await client.call('progresses', {}, { id: 1, progressToken })).sse();
    await stream.end();
    expect(stream.messages).toMatchObject([{ params: { progressToken } }, { id: 1, result: {} }]);
  });

  it.each(KEYS)('hostile: "%s" as the name of a tool, a level, a uri or a cursor is a name', async (name) => {
    expect((await (await client.call(name)).json()).error.message).toMatch(name);
    const level = await client.post({ jsonrpc: '2.0', id: 1, method: 'logging/setLevel', params: { level: name } });
    expect(await level.json()).toHaveProperty('error');
    const uri = { jsonrpc: '2.0', id: 2, method: 'resources/subscribe', params: { uri: name } };
    expect(await (await client.post(uri)).json()).toMatchObject({ result: {} });
    const record = await app.service.get(client.sessionId!);
    expect(record?.subscriptions).toEqual([name]);
    expect(record?.logLevel).toBeUndefined();
    for (const cursor of [name, `${name}_1`]) {
      await expectRefusal(await client.get(cursor), { status: 400, code: -32000 });
    }
  });

  it.each(['__proto__', String.raw`\u005f_proto__`, String.raw`__pr\u006fto__`])(
    'hostile: "%s" in params pollutes nothing',
    async (key) => {
      const evil = `{"${key}":{"polluted":true},"constructor":{"prototype":{"polluted":true}},"deep":[{"${key}":{"polluted":true}}]}`;
      const message = (params: string, id: number) =>
        `{"jsonrpc":"2.0","id":${id},"method":"tools/call","${key}":{"polluted":true},"params":${params}}`;
      expect(await text(message(`{"name":"takes","arguments":${evil}}`, 1))).toBe('1');
      const [args] = received as [Record<string, unknown>];
      expect(Object.getPrototypeOf(args)).toBe(Object.prototype);
      expect(Object.keys(args)).toEqual(['constructor', 'deep']);
      expect(JSON.stringify(args['deep'])).toBe('[{}]');
      // A handler that is careless with what it was given.
      expect(Object.assign({}, args)).not.toHaveProperty('polluted');
      expect(await text(message(`{"name":"takes","arguments":{},"${key}":{"name":"waits"},"_meta":${evil}}`, 2))).toBe(
        '2',
      );
    },
  );

  it('hostile: a capability that is only inherited is none', async () => {
    const other = app.client();
    const params = `{"protocolVersion":"${LATEST}","capabilities":{"__proto__":{"roots":{}}},"clientInfo":{"name":"n","version":"1"}}`;
    const response = await other.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":${params}}`);
    expect(response.status).toBe(200);
    await response.text();
    const asked = app.service.request(response.header('mcp-session-id')!, { method: 'roots/list' });
    await expect(asked).rejects.toMatchObject({ code: 'CLIENT_LACKS_CAPABILITY' });
  });
});
