import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describe, expect, it } from 'vitest';
import { ADAPTERS, gate, type TestApp } from '../support/app.js';
import { gists, log } from '../support/messages.js';
import type { RawClient } from '../support/raw-client.js';
import { eventually, recordedEvents, testApps } from '../support/test-apps.js';

const MEBIBYTE = 1024 * 1024;
/** More than all the buffers between here and there take: those of the kernel hold some megabytes. */
const MANY = 200;
const big = (n: number): string => `${n} ${'x'.repeat(MEBIBYTE / 8)}`;
const numberOf = (text: unknown): number => parseInt(text as string, 10);

/** Lets sockets have their turn: nobody can read what was never sent. */
const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

async function tell(app: TestApp, client: RawClient, from: number, to: number): Promise<void> {
  for (let n = from; n <= to; n++) {
    await app.service.notify(client.sessionId!, log(big(n)));
    await turn();
  }
}

describe.each(ADAPTERS)('a reader that is too slow, on %s', (adapter) => {
  const start = testApps(adapter, {
    port: true,
    sseAfterMs: 60_000,
    maxBufferedBytes: 64 * 1024,
    keepAliveMs: 15_000,
  });
  /** Everything fits into the log. */
  const roomy = { maxBytes: 512 * MEBIBYTE, maxTotalBytes: 512 * MEBIBYTE };

  it('P13: a reader that is too slow pauses, and goes on without loss or repetition when it reads again', async () => {
    const app = await start({ clock: new ManualClock(), eventLog: roomy });
    const client = await app.client().initialize();
    const response = await client.get();
    await tell(app, client, 1, MANY);
    await eventually(() => expect(app.pausedResponses).toBe(1));
    const stream = await response.sse().count(MANY);
    expect(stream.events.map(({ id }) => id)).toEqual(Array.from({ length: MANY }, (_, n) => `0_${n + 1}`));
    expect(app.pausedResponses).toBe(0);
    stream.destroy();
  });

  it('P13: a reader that is too slow holds no more than its share while it pauses', async () => {
    const app = await start({ clock: new ManualClock(), eventLog: { maxBytes: 4 * MEBIBYTE } });
    const client = await app.client().initialize();
    const response = await client.get();
    // The log is bounded, and so is what waits for the response.
    await tell(app, client, 1, MANY);
    await eventually(() => expect(app.pausedResponses).toBe(1));
    const held = (): number => {
      global.gc!();
      const { heapUsed, external } = process.memoryUsage();
      return heapUsed + external;
    };
    const before = held();
    await tell(app, client, MANY + 1, 4 * MANY);
    await eventually(() => expect(held() - before).toBeLessThan(10 * MEBIBYTE));
    response.destroy();
  });

  it('P13: a reader that is too slow is cut when it reads again and the log has evicted its next event; it comes back for the rest', async () => {
    const app = await start({ clock: new ManualClock(), eventLog: { maxBytes: 4 * MEBIBYTE } });
    const client = await app.client().initialize();
    const response = await client.get();
    await tell(app, client, 1, MANY);
    await eventually(() => expect(app.pausedResponses).toBe(1));
    const stream = response.sse();
    expect(await stream.end()).toBe('cut');
    await app.settled({ readers: 0, openResponses: 0 });
    const heard = gists(stream.messages).map(numberOf);
    expect(heard).toEqual(Array.from({ length: heard.length }, (_, n) => n + 1));
    const events = recordedEvents(app);
    const again = await (
      await client.listen(stream.events.at(-1)!.id)
    ).until(({ messages }) => numberOf(gists(messages).at(-1)) === MANY);
    expect(events.filter(({ type }) => type === 'events-evicted')).toHaveLength(1);
    again.destroy();
  });

  it('P13: a reader that is too slow is cut when it has read nothing for two keep-alive periods, and can resume without loss', async () => {
    const clock = new ManualClock();
    const app = await start({ clock, eventLog: roomy });
    const client = await app.client().initialize();
    const response = await client.get();
    await tell(app, client, 1, MANY);
    await eventually(() => expect(app.pausedResponses).toBe(1));
    // Not earlier.
    await clock.advance(15_000);
    await app.settled({ readers: 1, openResponses: 1 });
    await clock.advance(15_000);
    await clock.advance(15_000);
    await app.settled({ readers: 0, openResponses: 0 });
    const cut = response.sse();
    expect(await cut.end()).toBe('cut');
    const again = await client.listen(cut.events.at(-1)!.id);
    await again.count(MANY - cut.events.length);
    expect([...cut.messages, ...again.messages].map((m) => numberOf(m.params.data))).toEqual(
      Array.from({ length: MANY }, (_, n) => n + 1),
    );
    again.destroy();
  });

  it('P13: a reader that is too slow is cut on a POST stream too, and the call goes on', async () => {
    const clock = new ManualClock();
    const said = gate();
    const hold = gate();
    const app = await start({
      clock,
      eventLog: { maxBytes: 4 * MEBIBYTE },
      tools: {
        floods: async (_, ctx) => {
          for (let n = 1; n <= MANY; n++) {
            await ctx.log('info', big(n));
            await turn();
          }
          said.open();
          await hold.promise;
          return 'survived';
        },
      },
    });
    const client = await app.client().initialize();
    const response = await client.call('floods');
    // The handler was not held up by a client that did not read.
    await said.promise;
    await eventually(() => expect(app.pausedResponses).toBe(1));
    const stream = response.sse();
    expect(await stream.end()).toBe('cut');
    await app.settled({ readers: 0, inFlight: 1, streams: 1 });
    const again = (await client.get(stream.events.at(-1)!.id)).sse();
    hold.open();
    expect(await again.end()).toBe('end');
    const [oldest, ...rest] = gists(again.messages);
    expect(numberOf(oldest)).toBeGreaterThan(stream.messages.length + 1);
    expect(rest.slice(-2).map(String)).toEqual([expect.stringMatching(`^${MANY} x`), 'survived']);
    await app.settled({ inFlight: 0, streams: 0 });
  });

  it('P13: a reader that is too slow does not affect other responses', async () => {
    const clock = new ManualClock();
    const app = await start({
      clock,
      eventLog: { maxBytes: 4 * MEBIBYTE },
      tools: {
        talks: async (_, ctx) => {
          for (let n = 0; n < 50; n++) await ctx.log('info', n);
          return 'said';
        },
      },
    });
    const [lazy, other] = [await app.client().initialize(), await app.client().initialize()];
    const neverRead = await lazy.get();
    await tell(app, lazy, 1, MANY);
    await eventually(() => expect(app.pausedResponses).toBe(1));
    const attentive = await other.listen();
    for (const client of [lazy, other]) {
      const stream = (await client.call('talks')).sse();
      expect(await stream.end()).toBe('end');
      expect(gists(stream.messages)).toEqual([...Array(50).keys(), 'said']);
    }
    for (let n = 1; n <= 40; n++) {
      await tell(app, other, n, n);
      await attentive.count(n);
    }
    // Nor does it keep its session from ending.
    await (await lazy.delete()).text();
    await app.settled({ live: 1, logs: 1 });
    await clock.advance(15_000);
    await clock.advance(15_000);
    await clock.advance(15_000);
    await app.settled({ openResponses: 1, readers: 1 });
    neverRead.destroy();
    attentive.destroy();
  });
});
