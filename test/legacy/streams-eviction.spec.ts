import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestTool, type TestApp } from '../support/app.js';
import { gists, log } from '../support/messages.js';
import type { RawClient } from '../support/raw-client.js';
import { recordedEvents, testApps } from '../support/test-apps.js';

async function tell(app: TestApp, client: RawClient, ...said: unknown[]): Promise<void> {
  for (const data of said) await app.service.notify(client.sessionId!, log(data));
}
const numbers = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, n) => from + n);

describe.each(ONE_ADAPTER)('a full event log on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, eventLog: { maxEvents: 100 } });
  let hold: ReturnType<typeof gate<void>>;

  beforeEach(() => {
    hold = gate();
  });

  const counts: TestTool = async ({ to }, ctx) => {
    for (const n of numbers(1, Number(to))) await ctx.log('info', n);
    await hold.promise;
    return 'counted';
  };
  it('G6: a client that resumes the standalone stream at an evicted event gets those that are kept, and events$ reports the loss', async () => {
    const app = await start({ clock: new ManualClock() });
    const events = recordedEvents(app);
    const client = await app.client().initialize();
    await tell(app, client, ...numbers(1, 120));
    await app.settled({ events: 100 });
    const resumed = await (await client.listen('0_3')).count(100);
    expect(resumed.events.map(({ id }) => id)).toEqual(numbers(21, 120).map((n) => `0_${n}`));
    expect(gists(resumed.messages)).toEqual(numbers(21, 120));
    const evicted = events.filter(({ type }) => type === 'events-evicted');
    expect(evicted).toMatchObject([{ sessionId: client.sessionId, streamId: '0', after: 3, oldest: 21 }]);
    resumed.destroy();
  });

  it('G6: a GET without a cursor gets the undelivered events that are kept, and events$ reports the loss', async () => {
    const app = await start({ clock: new ManualClock() });
    const events = recordedEvents(app);
    const client = await app.client().initialize();
    await tell(app, client, ...numbers(1, 120));
    const plain = await (await client.listen()).count(100);
    expect(gists(plain.messages)).toEqual(numbers(21, 120));
    expect(events.filter(({ type }) => type === 'events-evicted')).toMatchObject([{ after: 0, oldest: 21 }]);
    plain.destroy();
  });

  it('G6: events$ reports no loss of a client that misses no event', async () => {
    const app = await start({ clock: new ManualClock() });
    const events = recordedEvents(app);
    const client = await app.client().initialize();
    await tell(app, client, ...numbers(1, 120));
    // Right before the oldest one, and further on.
    for (const [cursor, left] of [
      ['0_20', numbers(21, 120)],
      ['0_118', [119, 120]],
      ['0_120', []],
    ] as const) {
      const resumed = await (await client.listen(cursor)).count(left.length);
      expect(gists(resumed.messages)).toEqual(left);
      resumed.destroy();
      await app.settled({ readers: 0 });
    }
    expect(events.filter(({ type }) => type === 'events-evicted')).toEqual([]);
  });

  it('G6: a client that resumes the stream of a POST, running or finished, gets the oldest event that is kept, and the answer', async () => {
    const app = await start({ clock: new ManualClock(), tools: { counts } });
    const events = recordedEvents(app);
    const client = await app.client().initialize();
    const stream = await (await client.call('counts', { to: 120 })).sse().count(120);
    stream.destroy();
    await app.settled({ readers: 0, events: 100 });
    const [id] = stream.events[0]!.id!.split('_');
    const running = await (await client.get(stream.events[2]!.id)).sse().count(100);
    expect(gists(running.messages)).toEqual(numbers(21, 120));
    hold.open();
    expect(await running.end()).toBe('end');
    const finished = (await client.get(stream.primes[0])).sse();
    expect(await finished.end()).toBe('end');
    expect(gists(finished.messages)).toEqual([...numbers(22, 120), 'counted']);
    expect(events.filter(({ type }) => type === 'events-evicted')).toMatchObject([
      { streamId: id, after: 3, oldest: 21 },
      { streamId: id, after: 0, oldest: 22 },
    ]);
    await app.settled({ readers: 0, streams: 0 });
  });

  it('G6: a stream loses no event to messages on other streams', async () => {
    const app = await start({ clock: new ManualClock(), tools: { counts } });
    const client = await app.client().initialize();
    const stream = await (await client.call('counts', { to: 2 })).sse().count(2);
    stream.destroy();
    await app.settled({ readers: 0 });
    hold.open();
    await app.settled({ inFlight: 0 });
    await tell(app, client, ...numbers(1, 250));
    const resumed = (await client.get(stream.primes[0])).sse();
    expect(await resumed.end()).toBe('end');
    expect(gists(resumed.messages)).toEqual([1, 2, 'counted']);
  });

  it('G6: one session that fills its log costs no other session anything', async () => {
    const app = await start({ clock: new ManualClock() });
    const [loud, quiet] = [await app.client().initialize(), await app.client().initialize()];
    await tell(app, quiet, 'a', 'b', 'c');
    await tell(app, loud, ...numbers(1, 250));
    const stream = await (await quiet.listen()).count(3);
    expect(gists(stream.messages)).toEqual(['a', 'b', 'c']);
    stream.destroy();
  });

  it('G6: bytes of a session are bounded; finished streams give first, and keep their answers', async () => {
    const app = await start({ clock: new ManualClock(), eventLog: { maxBytes: 20_000 }, tools: { counts } });
    const client = await app.client().initialize();
    const finished = await (await client.call('counts', { to: 9 })).sse().count(9);
    hold.open();
    expect(await finished.end()).toBe('end');
    await tell(app, client, ...numbers(1, 40).map((n) => `${n} ${'x'.repeat(1_000)}`));
    const { bytes } = await app.service.counts();
    expect(bytes).toBeLessThanOrEqual(20_000);
    const stream = await (
      await client.listen()
    ).until(({ messages }) => String(gists(messages).at(-1)).startsWith('40 x'));
    expect(stream.messages.length).toBeGreaterThan(5);
    const answered = (await client.get(finished.primes[0])).sse();
    expect(await answered.end()).toBe('end');
    expect(gists(answered.messages)).toEqual(['counted']);
    stream.destroy();
  });
});
