import type { CreateMessageRequest } from '@modelcontextprotocol/server';
import type { McpContext } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestApp } from '../support/app.js';
import { gists, log } from '../support/messages.js';
import { LATEST } from '../support/raw-client.js';
import { eventually, testApps } from '../support/test-apps.js';
import { scripted } from '../support/scripted-server.js';
import { ForsakenPost, connectionsGone } from '../support/raw-socket.js';

const CAPABLE = { sampling: {}, elicitation: { form: {} }, roots: {} };
const ROOTS = { roots: [{ uri: 'file:///home' }] };

/** How a request of the server came out, in short. */
function outcome(asked: Promise<unknown>): Promise<string> {
  return asked.then(
    (result) => JSON.stringify(result),
    (error) => `${error.name} ${error.code}`,
  );
}
const askRoots = (ctx: McpContext, key = 'roots'): Promise<string> => outcome(ctx.roots(key));

/** The tool `asks` samples, then elicits. */
async function expectBothQuestions(app: TestApp): Promise<void> {
  const client = await app.client().initialize(LATEST, CAPABLE);
  const stream = await (await client.call('asks')).sse().count(1);
  expect(stream.messages[0].method).toBe('sampling/createMessage');
  const content = { type: 'text', text: 'hi' };
  await client.respond(stream.messages[0].id, { model: 'm', role: 'assistant', content });
  await stream.count(2);
  expect(stream.messages[1].method).toBe('elicitation/create');
  await client.respond(stream.messages[1].id, { action: 'accept', content: { name: 'me' } });
  expect(await stream.end()).toBe('end');
  expect(JSON.parse(gists(stream.messages)[2] as string)).toEqual(['m', { action: 'accept', content: { name: 'me' } }]);
}

/** The tool `asks` asks five times at once. */
async function expectOwnIds(app: TestApp): Promise<void> {
  const clients = [await app.client().initialize(LATEST, CAPABLE), await app.client().initialize(LATEST, CAPABLE)];
  const ids: unknown[] = [];
  const askIn = async (client: (typeof clients)[number]): Promise<void> => {
    const stream = await (await client.call('asks')).sse().count(5);
    ids.push(...stream.messages.map(({ id }) => id));
    // Answered in another order than asked.
    for (const { id } of stream.messages.toReversed()) await client.respond(id, ROOTS);
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages).at(-1)).toBe('5');
  };
  await Promise.all(clients.map(askIn));
  // The SDK of a session that was rebuilt counts from 0 again.
  await app.release(clients[0]!.sessionId!);
  await askIn(clients[0]!);
  expect(ids).toHaveLength(15);
  expect(new Set(ids).size).toBe(15);
  await eventually(async () => expect(await app.service.counts()).toMatchObject({ outbound: 0, inFlight: 0 }));
}

describe.each(ONE_ADAPTER)('the way of server requests on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, port: true });

  it('P7: a request of a handler travels on the POST stream of its call', async () => {
    const app = await start({ clock: new ManualClock(), tools: { asks: (_, ctx) => askRoots(ctx) } });
    const client = await app.client().initialize(LATEST, CAPABLE);
    const standalone = await client.listen();
    const stream = await (await client.call('asks')).sse().count(1);
    const [question] = stream.messages;
    expect(question).toMatchObject({ jsonrpc: '2.0', method: 'roots/list' });
    await app.settled({ outbound: 1, inFlight: 1 });
    await client.respond(question.id, ROOTS);
    expect(await stream.end()).toBe('end');
    expect(JSON.parse(gists(stream.messages)[1] as string)).toEqual(ROOTS);
    expect(standalone.events).toEqual([]);
    await app.settled({ outbound: 0, inFlight: 0 });
    standalone.destroy();
  });

  it('P7: ctx.sample and ctx.elicit travel on the POST stream of their call in sse mode', async () => {
    const app = await start({
      responseMode: 'sse',
      tools: {
        asks: async (_, ctx) => {
          const params: CreateMessageRequest['params'] = { messages: [], maxTokens: 1 };
          const sampled = await ctx.sample('model', params);
          const elicited = await ctx.elicit('name', {
            message: 'Who?',
            requestedSchema: { type: 'object', properties: { name: { type: 'string' } } },
          });
          return JSON.stringify([sampled.model, elicited]);
        },
      },
    });
    await expectBothQuestions(app);
  });

  it('P7: a request while its client is disconnected is received when the client resumes', async () => {
    const ask = gate();
    const app = await start({
      tools: {
        asks: async (_, ctx) => {
          await ctx.log('info', 'a word');
          await ask.promise;
          return askRoots(ctx);
        },
      },
    });
    const client = await app.client().initialize(LATEST, CAPABLE);
    const stream = await (await client.call('asks')).sse().count(1);
    stream.destroy();
    await app.settled({ readers: 0, inFlight: 1 });
    ask.open();
    await app.settled({ outbound: 1 });
    const resumed = await (await client.get(stream.events[0]!.id)).sse().count(1);
    await client.respond(resumed.messages[0].id, ROOTS);
    expect(await resumed.end()).toBe('end');
    expect(gists(resumed.messages)).toEqual(['request roots/list', JSON.stringify(ROOTS)]);
  });

  it('P7: a request outside of any call travels on the standalone stream that a client reads', async () => {
    const app = await start({ clock: new ManualClock() });
    const client = await app.client().initialize(LATEST, CAPABLE);
    const standalone = await client.listen();
    const asked = app.service.request(client.sessionId!, { method: 'roots/list' });
    await standalone.count(1);
    await app.settled({ outbound: 1 });
    await client.respond(standalone.messages[0].id, ROOTS);
    expect(await asked).toEqual(ROOTS);
    await app.settled({ outbound: 0 });
    standalone.destroy();
  });

  it('P7: a request outside of any call fails at once, typed, when no client reads the standalone stream', async () => {
    const app = await start({ clock: new ManualClock() });
    const client = await app.client().initialize(LATEST, CAPABLE);
    const ask = () => outcome(app.service.request(client.sessionId!, { method: 'ping' }));
    expect(await ask()).toBe('McpServerRequestError NO_STREAM');
    // Neither after a client has listened and left.
    const standalone = await client.listen();
    standalone.destroy();
    await app.settled({ readers: 0 });
    expect(await ask()).toBe('McpServerRequestError NO_STREAM');
    await app.settled({ outbound: 0, events: 0 });
    // And nothing of it turns up later.
    const again = await client.listen();
    await app.service.notify(client.sessionId!, log('first'));
    await again.count(1);
    expect(gists(again.messages)).toEqual(['first']);
    again.destroy();
  });

  it('P7: a request to another session does not travel on the stream of the handler that asks', async () => {
    const app = await start({
      tools: {
        'asks another': ({ session }, _, sessions) => outcome(sessions.request(session, { method: 'roots/list' })),
      },
    });
    const [mine, other] = [
      await app.client().initialize(LATEST, CAPABLE),
      await app.client().initialize(LATEST, CAPABLE),
    ];
    // No client listens in the other session; that its asker has a stream does not help.
    const refused = await mine.call('asks another', { session: other.sessionId });
    expect(gists([await refused.json()])).toEqual(['McpServerRequestError NO_STREAM']);
    const standalone = await other.listen();
    const posted = mine.call('asks another', { session: other.sessionId });
    await standalone.count(1);
    await other.respond(standalone.messages[0].id, ROOTS);
    expect(gists([await (await posted).json()])).toEqual([JSON.stringify(ROOTS)]);
    standalone.destroy();
  });

  it.each(['sampling/createMessage', 'elicitation/create', 'roots/list'] as const)(
    'P7: %s fails at once, typed, when the client lacks the capability',
    async (method) => {
      const params = {
        'sampling/createMessage': { messages: [], maxTokens: 1 },
        'elicitation/create': { message: '?', requestedSchema: { type: 'object' as const, properties: {} } },
        'roots/list': undefined,
      }[method];
      const app = await start({
        tools: {
          asks: (_, ctx) => outcome(ctx.ask({ it: { method, ...(params && { params }) } as never })),
        },
      });
      const others = Object.entries(CAPABLE).filter(([name]) => !method.startsWith(name));
      const client = await app.client().initialize(LATEST, Object.fromEntries(others));
      const standalone = await client.listen();
      const response = await client.call('asks');
      // Nothing went ahead of the answer, so it is JSON.
      expect(gists([await response.json()])).toEqual(['McpServerRequestError CLIENT_LACKS_CAPABILITY']);
      const outside = outcome(app.service.request(client.sessionId!, { method, ...(params && { params }) }));
      expect(await outside).toBe('McpServerRequestError CLIENT_LACKS_CAPABILITY');
      expect(standalone.events).toEqual([]);
      await app.settled({ outbound: 0, events: 0 });
      standalone.destroy();
    },
  );

  it('P7: "ping" needs no capability', async () => {
    const app = await start({
      tools: { pings: (_, ctx, sessions) => outcome(sessions.request(ctx.session!.id, { method: 'ping' })) },
    });
    const client = await app.client().initialize();
    const stream = await (await client.call('pings')).sse().count(1);
    await client.respond(stream.messages[0].id, {});
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['request ping', '{}']);
  });

  it('P7: a request fails at once, typed, when its client left before it had an id of the stream', async () => {
    const entered = gate();
    const ask = gate();
    const asked = gate<string>();
    const app = await start({
      tools: {
        asks: async (_, ctx) => {
          entered.open();
          await ask.promise;
          asked.open(await askRoots(ctx));
          return 'unheard';
        },
      },
    });
    const client = await app.client().initialize(LATEST, CAPABLE);
    const standalone = await client.listen();
    const posted = new ForsakenPost(client, client.toolCall('asks'));
    await entered.promise;
    await posted.hangUp();
    await connectionsGone(app, 1);
    ask.open();
    expect(await asked.promise).toBe('McpServerRequestError NO_STREAM');
    expect(standalone.events).toEqual([]);
    await app.settled({ outbound: 0, inFlight: 0, events: 0 });
    standalone.destroy();
  });

  it('P7: each request of the server has an id of its own, also in a session that was rebuilt', async () => {
    const app = await start({
      tools: {
        asks: async (_, ctx) => {
          const all = await Promise.all(Array.from({ length: 5 }, (__, n) => askRoots(ctx, `roots ${n}`)));
          return String(all.length);
        },
      },
    });
    await expectOwnIds(app);
  });
});

describe.each(ONE_ADAPTER)('with an SDK server: the way of server requests on %s', (adapter) => {
  const start = testApps(adapter, { shared: true });

  it('P7: requestSampling() and elicitInput() travel on the POST stream of their call in sse mode', async () => {
    const app = await start({
      responseMode: 'sse',
      server: scripted({
        asks: async (_, ctx) => {
          const params: CreateMessageRequest['params'] = { messages: [], maxTokens: 1 };
          const sampled = await ctx.mcpReq.requestSampling(params);
          const elicited = await ctx.mcpReq.elicitInput({
            message: 'Who?',
            requestedSchema: { type: 'object', properties: { name: { type: 'string' } } },
          });
          return JSON.stringify([sampled.model, elicited]);
        },
      }),
    });
    await expectBothQuestions(app);
  });

  it('P7: each request of the server has an id of its own, also in a session that was rebuilt', async () => {
    const app = await start({
      server: scripted({
        asks: async (_, ctx) => {
          const all = await Promise.all(
            Array.from({ length: 5 }, () => outcome(ctx.mcpReq.send({ method: 'roots/list' }))),
          );
          return String(all.length);
        },
      }),
    });
    await expectOwnIds(app);
  });
});
