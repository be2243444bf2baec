import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestTool, type TestApp } from '../support/app.js';
import { gists, log } from '../support/messages.js';
import type { RawClient } from '../support/raw-client.js';
import { testApps } from '../support/test-apps.js';

/** Stands still: nothing ends by time. */
const STILL = new ManualClock();

/** Sends log messages on the standalone stream. */
async function tell(app: TestApp, client: RawClient, ...said: unknown[]): Promise<void> {
  for (const data of said) await app.service.notify(client.sessionId!, log(data));
}

const talks: TestTool = async (_, ctx) => {
  await ctx.log('info', 'one');
  await ctx.log('info', 'two');
  return 'said';
};

/** One for all tests: apps on one clock are shared. */
const clock = new ManualClock();

describe.each(ONE_ADAPTER)('a GET on %s', (adapter) => {
  const start = testApps(adapter, { shared: true });

  it('G1: a GET opens the standalone stream, with a head and a first frame at once', async () => {
    const app = await start({ clock: STILL });
    const client = await app.client().initialize();
    const response = await client.get();
    expect(response.status).toBe(200);
    expect(response.header('content-type')).toMatch('text/event-stream');
    expect(response.header('mcp-session-id')).toBeUndefined();
    const stream = await response.sse().opened();
    expect(stream.primes).toEqual(['0_0']);
    expect(stream.events).toEqual([]);
    await app.settled({ streams: 1, readers: 1, openResponses: 1 });
    await tell(app, client, 'live');
    await stream.count(1);
    expect(stream.events).toMatchObject([{ id: '0_1', event: 'message' }]);
    expect(gists(stream.messages)).toEqual(['live']);
    stream.destroy();
    await app.settled({ streams: 0, readers: 0, openResponses: 0 });
  });

  it('G1: a GET without a cursor gets the messages that were not delivered yet, and none that was', async () => {
    const app = await start({ clock: STILL });
    const client = await app.client().initialize();
    await tell(app, client, 'before', 'anybody', 'listens');
    await app.settled({ streams: 0, readers: 0, events: 3 });
    const first = await (await client.listen()).count(3);
    expect(gists(first.messages)).toEqual(['before', 'anybody', 'listens']);
    await tell(app, client, 'live');
    await first.count(4);
    first.destroy();
    await app.settled({ readers: 0, streams: 0 });
    await tell(app, client, 'while', 'away');
    const second = await (await client.listen()).count(2);
    expect(second.primes).toEqual(['0_4']);
    expect(second.events.map(({ id }) => id)).toEqual(['0_5', '0_6']);
    expect(gists(second.messages)).toEqual(['while', 'away']);
    second.destroy();
    await app.settled({ readers: 0 });
    // Nothing is left: the history is not repeated.
    const third = await client.listen();
    await tell(app, client, 'new');
    await third.count(1);
    expect(third.events.map(({ id }) => id)).toEqual(['0_7']);
    third.destroy();
  });

  it('G1: a GET gets no delivered message again after the session was rebuilt', async () => {
    const app = await start({ clock: STILL });
    const client = await app.client().initialize();
    const first = await client.listen();
    await tell(app, client, 'one', 'two');
    await first.count(2);
    first.destroy();
    await app.settled({ readers: 0 });
    await app.release(client.sessionId!);
    await tell(app, client, 'three');
    const second = await (await client.listen()).count(1);
    expect(gists(second.messages)).toEqual(['three']);
    second.destroy();
  });

  it('G1: each session has a standalone stream of its own', async () => {
    const app = await start();
    const clients = await Promise.all(Array.from({ length: 5 }, () => app.client().initialize()));
    const streams = await Promise.all(clients.map((client) => client.listen()));
    for (let n = 0; n < 20; n++) {
      await Promise.all(clients.map((client, which) => tell(app, client, `${which}: ${n}`)));
    }
    for (const [which, stream] of streams.entries()) {
      await stream.count(20);
      expect(gists(stream.messages)).toEqual(Array.from({ length: 20 }, (_, n) => `${which}: ${n}`));
      stream.destroy();
    }
  });

  it('G2: a GET with a cursor gets the events after it, in order, and then live ones', async () => {
    const app = await start({ clock: STILL });
    const client = await app.client().initialize();
    const first = await client.listen();
    await tell(app, client, 'one', 'two', 'three');
    await first.count(3);
    first.destroy();
    await app.settled({ readers: 0 });
    // It says itself what it has got, whatever was delivered.
    const resumed = await (await client.listen('0_1')).count(2);
    await tell(app, client, 'four');
    await resumed.count(3);
    expect(resumed.primes).toEqual(['0_1']);
    expect(resumed.events.map(({ id }) => id)).toEqual(['0_2', '0_3', '0_4']);
    expect(gists(resumed.messages)).toEqual(['two', 'three', 'four']);
    resumed.destroy();
    await app.settled({ readers: 0 });
    const fromTheStart = await (await client.listen('0_0')).count(4);
    expect(gists(fromTheStart.messages)).toEqual(['one', 'two', 'three', 'four']);
    fromTheStart.destroy();
  });

  it('G2: a GET gets a long replay completely, and messages that are sent meanwhile after it', async () => {
    const app = await start({ tools: { quick: () => 'quick' } });
    const client = await app.client().initialize();
    const many = 700;
    await tell(app, client, ...Array(many).keys());
    const resumed = (await client.get('0_0')).sse();
    const told = tell(app, client, ...Array.from({ length: 100 }, (_, n) => many + n));
    await resumed.count(many + 100);
    await told;
    expect(gists(resumed.messages)).toEqual([...Array(many + 100).keys()]);
    resumed.destroy();
  });

  it('G2: a GET of a finished stream gets the events after the cursor, and then the end', async () => {
    const app = await start({ clock: STILL, tools: { talks } });
    const client = await app.client().initialize();
    const stream = (await client.call('talks')).sse();
    await stream.end();
    for (const [cursor, left] of [
      [stream.primes[0], ['one', 'two', 'said']],
      [stream.events[0]!.id, ['two', 'said']],
      [stream.events[1]!.id, ['said']],
    ] as const) {
      const resumed = (await client.get(cursor)).sse();
      expect(await resumed.end()).toBe('end');
      expect(gists(resumed.messages)).toEqual(left);
    }
    await app.settled({ streams: 0, readers: 0, openResponses: 0 });
  });

  it('G2: a GET of a finished stream with nothing left is answered with 405, without a body and with Allow', async () => {
    const app = await start({ clock: STILL, tools: { talks } });
    const client = await app.client().initialize();
    const stream = (await client.call('talks')).sse();
    await stream.end();
    const last = stream.events.at(-1)!.id!;
    // Also for a cursor past the end.
    for (const cursor of [last, last.replace(/_3$/, '_4'), last.replace(/_3$/, '_999')]) {
      const response = await client.get(cursor);
      expect(response.status).toBe(405);
      expect(response.header('allow')).toBe('GET, POST, DELETE');
      expect(response.header('content-type')).toBeUndefined();
      expect(await response.text()).toBe('');
    }
    await app.settled({ streams: 0, readers: 0, openResponses: 0 });
  });

  it('G2: a finished stream is forgotten after finishedStreamMs', async () => {
    const app = await start({ clock, eventLog: { finishedStreamMs: 60_000 }, tools: { talks } });
    const client = await app.client().initialize();
    const stream = (await client.call('talks')).sse();
    await stream.end();
    await app.settled({ loggedStreams: 1, events: 3 });
    await clock.advance(59_999);
    const resumed = (await client.get(stream.events[1]!.id)).sse();
    expect(await resumed.end()).toBe('end');
    expect(gists(resumed.messages)).toEqual(['said']);
    await clock.advance(1);
    await app.settled({ loggedStreams: 0, events: 0, bytes: 0 });
    const forgotten = await client.get(stream.events[1]!.id);
    expect(forgotten.status).toBe(400);
    expect((await forgotten.json()).error.message).toMatch('it finished and has expired');
  });

  it('G2: a stream that runs is not forgotten, however old', async () => {
    const hold = gate();
    const app = await start({
      clock,
      eventLog: { finishedStreamMs: 60_000 },
      tools: {
        waits: async (_, ctx) => {
          await ctx.log('info', 'one');
          await hold.promise;
          return 'done';
        },
      },
    });
    const client = await app.client().initialize();
    const stream = await (await client.call('waits')).sse().count(1);
    stream.destroy();
    await app.settled({ readers: 0 });
    await clock.advance(600_000);
    hold.open();
    await app.settled({ inFlight: 0 });
    const resumed = (await client.get(stream.events[0]!.id)).sse();
    expect(await resumed.end()).toBe('end');
    expect(gists(resumed.messages)).toEqual(['done']);
  });

  it('G5: an index past the end gets what is sent from now on, with the right ids, after a priming event that repeats it', async () => {
    const app = await start({ clock: STILL });
    const client = await app.client().initialize();
    for (const [cursor, next] of [
      ['0_7', '0_1'],
      ['0_2', '0_2'],
      ['0_9007199254740991', '0_3'],
    ]) {
      const stream = await client.listen(cursor);
      expect(stream.primes).toEqual([cursor]);
      await tell(app, client, `after ${cursor}`);
      await stream.count(1);
      expect(stream.events.map(({ id }) => id)).toEqual([next]);
      stream.destroy();
      await app.settled({ readers: 0 });
    }
  });

  it('G5: an index past the end of a POST stream gets the answer of its call', async () => {
    const hold = gate();
    const app = await start({
      clock: STILL,
      tools: {
        waits: async (_, ctx) => {
          await ctx.log('info', 'one');
          await hold.promise;
          return 'done';
        },
      },
    });
    const client = await app.client().initialize();
    const stream = await (await client.call('waits')).sse().count(1);
    stream.destroy();
    await app.settled({ readers: 0 });
    const id = stream.events[0]!.id!.slice(0, -2);
    const resumed = await (await client.get(`${id}_55`)).sse().opened();
    expect(resumed.primes).toEqual([`${id}_55`]);
    hold.open();
    expect(await resumed.end()).toBe('end');
    expect(resumed.events.map((event) => event.id)).toEqual([`${id}_2`]);
  });
});
