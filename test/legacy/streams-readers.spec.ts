import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describe, expect, it } from 'vitest';
import { ADAPTERS, gate, type TestApp } from '../support/app.js';
import type { SseStream } from '../support/http.js';
import { gists, log } from '../support/messages.js';
import type { RawClient } from '../support/raw-client.js';
import { expectRefusal } from '../support/refusal.js';
import { eventually, recordedEvents, runningApps } from '../support/running-apps.js';

async function tell(app: TestApp, client: RawClient, ...said: unknown[]): Promise<void> {
  for (const data of said) await app.service.notify(client.sessionId!, log(data));
}

describe.each(ADAPTERS)('several readers of one stream on %s', (adapter) => {
  const start = runningApps(adapter, { sseAfterMs: 60_000 });

  it('G7: each message goes to one reader, the newest; the older ones get comments', async () => {
    const clock = new ManualClock();
    const app = await start({ clock, keepAliveMs: 15_000 });
    const client = await app.client().initialize();
    const streams: SseStream[] = [];
    for (let n = 1; n <= 4; n++) {
      streams.push(await client.listen());
      await tell(app, client, n);
      await streams.at(-1)!.count(1);
      await app.settled({ readers: n, openResponses: n, streams: 1 });
    }
    expect(streams.map((stream) => gists(stream.messages))).toEqual([[1], [2], [3], [4]]);
    expect(streams.map((stream) => stream.events[0]!.id)).toEqual(['0_1', '0_2', '0_3', '0_4']);
    const comments = streams.map((stream) => stream.comments.length);
    await clock.advance(15_000);
    for (const [n, stream] of streams.entries()) await stream.until((s) => s.comments.length > comments[n]!);
    expect(streams.map((stream) => gists(stream.messages))).toEqual([[1], [2], [3], [4]]);
    for (const stream of streams) stream.destroy();
  });

  it('G7: the older response is the reader again when the newer one is closed', async () => {
    const app = await start({ clock: new ManualClock() });
    const client = await app.client().initialize();
    const oldest = await client.listen();
    const middle = await client.listen();
    const newest = await client.listen();
    await tell(app, client, 'one');
    await newest.count(1);
    newest.destroy();
    await app.settled({ readers: 2 });
    await tell(app, client, 'two');
    await middle.count(1);
    middle.destroy();
    await app.settled({ readers: 1 });
    await tell(app, client, 'three');
    await oldest.count(1);
    expect([oldest, middle, newest].map((stream) => gists(stream.messages))).toEqual([['three'], ['two'], ['one']]);
    expect(oldest.events[0]!.id).toBe('0_3');
    oldest.destroy();
  });

  it('G7: the older response loses nothing that was sent while nobody was the newest', async () => {
    const app = await start();
    const client = await app.client().initialize();
    const older = await client.listen();
    const newer = await client.listen();
    let said = 0;
    const turn = () => new Promise((resolve) => void setImmediate(resolve));
    for (; older.messages.length < 20; said++) {
      await tell(app, client, said);
      await turn();
      if (said === 50) newer.destroy();
    }
    await older.until(({ messages }) => gists(messages).at(-1) === said - 1);
    const heard = gists(older.messages) as number[];
    // From some point on all of them, in order; what lies before it was handed to the newer one.
    expect(heard).toEqual(Array.from({ length: heard.length }, (_, n) => said - heard.length + n));
    older.destroy();
  });

  it('G7: closing an older response changes nothing for the newest', async () => {
    const app = await start({ clock: new ManualClock() });
    const client = await app.client().initialize();
    const older = await client.listen();
    const newer = await client.listen();
    older.destroy();
    await app.settled({ readers: 1 });
    await tell(app, client, 'one', 'two');
    await newer.count(2);
    expect(gists(newer.messages)).toEqual(['one', 'two']);
    newer.destroy();
  });

  it('G7: a GET takes over the stream of a POST, and gives it back', async () => {
    const steps = [gate(), gate(), gate()];
    const app = await start({
      clock: new ManualClock(),
      tools: {
        talks: async (_, ctx) => {
          for (const [n, step] of steps.entries()) {
            await ctx.mcpReq.notify(log(n));
            await step.promise;
          }
          return 'done';
        },
      },
    });
    const client = await app.client().initialize();
    const posted = await (await client.call('talks')).sse().count(1);
    const taken = await (await client.get(posted.events[0]!.id)).sse().opened();
    steps[0]!.open();
    await taken.count(1);
    taken.destroy();
    await app.settled({ readers: 1 });
    steps[1]!.open();
    await posted.count(2);
    steps[2]!.open();
    expect(await posted.end()).toBe('end');
    expect(gists(posted.messages)).toEqual([0, 2, 'done']);
    expect(gists(taken.messages)).toEqual([1]);
    await app.settled({ readers: 0, streams: 0, openResponses: 0 });
  });

  it('G7: all responses end with the stream, and only one has the answer', async () => {
    const hold = gate();
    const app = await start({
      clock: new ManualClock(),
      tools: {
        waits: async (_, ctx) => {
          await ctx.mcpReq.notify(log('one'));
          await hold.promise;
          return 'done';
        },
      },
    });
    const client = await app.client().initialize();
    const streams = [await (await client.call('waits')).sse().count(1)];
    const cursor = streams[0]!.events[0]!.id!;
    for (let n = 0; n < 3; n++) streams.push(await (await client.get(cursor)).sse().opened());
    await app.settled({ readers: 4 });
    hold.open();
    for (const stream of streams) expect(await stream.end()).toBe('end');
    expect(streams.map((stream) => gists(stream.messages))).toEqual([['one'], [], [], ['done']]);
    await app.settled({ readers: 0, streams: 0, openResponses: 0 });
  });

  it('G7: a fifth ends the oldest, at most once a minute, else 409', async () => {
    const clock = new ManualClock();
    const app = await start({ clock });
    const events = recordedEvents(app);
    const client = await app.client().initialize();
    const streams: SseStream[] = [];
    for (let n = 0; n < 4; n++) streams.push(await client.listen());
    streams.push(await client.listen());
    expect(await streams[0]!.end()).toBe('end');
    await app.settled({ readers: 4, openResponses: 4 });
    const evicted = () => events.filter(({ type }) => type === 'reader-evicted');
    expect(evicted()).toMatchObject([{ sessionId: client.sessionId, streamId: '0' }]);
    // Its client comes back at once, as clients do.
    const tooMany = { status: 409, code: -32000, says: ['as many open responses'] };
    await expectRefusal(await client.get(), tooMany);
    await expectRefusal(await client.get('0_0'), tooMany);
    await clock.advance(59_999);
    await expectRefusal(await client.get(), tooMany);
    expect(streams.slice(1).map((stream) => stream.ended)).toEqual([undefined, undefined, undefined, undefined]);
    await clock.advance(1);
    streams.push(await client.listen());
    expect(await streams[1]!.end()).toBe('end');
    expect(evicted()).toHaveLength(2);
    await expectRefusal(await client.get(), tooMany);
    // Where one has left there is room.
    streams[2]!.destroy();
    await app.settled({ readers: 3 });
    streams.push(await client.listen());
    await tell(app, client, 'to the newest');
    await streams.at(-1)!.count(1);
    expect(streams.slice(0, -1).flatMap(({ messages }) => messages)).toEqual([]);
    for (const stream of streams) stream.destroy();
    await app.settled({ readers: 0, openResponses: 0 });
  });

  it('G7: as many as come at once are four in the end, and the rest is told', async () => {
    const app = await start({ clock: new ManualClock() });
    const client = await app.client().initialize();
    const responses = await Promise.all(Array.from({ length: 20 }, () => client.get()));
    const statuses = responses.map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(5);
    expect(statuses.filter((status) => status === 409)).toHaveLength(15);
    await app.settled({ readers: 4 });
    for (const response of responses) response.destroy();
    await app.settled({ readers: 0, openResponses: 0 });
  });

  it('G7: one stream’s readers are no concern of another stream, or session', async () => {
    const hold = gate();
    const app = await start({
      clock: new ManualClock(),
      tools: {
        waits: async (_, ctx) => {
          await ctx.mcpReq.notify(log('one'));
          await hold.promise;
          return 'done';
        },
      },
    });
    const [client, other] = [await app.client().initialize(), await app.client().initialize()];
    const full: SseStream[] = [];
    for (let n = 0; n < 5; n++) full.push(await client.listen());
    await expectRefusal(await client.get(), { status: 409, code: -32000 });
    const posted = await (await client.call('waits')).sse().count(1);
    const resumed = await (await client.get(posted.primes[0])).sse().count(1);
    const theirs = await other.listen();
    hold.open();
    expect(await resumed.end()).toBe('end');
    await tell(app, other, 'theirs');
    await theirs.count(1);
    for (const stream of [...full, theirs]) stream.destroy();
  });

  it('G7: two readers of one client never evict each other', async () => {
    const clock = new ManualClock();
    const app = await start({ clock });
    const events = recordedEvents(app);
    const client = await app.client().initialize();
    const [one, two] = [await client.listen(), await client.listen()];
    for (let minute = 0; minute < 5; minute++) {
      await tell(app, client, minute);
      await clock.advance(60_000);
    }
    await two.count(5);
    expect([one.ended, two.ended]).toEqual([undefined, undefined]);
    const kinds = events.map(({ type }) => type);
    await eventually(() => expect(kinds.filter((kind) => kind === 'stream-attached')).toHaveLength(2));
    expect(kinds.filter((kind) => kind === 'stream-detached' || kind === 'reader-evicted')).toEqual([]);
    one.destroy();
    two.destroy();
  });
});
