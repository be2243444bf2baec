import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestTool } from '../support/app.js';
import { gists, log } from '../support/messages.js';
import { at, Deployment, type Member } from '../support/nodes.js';
import type { Fate } from '../support/node-backend.js';
import { eventually } from '../support/test-apps.js';
import { AnyResource } from '../support/test-tools.js';

const KEEP_ALIVE_MS = 15_000;

describe.each(ONE_ADAPTER)('streams across nodes on %s', (adapter) => {
  let deployment: Deployment;
  let clock: ManualClock;
  let [a, b]: Member[] = [];
  let hold: ReturnType<typeof gate<void>>;

  /** Says one thing at once, the others when the test lets it. */
  const talks: TestTool = async (_, ctx) => {
    await ctx.log('info', 'one');
    await hold.promise;
    for (const word of ['two', 'three']) await ctx.log('info', word);
    return 'said';
  };

  beforeEach(async () => {
    clock = new ManualClock();
    deployment = new Deployment(clock);
    hold = gate();
    const start = () =>
      deployment.member({
        adapter,
        keepAliveMs: KEEP_ALIVE_MS,
        tools: { talks },
        module: { providers: [AnyResource] },
      });
    [a, b] = [await start(), await start()];
  });
  afterEach(() => deployment.close());

  const tell = async (node: Member, id: string, ...words: string[]): Promise<void> => {
    for (const word of words) await node.app.service.notify(id, log(word));
  };

  it('nodes: a GET on one node receives what any node sends, live and in order', async () => {
    const client = await a!.app.client().initialize();
    const there = at(b!.app, client);
    await there.notify('notifications/initialized');
    const { sessionId } = client as { sessionId: string };
    const reader = await client.listen();
    await tell(b!, sessionId, 'b1', 'b2');
    await tell(a!, sessionId, 'a1');
    await b!.app.service.notify(() => true, { method: 'notifications/tools/list_changed' });
    await reader.count(4);
    expect(gists(reader.messages)).toEqual(['b1', 'b2', 'a1', 'notifications/tools/list_changed']);
    expect(reader.events.map(({ id }) => id)).toEqual(['0_1', '0_2', '0_3', '0_4']);
    // Many at once, from both: each once, each node's own in its order.
    const words = Array.from({ length: 40 }, (_, n) => n);
    await Promise.all(words.flatMap((n) => [tell(a!, sessionId, `a ${n}`), tell(b!, sessionId, `b ${n}`)]));
    await reader.count(84);
    const heard = gists(reader.messages).slice(4) as string[];
    for (const name of ['a', 'b']) {
      expect(heard.filter((word) => word.startsWith(name))).toEqual(words.map((n) => `${name} ${n}`));
    }
    expect(reader.events.map(({ id }) => id)).toEqual(Array.from({ length: 84 }, (_, n) => `0_${n + 1}`));
    reader.destroy();
  });

  it('nodes: a GET receives what a node sends on which the session is not live', async () => {
    const client = await a!.app.client().initialize();
    const reader = await client.listen();
    await tell(b!, client.sessionId!, 'unmet');
    await reader.count(1);
    await b!.app.settled({ live: 0, streams: 0 });
    reader.destroy();
  });

  it('nodes: resources/updated reaches the subscribers of all nodes, each once', async () => {
    const client = await a!.app.client().initialize();
    const stranger = await a!.app.client().initialize();
    const there = at(b!.app, client);
    const subscribe = { jsonrpc: '2.0', id: 's', method: 'resources/subscribe', params: { uri: 'doc:a' } };
    expect((await (await there.post(subscribe)).json()).result).toEqual({});
    const readers = [await client.listen(), await stranger.listen()];
    expect(await a!.app.service.resourceUpdated('doc:a')).toBe(1);
    expect(await b!.app.service.resourceUpdated('doc:a')).toBe(1);
    expect(await b!.app.service.resourceUpdated('doc:b')).toBe(0);
    await tell(b!, client.sessionId!, 'end');
    await tell(b!, stranger.sessionId!, 'end');
    await readers[0]!.count(3);
    await readers[1]!.count(1);
    const updated = 'notifications/resources/updated';
    expect(readers.map(({ messages }) => gists(messages))).toEqual([[updated, updated, 'end'], ['end']]);
    for (const reader of readers) reader.destroy();
  });

  it('nodes: a question of one node reaches the GET on the other, and its answer comes back', async () => {
    const client = await a!.app.client().initialize();
    const reader = await client.listen();
    const asked = b!.app.service.request(client.sessionId!, { method: 'ping' });
    await reader.count(1);
    await client.respond(reader.messages[0].id, {});
    expect(await asked).toEqual({});
    await b!.app.settled({ outbound: 0 });
    reader.destroy();
  });

  it('P7: a question fails at once when no node has a reader of the standalone stream', async () => {
    const client = await a!.app.client().initialize();
    const asked = b!.app.service.request(client.sessionId!, { method: 'ping' });
    await expect(asked).rejects.toMatchObject({ code: 'NO_STREAM' });
  });

  describe.each<[string, (message: { type?: unknown }, n: number) => Fate]>([
    ['are lost', () => 'lost'],
    ['come twice', () => 'doubled'],
    ['come late, the last first', () => 'late'],
    ['are now and then lost, doubled or late', (_, n) => (['lost', 'doubled', 'late'] as const)[n % 3]!],
  ])('when signals %s', (_, fate) => {
    it('nodes: a reader gets each message once, at the next keep-alive at the latest', async () => {
      const client = await a!.app.client().initialize();
      const reader = await client.listen();
      let count = 0;
      a!.bus.fate = (message) => fate(message, count++);
      await tell(b!, client.sessionId!, '1', '2', '3', '4', '5', '6');
      expect(count).toBeGreaterThan(0);
      await clock.advance(KEEP_ALIVE_MS);
      await reader.count(6);
      a!.bus.deliverLate();
      a!.bus.heal();
      await tell(b!, client.sessionId!, '7');
      await reader.count(7);
      expect(gists(reader.messages)).toEqual(['1', '2', '3', '4', '5', '6', '7']);
      reader.destroy();
    });
  });

  it('nodes: a reader gets the messages whose signals were lost when the bus reconnects', async () => {
    const client = await a!.app.client().initialize();
    const reader = await client.listen();
    a!.bus.fate = () => 'lost';
    await tell(b!, client.sessionId!, '1', '2');
    a!.bus.reconnect();
    await reader.count(2);
    expect(gists(reader.messages)).toEqual(['1', '2']);
    reader.destroy();
  });

  it('G8: a stream that broke on one node is resumed on the other, while its handler goes on writing', async () => {
    const client = await a!.app.client().initialize();
    const there = at(b!.app, client);
    const call = await (await client.call('talks', {}, { id: 'c' })).sse().count(1);
    call.destroy();
    await a!.app.settled({ readers: 0, inFlight: 1 });
    const resumed = (await there.get(call.events[0]!.id)).sse();
    await resumed.opened();
    hold.open();
    expect(await resumed.end()).toBe('end');
    expect(gists(resumed.messages)).toEqual(['two', 'three', 'said']);
    expect(resumed.primes).toEqual([call.events[0]!.id]);
    expect((await there.get(resumed.events.at(-1)!.id)).status).toBe(405);
    expect((await client.get(resumed.events.at(-1)!.id)).status).toBe(405);
  });

  it('G8: a stream is resumed on the other node though the first one has not noticed that its response was cut', async () => {
    const client = await a!.app.client().initialize();
    const there = at(b!.app, client);
    const first = await (await client.call('talks', {}, { id: 'c' })).sse().count(1);
    const second = (await there.get(first.events[0]!.id)).sse();
    await second.opened();
    await eventually(async () => {
      const stream = first.events[0]!.id!.split('_')[0]!;
      const { reader } = await deployment.eventStore.read(client.sessionId!, stream, 0, 0);
      expect(reader?.node).toBe(b!.bus.nodeId);
    });
    await clock.advance(0);
    hold.open();
    expect(await second.end()).toBe('end');
    expect(gists(second.messages)).toEqual(['two', 'three', 'said']);
    // It was replaced, and ends with the newer one.
    expect(await first.end()).toBe('end');
    expect(gists(first.messages)).toEqual(['one']);
  });

  it('nodes: unknown signals have no effect', async () => {
    const client = await a!.app.client().initialize();
    const { sessionId: session } = client;
    const other = b!.bus;
    for (const type of ['session-began', 'session-ended', 'appended', 'replaced', 'inbox', 'patched', 'future']) {
      for (const more of [
        {},
        { stream: 1, reader: 2, turn: 3, message: 4, patch: 5 },
        { message: { jsonrpc: '2.0' } },
      ]) {
        if (type === 'session-ended') other.broadcast({ type, session: 'unknown', ...more });
        else other.broadcast({ type, session, ...more });
      }
    }
    for (const nonsense of [null, 1, 'text', [], { session }, { type: 'appended' }]) other.broadcast(nonsense);
    const reader = await client.listen();
    await tell(b!, session!, 'fine');
    await reader.count(1);
    reader.destroy();
  });
});
