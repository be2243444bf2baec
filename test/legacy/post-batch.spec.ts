import { InMemoryEventStore, McpMessageBus } from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestTool } from '../support/app.js';
import { cancelOf, gists } from '../support/messages.js';
import type { RawClient } from '../support/raw-client.js';
import { recordedEvents, testApps } from '../support/test-apps.js';

/** The one revision that has batches. */
const WITH_BATCHES = '2025-03-26';

/** One for all tests: apps on one clock are shared. */
const clock = new ManualClock();

describe.each(ONE_ADAPTER)('a batch on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, sseAfterMs: 500 });
  let gates: Record<string, ReturnType<typeof gate<string>>>;
  let entered: Record<string, ReturnType<typeof gate<void>>>;

  beforeEach(() => {
    gates = { a: gate<string>(), b: gate<string>(), c: gate<string>() };
    entered = { a: gate(), b: gate(), c: gate() };
  });

  const tools: Record<string, TestTool> = {
    quick: ({ say }) => String(say),
    fails: () => {
      throw new Error('no');
    },
    talks: async ({ say }, ctx) => {
      entered['c']!.open();
      await gates['c']!.promise;
      await ctx.log('info', say);
      return 'talked';
    },
    waits: ({ on }) => {
      entered[String(on)]!.open();
      return gates[String(on)]!.promise;
    },
  };
  const waits = (client: RawClient, on: string): object => client.toolCall('waits', { on }, { id: on });

  it('P3: a batch is answered with one JSON array, once all are answered, in the order of the answers', async () => {
    const app = await start({ clock, tools });
    const client = await app.client().initialize(WITH_BATCHES);
    const posted = client.post([waits(client, 'a'), waits(client, 'b'), client.toolCall('fails', {}, { id: 'c' })]);
    await Promise.all([entered['a']!.promise, entered['b']!.promise]);
    await app.settled({ inFlight: 2 });
    gates['b']!.open('second first');
    await app.settled({ inFlight: 1 });
    gates['a']!.open('first last');
    const response = await posted;
    expect(response.header('content-type')).toMatch('application/json');
    const answers = await response.json();
    expect(answers.map(({ id }: { id: unknown }) => id)).toEqual(['c', 'b', 'a']);
    expect(gists(answers)).toEqual(['no', 'second first', 'first last']);
    await app.settled({ inFlight: 0, streams: 0, loggedStreams: 0, events: 0 });
  });

  it('P3: a batch of one request is answered with an array of one', async () => {
    const app = await start({ tools });
    const client = await app.client().initialize(WITH_BATCHES);
    const response = await client.post([client.toolCall('quick', { say: 'alone' }, { id: 'a' })]);
    expect(await response.json()).toMatchObject([{ id: 'a', result: { content: [{ text: 'alone' }] } }]);
  });

  it('P3: mixed with notifications and responses is answered for its requests alone', async () => {
    const app = await start({ tools });
    const events = recordedEvents(app);
    const client = await app.client().initialize(WITH_BATCHES);
    const response = await client.post([
      { jsonrpc: '2.0', method: 'notifications/roots/list_changed' },
      client.toolCall('quick', { say: 'one' }),
      { jsonrpc: '2.0', id: 'nobody waits', result: {} },
      client.toolCall('quick', { say: 'two' }),
    ]);
    expect(gists(await response.json())).toEqual(['one', 'two']);
    expect(events.filter(({ type }) => type === 'unknown-response')).toHaveLength(1);
  });

  it('P3: a batch becomes SSE with the first other message: the answers so far, then it, then the rest', async () => {
    const app = await start({ tools });
    const client = await app.client().initialize(WITH_BATCHES);
    const posted = client.post([
      client.toolCall('quick', { say: 'at once' }),
      waits(client, 'a'),
      client.toolCall('talks', { say: 'a word' }),
    ]);
    await entered['c']!.promise;
    await app.settled({ inFlight: 2, streams: 0 });
    gates['c']!.open('');
    const stream = (await posted).sse();
    await stream.count(3);
    await app.settled({ inFlight: 1, streams: 1, readers: 1 });
    gates['a']!.open('last');
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['at once', 'a word', 'talked', 'last']);
    const id = stream.events[0]!.id!.slice(0, -2);
    expect(stream.events.map((event) => event.id)).toEqual([1, 2, 3, 4].map((index) => `${id}_${index}`));
    await app.settled({ inFlight: 0, streams: 0, readers: 0 });
  });

  it('P3: a batch becomes SSE at sseAfterMs, with the answers that are there', async () => {
    const app = await start({ clock, tools });
    const client = await app.client().initialize(WITH_BATCHES);
    const posted = client.post([waits(client, 'a'), waits(client, 'b')]);
    await Promise.all([entered['a']!.promise, entered['b']!.promise]);
    gates['a']!.open('early');
    await app.settled({ inFlight: 1, streams: 0 });
    await clock.advance(500);
    const stream = await (await posted).sse().count(1);
    expect(gists(stream.messages)).toEqual(['early']);
    gates['b']!.open('late');
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['early', 'late']);
  });

  it('P3: a batch in sse mode carries each answer as a message of its own', async () => {
    const app = await start({ responseMode: 'sse', tools });
    const client = await app.client().initialize(WITH_BATCHES);
    const stream = (
      await client.post([client.toolCall('quick', { say: 'one' }), client.toolCall('quick', { say: 'two' })])
    ).sse();
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['one', 'two']);
    expect(stream.events.map(({ message }) => Array.isArray(message))).toEqual([false, false]);
  });

  it('P9: a batch of which one request is cancelled is answered for the others', async () => {
    const app = await start({ clock, tools });
    const client = await app.client().initialize(WITH_BATCHES);
    const posted = client.post([waits(client, 'a'), waits(client, 'b'), waits(client, 'c')]);
    await Promise.all(Object.values(entered).map(({ promise }) => promise));
    await client.notify('notifications/cancelled', { requestId: 'b' });
    await app.settled({ inFlight: 2 });
    gates['a']!.open('one');
    gates['b']!.open('nobody hears it');
    gates['c']!.open('three');
    expect(gists(await (await posted).json())).toEqual(['one', 'three']);
    await app.settled({ inFlight: 0, streams: 0, events: 0 });
  });

  it('P9: a batch of which the last open request is cancelled is answered for the others', async () => {
    const app = await start({ clock, tools });
    const client = await app.client().initialize(WITH_BATCHES);
    const posted = client.post([waits(client, 'a'), waits(client, 'b')]);
    await Promise.all([entered['a']!.promise, entered['b']!.promise]);
    gates['a']!.open('one');
    await app.settled({ inFlight: 1 });
    await client.notify('notifications/cancelled', { requestId: 'b' });
    expect(gists(await (await posted).json())).toEqual(['one']);
  });

  it('P9: a batch of which all requests are cancelled ends without an answer', async () => {
    const app = await start({ clock, tools });
    const client = await app.client().initialize(WITH_BATCHES);
    const posted = client.post([waits(client, 'a'), waits(client, 'b')]);
    await Promise.all([entered['a']!.promise, entered['b']!.promise]);
    const cancelled = await client.post([cancelOf('a'), cancelOf('b')]);
    expect(cancelled.status).toBe(202);
    const stream = (await posted).sse();
    expect(await stream.end()).toBe('end');
    expect(stream.body).toBe('');
    await app.settled({ inFlight: 0, streams: 0, loggedStreams: 0 });
  });

  it('P9: a batch that is streaming goes on without the cancelled request, and settles it in the log', async () => {
    const store = new InMemoryEventStore({}, clock);
    const app = await start({ clock, eventStore: store, tools });
    const client = await app.client().initialize(WITH_BATCHES);
    const open = async () =>
      (await store.unfinished(app.app.get<McpMessageBus>(McpMessageBus, { strict: false }).nodeId)).flatMap(
        ({ requests }) => requests,
      );
    const posted = client.post([waits(client, 'a'), waits(client, 'b'), waits(client, 'c')]);
    await Promise.all(Object.values(entered).map(({ promise }) => promise));
    // One before the response commits to SSE, one after.
    await client.notify('notifications/cancelled', { requestId: 'a' });
    await clock.advance(500);
    const stream = await (await posted).sse().opened();
    expect(await open()).toEqual(['b', 'c']);
    await client.notify('notifications/cancelled', { requestId: 'b' });
    await expect.poll(open).toEqual(['c']);
    gates['c']!.open('three');
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['three']);
    expect(await open()).toEqual([]);
    await app.settled({ inFlight: 0, streams: 0, readers: 0 });
  });

  it('P3: a batch that is open when its session ends is answered whole, each open request with an error', async () => {
    const app = await start({ clock, tools });
    const client = await app.client().initialize(WITH_BATCHES);
    const posted = client.post([waits(client, 'a'), client.toolCall('quick', { say: 'quick' }), waits(client, 'b')]);
    await app.settled({ inFlight: 2 });
    await (await client.delete()).text();
    expect(gists(await (await posted).json())).toEqual(['quick', 'error -32000', 'error -32000']);
  });

  it('P9: a batch can cancel its own request', async () => {
    const app = await start({ clock, tools });
    const client = await app.client().initialize(WITH_BATCHES);
    const response = await client.post([waits(client, 'a'), client.toolCall('quick', { say: 'other' }), cancelOf('a')]);
    expect(gists(await response.json())).toEqual(['other']);
    await app.settled({ inFlight: 0, streams: 0, events: 0 });
  });

  it('P9: a batch that cancels a request ahead of it does not run it', async () => {
    let ran = false;
    const app = await start({
      clock,
      tools: {
        ...tools,
        runs: () => {
          ran = true;
          return 'ran';
        },
      },
    });
    const client = await app.client().initialize(WITH_BATCHES);
    const response = await client.post([
      cancelOf('a'),
      client.toolCall('runs', {}, { id: 'a' }),
      client.toolCall('quick', { say: 'other' }),
    ]);
    expect(gists(await response.json())).toEqual(['other']);
    expect(ran).toBe(false);
    await app.settled({ inFlight: 0, streams: 0, events: 0 });
  });
});
