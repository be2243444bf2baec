import { ProtocolError } from '@modelcontextprotocol/server';
import { InMemoryEventStore } from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestApp } from '../support/app.js';
import { gists, log } from '../support/messages.js';
import { LATEST } from '../support/raw-client.js';
import { expectRefusal } from '../support/refusal.js';
import { recordedEvents, testApps } from '../support/test-apps.js';
import { scripted, scriptedServer } from '../support/scripted-server.js';

/** The errors of the tools `throws` and `rejects` are answered, and nothing is left. */
async function expectErrorsOfHandlers(app: TestApp): Promise<void> {
  const client = await app.client().initialize();
  const thrown = await client.call('throws', {}, { id: 'a' });
  expect(thrown.status).toBe(200);
  expect(await thrown.json()).toEqual({
    jsonrpc: '2.0',
    id: 'a',
    error: { code: -32055, message: 'out of paper', data: { tray: 2 } },
  });
  const rejected = await client.call('rejects', {}, { id: 'b' });
  expect(await rejected.json()).toEqual({ jsonrpc: '2.0', id: 'b', error: { code: -32603, message: 'no toner' } });
  await app.settled({ inFlight: 0, streams: 0, events: 0, sessions: 1 });
}

describe.each(ONE_ADAPTER)('POST on %s', (adapter) => {
  const start = testApps(adapter, { shared: true });

  it('P1: notifications and responses get 202 without a body', async () => {
    const app = await start();
    const events = recordedEvents(app);
    const client = await app.client().initialize();
    for (const message of [
      { jsonrpc: '2.0', method: 'notifications/roots/list_changed' },
      { jsonrpc: '2.0', method: 'notifications/of-our-own', params: { any: 'thing' } },
      { jsonrpc: '2.0', id: 'nobody waits', result: {} },
      { jsonrpc: '2.0', id: 17, error: { code: -1, message: 'no' } },
    ]) {
      const response = await client.post(message);
      expect(response.status).toBe(202);
      expect(response.header('content-type')).toBeUndefined();
      expect(response.header('mcp-session-id')).toBeUndefined();
      expect(await response.text()).toBe('');
    }
    const unknown = events.filter(({ type }) => type === 'unknown-response');
    expect(unknown).toMatchObject([{ requestId: 'nobody waits' }, { requestId: 17 }]);
    expect(unknown.every(({ sessionId }) => sessionId === client.sessionId)).toBe(true);
    await app.settled({ inFlight: 0, outbound: 0, streams: 0, loggedStreams: 0, events: 0 });
  });

  it('P1: a batch of notifications and responses gets 202 without a body', async () => {
    const app = await start();
    const client = await app.client().initialize('2025-03-26');
    const response = await client.post([
      { jsonrpc: '2.0', method: 'notifications/roots/list_changed' },
      { jsonrpc: '2.0', id: 'nobody waits', result: {} },
    ]);
    expect(response.status).toBe(202);
    expect(response.header('content-type')).toBeUndefined();
    expect(await response.text()).toBe('');
  });

  it('P2: the stream of a request carries all its messages in order and ends after the answer', async () => {
    const app = await start({
      tools: {
        talks: async (_, ctx) => {
          await ctx.log('info', 'one');
          await ctx.log('info', 'two');
          return 'said';
        },
      },
    });
    const client = await app.client().initialize();
    const stream = (await client.call('talks')).sse();
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['one', 'two', 'said']);
    const id = stream.primes[0]!.slice(0, -2);
    expect(stream.primes).toEqual([`${id}_0`]);
    expect(stream.events.map((event) => event.id)).toEqual([`${id}_1`, `${id}_2`, `${id}_3`]);
    await app.settled({ inFlight: 0, streams: 0, readers: 0 });
  });

  it('P2: messages that a handler does not wait for keep their order', async () => {
    const count = 300;
    const app = await start({
      tools: {
        bursts: async (_, ctx) => {
          const sent = Array.from({ length: count }, (_, n) => ctx.log('info', n));
          await Promise.resolve();
          void Promise.all(sent);
          return 'done';
        },
      },
    });
    const client = await app.client().initialize();
    const stream = (await client.call('bursts')).sse();
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual([...Array(count).keys(), 'done']);
  });

  it('P2: all requests of a POST are in flight before the first is dispatched', async () => {
    const inFlight: number[] = [];
    const app = await start({
      tools: {
        counts: async () => {
          inFlight.push((await app.service.counts()).inFlight);
          return 'counted';
        },
      },
    });
    const client = await app.client().initialize('2025-03-26');
    const response = await client.post([client.toolCall('counts'), client.toolCall('counts')]);
    expect(await response.json()).toHaveLength(2);
    expect(inFlight[0]).toBe(2);
  });

  it('P2: a POST is not dispatched at all when one of its request ids is in use', async () => {
    const hold = gate();
    const entered = gate();
    const called: unknown[] = [];
    const app = await start({
      tools: {
        waits: async () => {
          entered.open();
          await hold.promise;
          return 'waited';
        },
        counts: ({ which }) => {
          called.push(which);
          return 'counted';
        },
      },
    });
    const client = await app.client().initialize('2025-03-26');
    const first = client.call('waits', {}, { id: 'same' });
    await entered.promise;
    // Twice in one POST, and in flight already: -32600 with the id that is to blame.
    const twins = [client.toolCall('counts', {}, { id: 'twin' }), client.toolCall('counts', {}, { id: 'twin' })];
    await expectRefusal(await client.post(twins), { status: 400, code: -32600, id: 'twin', says: ['"twin"'] });
    const late = [client.toolCall('counts', {}, { id: 1 }), client.toolCall('counts', {}, { id: 'same' })];
    await expectRefusal(await client.post(late), { status: 400, code: -32600, id: 'same', says: ['"same"'] });
    const again = await client.call('counts', { which: 'again' }, { id: 'same' });
    await expectRefusal(again, { status: 400, code: -32600, id: 'same' });
    expect(called).toEqual([]);
    await app.settled({ inFlight: 1 });
    // The number and the text are two ids.
    hold.open();
    expect(gists([await (await first).json()])).toEqual(['waited']);
    const free = await client.call('counts', { which: 'free' }, { id: 'same' });
    expect(gists([await free.json()])).toEqual(['counted']);
    expect(called).toEqual(['free']);
  });

  it('P2: the ids 1 and "1" belong to two requests', async () => {
    const gates = { number: gate<string>(), text: gate<string>() };
    const app = await start({ tools: { waits: ({ on }) => gates[on as keyof typeof gates].promise } });
    const client = await app.client().initialize();
    const number = client.call('waits', { on: 'number' }, { id: 1 });
    const text = client.call('waits', { on: 'text' }, { id: '1' });
    await app.settled({ inFlight: 2 });
    gates.text.open('for the text');
    expect(await (await text).json()).toMatchObject({ id: '1', result: { content: [{ text: 'for the text' }] } });
    gates.number.open('for the number');
    expect(await (await number).json()).toMatchObject({ id: 1, result: { content: [{ text: 'for the number' }] } });
  });

  it.each([0, -1, Number.MAX_SAFE_INTEGER, '', 'ümläut', '__proto__'])(
    'P2: a request with an odd id is answered, and cancelled, under that id (%#)',
    async (id) => {
      let hold = gate();
      const app = await start({
        tools: {
          talks: async (_, ctx) => {
            await ctx.log('info', 'a word');
            await hold.promise;
            return 'said';
          },
        },
      });
      const client = await app.client().initialize();
      const stream = await (await client.call('talks', {}, { id, progressToken: id })).sse().count(1);
      // The node that gets an id sees to it (S11).
      if (process.env['NODES'] !== '2') {
        await expectRefusal(await client.call('talks', {}, { id }), { status: 400, code: -32600, id });
      }
      hold.open();
      expect(await stream.end()).toBe('end');
      expect(stream.messages[1]).toMatchObject({ id, result: { content: [{ text: 'said' }] } });
      // And cancels under it.
      hold = gate();
      const again = await (await client.call('talks', {}, { id })).sse().count(1);
      await client.notify('notifications/cancelled', { requestId: id });
      expect(await again.end()).toBe('end');
      expect(gists(again.messages)).toEqual(['a word']);
      hold.open();
      await app.settled({ inFlight: 0, streams: 0 });
    },
  );

  it('P5: a request of an unknown method gets -32601 in a 200', async () => {
    const app = await start();
    const client = await app.client().initialize();
    const response = await client.post({ jsonrpc: '2.0', id: 'odd', method: 'no/such/method' });
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ jsonrpc: '2.0', id: 'odd', error: { code: -32601 } });
    await app.settled({ inFlight: 0, streams: 0, events: 0 });
  });

  it('P5: a handler that throws a ProtocolError is answered with its code and data, and the session continues', async () => {
    const app = await start({
      tools: {
        throws: () => {
          throw new ProtocolError(-32055, 'out of paper', { tray: 2 });
        },
        rejects: () => Promise.reject(new ProtocolError(-32603, 'no toner')),
      },
    });
    await expectErrorsOfHandlers(app);
  });

  it('P5: a stream carries the error of a handler that throws, and that of an unknown method', async () => {
    const app = await start({
      responseMode: 'sse',
      tools: {
        throws: () => {
          throw new ProtocolError(-32603, 'out of paper');
        },
      },
    });
    const client = await app.client().initialize();
    const thrown = (await client.call('throws')).sse();
    expect(await thrown.end()).toBe('end');
    expect(thrown.messages).toMatchObject([{ error: { code: -32603, message: 'out of paper' } }]);
    const unknown = (await client.post({ jsonrpc: '2.0', id: 'odd', method: 'no/such/method' })).sse();
    expect(await unknown.end()).toBe('end');
    expect(unknown.messages).toMatchObject([{ id: 'odd', error: { code: -32601 } }]);
  });
});

describe.each(ONE_ADAPTER)('with an SDK server: POST on %s', (adapter) => {
  const start = testApps(adapter, { shared: true });

  it('P5: any error of a handler is the error of its request, and the session continues', async () => {
    const app = await start({
      server: scripted({
        throws: () => {
          throw Object.assign(new Error('out of paper'), { code: -32055, data: { tray: 2 } });
        },
        rejects: () => Promise.reject(new Error('no toner')),
      }),
    });
    await expectErrorsOfHandlers(app);
  });

  it('P5: a result, and the data of an error, that cannot be written as JSON become an error, in a JSON body, a batch and a stream', async () => {
    const app = await start({
      server: scripted({
        // The SDK lets it through: only JSON itself has no word for it.
        bigint: async ({ first }, ctx) => {
          if (first !== undefined) await ctx.mcpReq.notify(log(first));
          return { content: [], structuredContent: { big: 1n } };
        },
        throws: () => {
          throw Object.assign(new Error('out of paper'), { code: -32055, data: { tray: 2n } });
        },
      }),
    });
    const events = recordedEvents(app);
    const client = await app.client().initialize('2025-03-26');
    const alone = await client.call('bigint', {}, { id: 'alone' });
    expect(await alone.json()).toMatchObject({ id: 'alone', error: { code: -32603 } });
    expect(await (await client.call('throws')).json()).toMatchObject({ error: { code: -32603 } });
    const both = await client.post([
      client.toolCall('bigint', {}, { id: 'x' }),
      client.toolCall('nobody', {}, { id: 'y' }),
    ]);
    expect(await both.json()).toMatchObject([{ error: { code: -32603 } }, { error: { code: -32603 } }]);
    const stream = (await client.call('bigint', { first: 'a word' })).sse();
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['a word', 'error -32603']);
    expect(events.filter(({ type }) => type === 'protocol-error')).toHaveLength(4);
    await app.settled({ inFlight: 0, streams: 0, readers: 0 });
  });

  it.each(['auto', 'sse', 'json'] as const)(
    'P3: a slow factory delays "initialize", which is answered with one JSON body in %s mode',
    async (mode) => {
      const clock = new ManualClock();
      const made = gate();
      const asked = gate();
      const store = new InMemoryEventStore({}, clock);
      const app = await start({
        clock,
        responseMode: mode,
        sseAfterMs: 500,
        eventStore: store,
        server: async (context) => {
          asked.open();
          await made.promise;
          return scriptedServer({}, context);
        },
      });
      const client = app.client();
      const answered = client.post(client.initializeMessage(LATEST));
      await asked.promise;
      // However long it takes.
      await clock.advance(60_000);
      made.open();
      const response = await answered;
      expect(response.status).toBe(200);
      expect(response.header('content-type')).toMatch('application/json');
      expect((await response.json()).result.protocolVersion).toBe(LATEST);
      expect(await store.stats()).toMatchObject({ streams: 0, events: 0 });
    },
  );
});
