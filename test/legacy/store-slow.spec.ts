import { InMemoryEventStore } from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { FaultyEventStore, randomFaults, type EventStoreFaults } from '../support/faulty-event-store.js';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { QUICK } from '../support/adapters.js';
import { ONE_ADAPTER, type TestTool, type TestApp } from '../support/app.js';
import { gists, log } from '../support/messages.js';
import type { RawClient } from '../support/raw-client.js';
import { testApps } from '../support/test-apps.js';
import { JumpingClock } from '../support/tracked-clock.js';

const MANY = 120;
const all = (from = 0): number[] => Array.from({ length: MANY - from }, (_, n) => from + n);

const SCHEDULES: Record<string, (seed: number) => EventStoreFaults> = {
  slow: (seed) => randomFaults({ seed, maxDelayMs: 20 }),
  'failing now and then': (seed) => randomFaults({ seed, failBefore: 0.2, failAfter: 0.2 }),
  'slow and failing': (seed) => randomFaults({ seed, maxDelayMs: 20, failBefore: 0.15, failAfter: 0.15 }),
};

describe.each(ONE_ADAPTER)('a slow and faltering event store on %s', (adapter) => {
  const start = testApps(adapter, { shared: true });
  let clock: ManualClock;
  let store: FaultyEventStore;
  let app: TestApp;
  let over: AbortController;
  let turning: Promise<void> | undefined;

  beforeEach(() => {
    clock = new ManualClock();
    // The store's own time passes by itself; the time of the app, in which it tries again, is turned.
    store = new FaultyEventStore(new InMemoryEventStore({}, clock), new JumpingClock());
    over = new AbortController();
    turning = undefined;
  });
  afterEach(async () => {
    over.abort();
    store.faults = {};
    await turning;
  });

  /** From now on the store falters, and time goes on so that it is tried again. */
  function falter(faults: EventStoreFaults): void {
    const { delay, delayAnswer, failBefore, failAfter } = faults;
    // Its statistics are for the test to look at.
    store.faults = {
      delay: (call) => (call.method === 'stats' ? 0 : delay!(call)),
      delayAnswer: (call) => (call.method === 'stats' ? 0 : delayAnswer!(call)),
      // Only what is tried again: where a client asks anew, it is the client's turn.
      failBefore: (call) => (call.method === 'append' || call.method === 'read') && failBefore!(call),
      failAfter: (call) => (call.method === 'append' || call.method === 'read') && failAfter!(call),
    };
    const { signal } = over;
    turning ??= (async () => {
      while (!signal.aborted) await clock.advance(5);
    })();
  }
  async function tell(client: RawClient, from = 0, to = MANY): Promise<void> {
    const sent: Promise<unknown>[] = [];
    for (let n = from; n < to; n++) {
      sent.push(app.service.notify(client.sessionId!, log(n)));
      if (n % 10 === 0) await Promise.all(sent);
    }
    await Promise.all(sent);
  }
  const counts: TestTool = async ({ waits, reports }, ctx) => {
    const sent: Promise<unknown>[] = [];
    for (const n of all()) {
      const told = reports ? ctx.progress(n) : ctx.log('info', n);
      sent.push(told);
      if (waits) await told;
    }
    await Promise.all(sent);
    return 'counted';
  };

  describe.each(Object.keys(SCHEDULES))('that is %s', (schedule) => {
    it('P2: a slow and faltering event store keeps the order of the messages of a call, awaited or not', async () => {
      app = await start({ clock, eventStore: store, tools: { counts } });
      const client = await app.client().initialize();
      falter(SCHEDULES[schedule]!(1));
      for (const waits of [true, false]) {
        const stream = (await client.call('counts', { waits })).sse();
        expect(await stream.end()).toBe('end');
        expect(gists(stream.messages)).toEqual([...all(), 'counted']);
        const id = stream.events[0]!.id!.slice(0, -2);
        expect(stream.events.map((event) => event.id)).toEqual([...all(1), MANY, MANY + 1].map((n) => `${id}_${n}`));
      }
    });

    it('P2: a slow and faltering event store keeps the order of reports, and their handler does not wait for it', async () => {
      app = await start({ clock, eventStore: store, tools: { counts } });
      const client = await app.client().initialize();
      falter(SCHEDULES[schedule]!(2));
      const appends = vi.spyOn(store, 'append');
      const stream = (await client.call('counts', { waits: true, reports: true }, { progressToken: 1 })).sse();
      expect(await stream.end()).toBe('end');
      expect(gists(stream.messages)).toEqual([...all().map((n) => `progress ${n}`), 'counted']);
      expect(new Set(appends.mock.calls.map(([, , , { seq }]) => seq)).size).toBeLessThan(5);
    });

    it('G1: a slow and faltering event store loses and repeats nothing on the standalone stream', async () => {
      app = await start({ clock, eventStore: store });
      const client = await app.client().initialize();
      falter(SCHEDULES[schedule]!(3));
      const stream = await client.listen();
      await tell(client);
      await stream.count(MANY);
      expect(gists(stream.messages)).toEqual(all());
      stream.destroy();
    });

    it('G2: a slow and faltering event store replays the events after a cursor and continues with live ones without a gap', async () => {
      app = await start({ clock, eventStore: store });
      const client = await app.client().initialize();
      falter(SCHEDULES[schedule]!(5));
      await tell(client, 0, 40);
      const told = tell(client, 40, MANY);
      const early = await client.listen('0_10');
      await early.until(({ events }) => events.length > 50);
      const heard = gists(early.messages);
      early.destroy();
      const late = await client.listen(early.events.at(-1)!.id);
      await told;
      await late.until(({ messages }) => gists(messages).at(-1) === MANY - 1);
      expect([...heard, ...gists(late.messages)]).toEqual(all(10));
      late.destroy();
    });

    it.skipIf(QUICK)('P2: a slow and faltering event store mixes up no messages of many streams', async () => {
      app = await start({ clock, eventStore: store, tools: { counts } });
      const clients = await Promise.all([1, 2, 3].map(() => app.client().initialize()));
      falter(SCHEDULES[schedule]!(7));
      const calls = clients.flatMap((client) =>
        [1, 2, 3, 4].map(async (id) => {
          const stream = (await client.call('counts', { waits: id % 2 === 0 }, { id })).sse();
          expect(await stream.end()).toBe('end');
          expect(gists(stream.messages)).toEqual([...all(), 'counted']);
        }),
      );
      await Promise.all(calls);
    });
  });
});
