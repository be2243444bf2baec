import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestApp } from '../support/app.js';
import { gists, log } from '../support/messages.js';
import type { RawClient } from '../support/raw-client.js';
import { eventually, recordedEvents, testApps } from '../support/test-apps.js';

async function tell(app: TestApp, client: RawClient, ...said: unknown[]): Promise<void> {
  for (const data of said) await app.service.notify(client.sessionId!, log(data));
}

/** One for all tests: apps on one clock are shared. */
const clock = new ManualClock();

describe.each(ONE_ADAPTER)('the reader of a stream on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, port: true });

  it('G7: each message goes to the newest; the reader before it ends at its next keep-alive tick, with the last id delivered', async () => {
    const app = await start({ clock, keepAliveMs: 15_000 });
    const client = await app.client().initialize();
    const older = await client.listen();
    await tell(app, client, 1);
    await older.count(1);
    const newer = await client.listen();
    await tell(app, client, 2, 3);
    await newer.count(2);
    await app.settled({ readers: 2, openResponses: 2, streams: 1 });
    expect([gists(older.messages), gists(newer.messages)]).toEqual([[1], [2, 3]]);
    expect(older.ended).toBeUndefined();
    await clock.advance(15_000);
    expect(await older.end()).toBe('end');
    expect(older.primes).toEqual(['0_0', '0_3']);
    expect([newer.ended, newer.events.map(({ id }) => id)]).toEqual([undefined, ['0_2', '0_3']]);
    await app.settled({ readers: 1, openResponses: 1 });
    // Its client comes back, and is not told again what the other one got.
    const back = await client.listen('0_3');
    await tell(app, client, 4);
    await back.count(1);
    expect([gists(back.messages), gists(newer.messages)]).toEqual([[4], [2, 3]]);
    for (const stream of [newer, back]) stream.destroy();
  });

  it('G7: the reader before it ends at once when the newest leaves, and its client resumes', async () => {
    const app = await start({ clock });
    const client = await app.client().initialize();
    const [older, newer] = [await client.listen(), await client.listen()];
    await tell(app, client, 'one');
    await newer.count(1);
    newer.destroy();
    expect(await older.end()).toBe('end');
    expect([older.primes, older.messages]).toEqual([['0_0', '0_1'], []]);
    await app.settled({ readers: 0, openResponses: 0, streams: 0 });
    await tell(app, client, 'two');
    const back = await (await client.listen('0_1')).count(1);
    expect(gists(back.messages)).toEqual(['two']);
    back.destroy();
  });

  it('G7, G10: the end of a replaced reader has no id for clients of older revisions', async () => {
    const app = await start({ clock, keepAliveMs: 15_000 });
    const client = await app.client().initialize('2025-06-18');
    const [older, newer] = [await client.listen(), await client.listen()];
    await tell(app, client, 'one');
    await newer.count(1);
    await clock.advance(15_000);
    expect(await older.end()).toBe('end');
    expect([older.primes, older.events]).toEqual([[], []]);
    newer.destroy();
  });

  it('G7: the newest goes on when the reader before it leaves', async () => {
    const app = await start({ clock });
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

  it('G7: a GET takes over the stream of a POST, its answer included', async () => {
    const steps = [gate(), gate()];
    const app = await start({
      clock,
      keepAliveMs: 15_000,
      tools: {
        talks: async (_, ctx) => {
          for (const [n, step] of steps.entries()) {
            await ctx.log('info', n);
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
    await clock.advance(15_000);
    expect(await posted.end()).toBe('end');
    steps[1]!.open();
    expect(await taken.end()).toBe('end');
    expect([gists(posted.messages), gists(taken.messages)]).toEqual([[0], [1, 'done']]);
    await app.settled({ readers: 0, streams: 0, openResponses: 0 });
  });

  it('G7: all responses end with the stream, and only the newest has the answer', async () => {
    const hold = gate();
    const app = await start({
      clock,
      tools: {
        waits: async (_, ctx) => {
          await ctx.log('info', 'one');
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

  it('G7: of many readers that come at once one is left after a tick, and none is refused', async () => {
    const app = await start({ clock, keepAliveMs: 15_000 });
    const events = recordedEvents(app);
    const client = await app.client().initialize();
    const responses = await Promise.all(Array.from({ length: 20 }, () => client.get()));
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]));
    await app.settled({ readers: 20 });
    expect(events.filter(({ type }) => type === 'reader-replaced')).toHaveLength(19);
    await clock.advance(15_000);
    await app.settled({ readers: 1, openResponses: 1 });
    for (const response of responses) response.destroy();
    await app.settled({ readers: 0, openResponses: 0 });
  });

  it('G7: the readers of a stream do not affect other streams or sessions', async () => {
    const hold = gate();
    const app = await start({
      clock,
      tools: {
        waits: async (_, ctx) => {
          await ctx.log('info', 'one');
          await hold.promise;
          return 'done';
        },
      },
    });
    const [client, other] = [await app.client().initialize(), await app.client().initialize()];
    const [older, newer] = [await client.listen(), await client.listen()];
    const posted = await (await client.call('waits')).sse().count(1);
    const theirs = await other.listen();
    await clock.advance(30_000);
    expect(await older.end()).toBe('end');
    expect([newer.ended, posted.ended, theirs.ended]).toEqual([undefined, undefined, undefined]);
    hold.open();
    expect(await posted.end()).toBe('end');
    await tell(app, other, 'theirs');
    await theirs.count(1);
    for (const stream of [newer, theirs]) stream.destroy();
  });

  it('G7: two readers of one client that always come back do not evict each other in a loop', async () => {
    const app = await start({ clock, keepAliveMs: 15_000 });
    const events = recordedEvents(app);
    const client = await app.client().initialize();
    let [older, newer] = [await client.listen(), await client.listen()];
    for (let minute = 0; minute < 2; minute++) {
      await tell(app, client, minute);
      for (let tick = 0; tick < 4; tick++) {
        await clock.advance(15_000);
        expect(await older.end()).toBe('end');
        [older, newer] = [newer, await client.listen(older.primes.at(-1))];
      }
    }
    // One for each tick, and the two of the beginning.
    const attached = (): number => events.filter(({ type }) => type === 'stream-attached').length;
    await eventually(() => expect(attached()).toBe(2 + 8));
    older.destroy();
    newer.destroy();
  });
});
