import { InMemoryEventStore, InMemorySessionStore } from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { FaultyEventStore } from '../support/faulty-event-store.js';
import { afterEach, describe, expect, it } from 'vitest';
import { QUICK } from '../support/adapters.js';
import { ONE_ADAPTER, gate, TestApp, type TestAppOptions } from '../support/app.js';
import { double } from '../support/doubles.js';
import { send } from '../support/http.js';
import { log } from '../support/messages.js';
import { scriptedServer } from '../support/scripted-server.js';
import { AnyResource } from '../support/test-tools.js';

describe.each(ONE_ADAPTER)('bounds and endings on %s', (adapter) => {
  let app: TestApp | undefined;
  afterEach(async () => {
    await app?.close();
    app = undefined;
  });

  async function start(options: Partial<TestAppOptions> = {}): Promise<TestApp> {
    app = await TestApp.start({ adapter, port: true, ...options });
    return app;
  }

  it('G11: a GET that comes while the log is unavailable is held, and reads the log afterwards', async () => {
    const clock = new ManualClock();
    const eventStore = new FaultyEventStore(new InMemoryEventStore({}, clock), clock);
    const { service, ...rest } = await start({ eventStore, clock });
    const client = await app!.client().initialize();
    await service.notify(client.sessionId!, log('before'));
    eventStore.faults = { failBefore: ({ method }) => method === 'read' };
    const plain = await client.listen();
    const resumed = await client.listen('0_0');
    expect([plain.comments.length, resumed.primes]).toEqual([1, ['0_0']]);
    expect([plain.events, resumed.events]).toEqual([[], []]);
    await app!.settled({ readers: 2 });
    eventStore.faults = {};
    await clock.advance(60_000);
    await Promise.all([plain.opened(), resumed.count(1)]);
    expect(resumed.messages[0].params.data).toBe('before');
    expect(rest.url).toBe(app!.url);
    // What the log refuses then ends the response.
    eventStore.faults = { failBefore: ({ method }) => method === 'read' };
    const foreign = await client.listen(`${'a'.repeat(22)}_1`);
    eventStore.faults = {};
    await clock.advance(60_000);
    expect(await foreign.end()).toBe('end');
    plain.destroy();
    resumed.destroy();
  });

  it('S1: an "initialize" that is too large to be kept is refused', async () => {
    await start();
    const client = app!.client();
    const capabilities = { experimental: { much: Array.from({ length: 1_400 }, () => ({})) } };
    const response = await client.post(client.initializeMessage('2025-11-25', capabilities));
    expect(response.status).toBe(400);
    expect((await response.json()).error).toMatchObject({ code: -32602, message: expect.stringContaining('4096') });
    await app!.settled({ sessions: 0, logs: 0 });
  });

  it('a request beyond those that a session may have in flight gets 429', async () => {
    const hold = gate();
    await start({
      tools: {
        waits: async () => {
          await hold.promise;
          return 'waited';
        },
      },
    });
    const client = await app!.client().initialize('2025-03-26');
    const batch = (): object[] => Array.from({ length: 100 }, () => client.toolCall('waits'));
    const served = Array.from({ length: 10 }, () => client.post(batch()));
    await app!.settled({ inFlight: 1_000 });
    const refused = await client.call('waits');
    expect(refused.status).toBe(429);
    expect((await refused.json()).error.message).toContain('1000');
    hold.open();
    for (const response of await Promise.all(served)) {
      expect(response.status).toBe(200);
      await response.text();
    }
    await app!.settled({ inFlight: 0 });
  });

  it.skipIf(QUICK)('a subscription beyond those that a session may have is refused', async () => {
    await start({ module: { providers: [AnyResource] } });
    const client = await app!.client().initialize('2025-03-26');
    const subscribe = (uri: string): object => ({
      jsonrpc: '2.0',
      id: client.nextId(),
      method: 'resources/subscribe',
      params: { uri },
    });
    const long = await client.post(subscribe(`a://${'b'.repeat(2_048)}`));
    expect((await long.json()).error).toMatchObject({ code: -32602, message: expect.stringContaining('2052') });
    for (let from = 0; from < 1_000; from += 100) {
      const response = await client.post(Array.from({ length: 100 }, (_, i) => subscribe(`a://${from + i}`)));
      expect((await response.json()).length).toBe(100);
    }
    const refused = await client.post(subscribe('a://one-more'));
    expect(refused.status).toBe(400);
    expect((await refused.json()).error.code).toBe(-32602);
    expect((await app!.service.get(client.sessionId!))!.subscriptions).toHaveLength(1_000);
  });

  it('E13: subscriptions whose URIs together have more than 64 KiB are refused, also those of one batch', async () => {
    await start({ module: { providers: [AnyResource] } });
    const client = await app!.client().initialize('2025-03-26');
    const subscribing = (first: number, count: number, method = 'resources/subscribe'): object[] =>
      Array.from({ length: count }, (_, n) => {
        const uri = `a://${first + n}/`.padEnd(2_048, 'x');
        return { jsonrpc: '2.0', id: client.nextId(), method, params: { uri } };
      });
    const tooMany = await client.post(subscribing(0, 33));
    expect((await tooMany.json()).error).toMatchObject({ code: -32602, message: expect.stringContaining('65536') });
    expect(await (await client.post(subscribing(0, 32))).json()).toHaveLength(32);
    const oneMore = await client.post(subscribing(32, 1));
    expect((await oneMore.json()).error).toMatchObject({ code: -32602, message: expect.stringContaining('65536') });
    await (await client.post(subscribing(0, 1, 'resources/unsubscribe'))).text();
    expect((await client.post(subscribing(32, 1))).status).toBe(200);
    expect((await app!.service.get(client.sessionId!))!.subscriptions).toHaveLength(32);
  });

  describe('with an SDK server', () => {
    it('S15: an app stops while a factory makes a server, and while a body is on its way', async () => {
      const entered = gate();
      await start({
        server: () => {
          entered.open();
          return new Promise(() => {});
        },
      });
      const client = app!.client();
      const initializing = client.post(client.initializeMessage());
      await entered.promise;
      const half = send(app!.url, { headers: client.usualHeaders, keepOpen: true });
      const halfAnswer = half.then((response) => response.status);
      await app!.app.close();
      const refused = await initializing;
      expect(refused.status).toBe(503);
      await refused.text();
      // It was not yet being read, or it was: either way nobody waits for it.
      expect([503, undefined]).toContain(await halfAnswer.catch(() => undefined));
      await app!.settled({ sessions: 0, live: 0, logs: 0, timers: 0 });
      app = undefined;
    });

    it('S12: a session that is deleted while it is rebuilt stays deleted', async () => {
      const [entered, hold] = [gate(), gate()];
      let made = 0;
      await start({
        server: async (context) => {
          if (++made > 1) {
            entered.open();
            await hold.promise;
          }
          return scriptedServer({ quick: () => 'quick' }, context);
        },
      });
      const client = await app!.client().initialize();
      await app!.release(client.sessionId!);
      const call = client.call('quick');
      await entered.promise;
      expect((await client.delete()).status).toBe(204);
      expect(await (await call).json()).toMatchObject({ error: { code: -32000 } });
      hold.open();
      await app!.settled({ sessions: 0, live: 0, logs: 0 });
      expect((await client.call('quick')).status).toBe(404);
    });
  });

  it('S12: a call whose effect the record has not taken yet is answered with an error', async () => {
    const [entered, hold] = [gate(), gate()];
    const memory = new InMemorySessionStore();
    const sessionStore = double(memory, {
      patch: async (id, patch) => {
        entered.open();
        await hold.promise;
        return memory.patch(id, patch);
      },
    });
    await start({ sessionStore });
    const client = await app!.client().initialize();
    const level = { jsonrpc: '2.0', id: 'level', method: 'logging/setLevel', params: { level: 'debug' } };
    const setting = client.post(level);
    await entered.promise;
    await client.delete();
    const answer = await (await setting).json();
    expect(answer).toMatchObject({ id: 'level', error: { code: -32000 } });
    hold.open();
  });

  it('S16: a log that could not be dropped at first is dropped later', async () => {
    const clock = new ManualClock();
    const eventStore = new FaultyEventStore(new InMemoryEventStore({}, clock), clock);
    await start({ eventStore, clock });
    const client = await app!.client().initialize();
    let failures = 2;
    eventStore.faults = { failBefore: ({ method }) => method === 'drop' && failures-- > 0 };
    expect((await client.delete()).status).toBe(204);
    await app!.settled({ sessions: 0, logs: 1 });
    await clock.advance(1_000);
    await app!.settled({ sessions: 0, logs: 0 });
  });
});
