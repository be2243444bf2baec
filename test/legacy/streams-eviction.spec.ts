import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { ADAPTERS, gate, type ScriptedTool, type TestApp } from '../support/app.js';
import { gists, log } from '../support/messages.js';
import type { RawClient } from '../support/raw-client.js';
import { expectRefusal } from '../support/refusal.js';
import { recordedEvents, runningApps } from '../support/running-apps.js';

async function tell(app: TestApp, client: RawClient, ...said: unknown[]): Promise<void> {
  for (const data of said) await app.service.notify(client.sessionId!, log(data));
}
const numbers = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, n) => from + n);

describe.each(ADAPTERS)('a full event log on %s', (adapter) => {
  const start = runningApps(adapter, { sseAfterMs: 60_000, eventLog: { maxEvents: 5 } });
  let hold: ReturnType<typeof gate<void>>;
  let gates: ReturnType<typeof gate<void>>[];

  beforeEach(() => {
    hold = gate();
    gates = [gate(), gate(), gate()];
  });

  const counts: ScriptedTool = async ({ to }, ctx) => {
    for (const n of numbers(1, Number(to))) await ctx.mcpReq.notify(log(n));
    await hold.promise;
    return 'counted';
  };
  /** Answers when its gate is opened. */
  const waits: ScriptedTool = async ({ on }) => {
    await gates[Number(on)]!.promise;
    return `answer ${Number(on)}`;
  };

  it('G6: the standalone stream goes on with the oldest event that is kept, and says so', async () => {
    const app = await start({ clock: new ManualClock() });
    const events = recordedEvents(app);
    const client = await app.client().initialize();
    await tell(app, client, ...numbers(1, 12));
    await app.settled({ events: 5 });
    const resumed = await (await client.listen('0_3')).count(5);
    expect(resumed.primes).toEqual(['0_7']);
    expect(resumed.events.map(({ id }) => id)).toEqual(['0_8', '0_9', '0_10', '0_11', '0_12']);
    expect(gists(resumed.messages)).toEqual(numbers(8, 12));
    const evicted = events.filter(({ type }) => type === 'events-evicted');
    expect(evicted).toMatchObject([{ sessionId: client.sessionId, streamId: '0', after: 3, oldest: 8 }]);
    resumed.destroy();
  });

  it('G6: a plain GET does so for what was never delivered', async () => {
    const app = await start({ clock: new ManualClock() });
    const events = recordedEvents(app);
    const client = await app.client().initialize();
    await tell(app, client, ...numbers(1, 12));
    const plain = await (await client.listen()).count(5);
    expect(gists(plain.messages)).toEqual(numbers(8, 12));
    expect(events.filter(({ type }) => type === 'events-evicted')).toMatchObject([{ after: 0, oldest: 8 }]);
    plain.destroy();
  });

  it('G6: says nothing when nothing is missing', async () => {
    const app = await start({ clock: new ManualClock() });
    const events = recordedEvents(app);
    const client = await app.client().initialize();
    await tell(app, client, ...numbers(1, 12));
    // Right before the oldest one, and further on.
    for (const [cursor, left] of [
      ['0_7', numbers(8, 12)],
      ['0_10', [11, 12]],
      ['0_12', []],
    ] as const) {
      const resumed = await (await client.listen(cursor)).count(left.length);
      expect(gists(resumed.messages)).toEqual(left);
      resumed.destroy();
      await app.settled({ readers: 0 });
    }
    expect(events.filter(({ type }) => type === 'events-evicted')).toEqual([]);
  });

  it('G6: a running POST stream refuses the cursor, and is still there for later ones', async () => {
    const app = await start({ clock: new ManualClock(), tools: { counts } });
    const client = await app.client().initialize();
    const stream = await (await client.call('counts', { to: 12 })).sse().count(12);
    stream.destroy();
    await app.settled({ readers: 0, events: 5 });
    const early = stream.events[2]!.id!;
    await expectRefusal(await client.get(early), { status: 400, code: -32000, says: [early, 'the oldest is 8'] });
    await expectRefusal(await client.get(stream.primes[0]), { status: 400, code: -32000, says: ['no longer kept'] });
    const resumed = await (await client.get(stream.events[8]!.id)).sse().count(3);
    hold.open();
    expect(await resumed.end()).toBe('end');
    expect(gists(resumed.messages)).toEqual([10, 11, 12, 'counted']);
    // Finished, and with another hole: the same rule.
    await expectRefusal(await client.get(stream.primes[0]), { status: 400, code: -32000 });
    await app.settled({ readers: 0, streams: 0 });
  });

  it('G6: an answer that nobody has read stays, whatever is said elsewhere', async () => {
    const app = await start({ clock: new ManualClock(), tools: { counts } });
    const client = await app.client().initialize();
    const stream = await (await client.call('counts', { to: 2 })).sse().count(2);
    stream.destroy();
    await app.settled({ readers: 0 });
    hold.open();
    await app.settled({ inFlight: 0 });
    await tell(app, client, ...numbers(1, 50));
    const resumed = (await client.get(stream.events[1]!.id)).sse();
    expect(await resumed.end()).toBe('end');
    expect(gists(resumed.messages)).toEqual(['counted']);
    // Read: now it may go.
    await tell(app, client, ...numbers(51, 60));
    await expectRefusal(await client.get(stream.events[1]!.id), { status: 400, code: -32000 });
  });

  it('G6: the newest event of a running stream stays, whatever is said elsewhere', async () => {
    const app = await start({ clock: new ManualClock(), tools: { counts } });
    const client = await app.client().initialize();
    const stream = await (await client.call('counts', { to: 2 })).sse().count(2);
    stream.destroy();
    await app.settled({ readers: 0 });
    await tell(app, client, ...numbers(1, 50));
    // The client that has got it resumes, and so does the one that has not.
    const resumed = await (await client.get(stream.events[0]!.id)).sse().count(1);
    hold.open();
    expect(await resumed.end()).toBe('end');
    expect(gists(resumed.messages)).toEqual([2, 'counted']);
  });

  it('G6: a cursor behind an unread answer, with a hole after it, is refused as well', async () => {
    const app = await start({
      clock: new ManualClock(),
      tools: {
        waits,
        talks: async (_, ctx) => {
          for (const n of numbers(1, 3)) await ctx.mcpReq.notify(log(n));
          await gates[1]!.promise;
          for (const n of numbers(4, 12)) await ctx.mcpReq.notify(log(n));
          await hold.promise;
          return 'talked';
        },
      },
    });
    const client = await app.client().initialize('2025-03-26');
    const posted = client.post([client.toolCall('waits', { on: 0 }), client.toolCall('talks')]);
    const stream = await (await posted).sse().count(3);
    stream.destroy();
    await app.settled({ readers: 0 });
    // The answer is event 4; everything between it and the last few is evicted.
    gates[0]!.open();
    await app.settled({ inFlight: 1 });
    gates[1]!.open();
    await app.settled({ events: 5 });
    const id = stream.events[0]!.id!.slice(0, -2);
    await expectRefusal(await client.get(`${id}_5`), { status: 400, code: -32000, says: ['no longer kept'] });
    await expectRefusal(await client.get(`${id}_4`), { status: 400, code: -32000, says: ['no longer kept'] });
    hold.open();
    await app.settled({ inFlight: 0 });
    await expectRefusal(await client.get(`${id}_5`), { status: 400, code: -32000, says: ['no longer kept'] });
    const end = (await client.get(`${id}_12`)).sse();
    expect(await end.end()).toBe('end');
    expect(gists(end.messages)).toEqual([12, 'talked']);
  });

  it('G6: unread answers that fill the log fail the next stream, and only that one', async () => {
    const app = await start({ clock: new ManualClock(), responseMode: 'sse', tools: { quick: () => 'quick', counts } });
    const events = recordedEvents(app);
    const client = await app.client().initialize();
    // Five answers that nobody has read: their readers have left before.
    const cursors: string[] = [];
    for (let n = 0; n < 5; n++) {
      hold = gate();
      const stream = await (await client.call('counts', { to: 0 })).sse().opened();
      cursors.push(stream.primes[0]!);
      stream.destroy();
      await app.settled({ readers: 0 });
      hold.open();
      await app.settled({ inFlight: 0, events: n + 1 });
    }
    hold = gate();
    const refused = await (await client.call('counts', { to: 0 })).sse().opened();
    hold.open();
    expect(await refused.end()).toBe('cut');
    expect(refused.events).toEqual([]);
    expect(events.filter(({ type }) => type === 'store-fault')).toMatchObject([
      { fatal: true, error: { code: 'EVENT_LOG_FULL' } },
    ]);
    await app.settled({ inFlight: 0, streams: 0, readers: 0, openResponses: 0 });
    // What was refused is over, for the log too: a client that comes back is not kept waiting for ever.
    const again = await client.get(refused.primes[0]);
    expect(again.status).toBe(405);
    await again.text();
    // The others are all there; and once they are read, there is room again.
    for (const cursor of cursors) {
      const resumed = (await client.get(cursor)).sse();
      expect(await resumed.end()).toBe('end');
      expect(gists(resumed.messages)).toEqual(['counted']);
    }
    const served = (await client.call('quick')).sse();
    expect(await served.end()).toBe('end');
    expect(gists(served.messages)).toEqual(['quick']);
  });

  it('G6: one session that fills its log costs no other session anything', async () => {
    const app = await start({ clock: new ManualClock() });
    const [loud, quiet] = [await app.client().initialize(), await app.client().initialize()];
    await tell(app, quiet, 'a', 'b', 'c');
    await tell(app, loud, ...numbers(1, 100));
    const stream = await (await quiet.listen()).count(3);
    expect(gists(stream.messages)).toEqual(['a', 'b', 'c']);
    stream.destroy();
  });

  it('G6: bytes are bounded as events are', async () => {
    const app = await start({ clock: new ManualClock(), eventLog: { maxBytes: 20_000 } });
    const client = await app.client().initialize();
    await tell(app, client, ...numbers(1, 40).map((n) => `${n} ${'x'.repeat(1_000)}`));
    const { bytes, events } = await app.service.counts();
    expect(bytes).toBeLessThanOrEqual(20_000);
    const stream = await (await client.listen()).count(events);
    expect(gists(stream.messages).at(-1)).toMatch(/^40 x/);
    stream.destroy();
  });
});
