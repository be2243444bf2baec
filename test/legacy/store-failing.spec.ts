import type { McpSessionEvent } from 'nestjs-mcp-streamable';
import { McpEventLogFullError, InMemoryEventStore } from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { EventStoreFault, FaultyEventStore, type EventStoreFaults } from '../support/faulty-event-store.js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestTool, type TestApp, type TestAppOptions } from '../support/app.js';
import { gists, log } from '../support/messages.js';
import { RecordedLog } from '../support/recorded-log.js';
import { eventually, recordedEvents, testApps } from '../support/test-apps.js';
import { JumpingClock } from '../support/tracked-clock.js';

/** Of the appends of a call: it begins, says two words, answers. */
const ITS_ANSWER = 4;
/** What a client gets in place of an answer that the log did not take, as `gists` has it. */
const LOST = 'error -32000';

const refusal = (stream: string | undefined): Error => new McpEventLogFullError(stream ?? '', 'eventLog.maxEvents');

describe.each(ONE_ADAPTER)('a failing event store on %s', (adapter) => {
  const starting = testApps(adapter, { shared: true });
  const recorded = new RecordedLog();
  let clock: ManualClock;
  let memory: InMemoryEventStore;
  let store: FaultyEventStore;
  let events: McpSessionEvent[];
  let entered: ReturnType<typeof gate<void>>;
  let hold: ReturnType<typeof gate<void>>;
  let said: string[];
  let aborted: unknown[];

  beforeEach(() => {
    recorded.lines.length = 0;
    clock = new ManualClock();
    memory = new InMemoryEventStore({}, clock);
    store = new FaultyEventStore(memory, new JumpingClock());
    [entered, hold, said, aborted] = [gate(), gate(), [], []];
  });
  afterEach(() => {
    store.faults = {};
    recorded.release();
  });

  async function start(options: Partial<TestAppOptions> = {}): Promise<TestApp> {
    const app = await starting({ clock, eventStore: store, tools: { talks, quick: () => 'quick' }, ...options });
    recorded.attach(app.app);
    events = recordedEvents(app);
    return app;
  }

  /** Says two words, one before and one after the test lets it, and notes how that came out. */
  const talks: TestTool = async ({ me }, ctx) => {
    const say = (what: string) =>
      ctx.log('info', what).then(
        () => said.push(`${what} ok`),
        (error) => said.push(`${what} ${error.code}`),
      );
    ctx.signal.addEventListener('abort', () => aborted.push(me));
    await say(`${String(me)} one`);
    entered.open();
    await hold.promise;
    await say(`${String(me)} two`);
    return 'said';
  };
  const faultsOf = (fatal: boolean) => events.filter((event) => event.type === 'store-fault' && event.fatal === fatal);

  /** Refuses appends to the first POST stream that is begun, from its n-th append on. */
  function refusingOne(from: number): EventStoreFaults {
    let doomed: string | undefined;
    let appends = 0;
    return {
      refuse: ({ method, stream }) => {
        if (method !== 'append' || stream === '0') return undefined;
        doomed ??= stream;
        return stream === doomed && ++appends >= from ? refusal(stream) : undefined;
      },
    };
  }

  it.each([
    ['its first append', 1, [LOST], ['a one EVENT_LOG_FULL']],
    ['its first message', 2, [LOST], ['a one EVENT_LOG_FULL']],
    ['a later message', 3, ['a one', LOST], ['a one ok', 'a two EVENT_LOG_FULL']],
    ['its answer', ITS_ANSWER, ['a one', 'a two', 'said'], ['a one ok', 'a two ok']],
  ])(
    'G13: a failing event store that refuses one stream, from %s on, fails that stream and no other, and its client gets an answer',
    async (_, from, heard, outcomes) => {
      const app = await start({ responseMode: 'sse' });
      const client = await app.client().initialize();
      const other = await app.client().initialize();
      const standalone = await client.listen();
      store.faults = refusingOne(from);
      const doomed = client.call('talks', { me: 'a' });
      await eventually(() => expect([...said, ...faultsOf(true)].length).toBeGreaterThan(0));
      const calls = [client.call('talks', { me: 'b' }), other.call('talks', { me: 'c' })];
      await eventually(() => expect(said).toEqual(expect.arrayContaining(['b one ok', 'c one ok'])));
      hold.open();
      const stream = (await doomed).sse();
      expect(await stream.end()).toBe('end');
      expect(gists(stream.messages)).toEqual(heard);
      for (const [n, call] of calls.entries()) {
        const unharmed = (await call).sse();
        expect(await unharmed.end()).toBe('end');
        expect(gists(unharmed.messages)).toEqual([`${'bc'[n]} one`, `${'bc'[n]} two`, 'said']);
      }
      await app.service.notify(client.sessionId!, log('unharmed'));
      await standalone.count(1);
      // A handler that still runs is told twice: its message fails, and its signal aborts.
      const fate = said.filter((line) => line.startsWith('a'));
      expect(fate.slice(0, outcomes.length)).toEqual(outcomes);
      await eventually(() => expect(aborted).toEqual(from === ITS_ANSWER ? [] : ['a']));
      expect(faultsOf(true)).toMatchObject([{ sessionId: client.sessionId, error: { code: 'EVENT_LOG_FULL' } }]);
      expect(recorded.texts().filter((line) => /\w{22}.*McpEventLogFullError/.test(line)).length).toBeGreaterThan(0);
      await app.settled({ inFlight: 0, streams: 1, readers: 1, openResponses: 1 });
      standalone.destroy();
    },
  );

  it('a failing event store that refuses everything does not affect requests that need no log', async () => {
    const app = await start();
    const client = await app.client().initialize();
    store.faults = { refuse: ({ method, stream }) => (method === 'append' ? refusal(stream) : undefined) };
    expect(gists([await (await client.call('quick')).json()])).toEqual(['quick']);
    expect((await client.post({ jsonrpc: '2.0', method: 'notifications/roots/list_changed' })).status).toBe(202);
    const unsent = app.service.notify(client.sessionId!, log('unsent'));
    await expect(unsent).rejects.toMatchObject({ code: 'EVENT_LOG_FULL' });
    expect(gists([await (await client.call('quick')).json()])).toEqual(['quick']);
    // It works again: so does the standalone stream, with a new beginning.
    store.faults = {};
    const standalone = await client.listen();
    await app.service.notify(client.sessionId!, log('sent'));
    await standalone.count(1);
    expect(standalone.events.map(({ id }) => id)).toEqual(['0_1']);
    standalone.destroy();
  });

  it('a failing event store that refuses the standalone stream cuts its readers, who come back when it works again', async () => {
    const app = await start();
    const client = await app.client().initialize();
    const reader = await client.listen();
    await app.service.notify(client.sessionId!, log('one'));
    await reader.count(1);
    store.faults = {
      refuse: ({ method, stream }) => (method === 'append' && stream === '0' ? refusal(stream) : undefined),
    };
    const unsent = app.service.notify(client.sessionId!, log('unsent'));
    await expect(unsent).rejects.toMatchObject({ code: 'EVENT_LOG_FULL' });
    expect(await reader.end()).toBe('cut');
    // Calls are not concerned.
    hold.open();
    const call = (await client.call('talks', { me: 'a' })).sse();
    expect(await call.end()).toBe('end');
    store.faults = {};
    const again = await client.listen(reader.events[0]!.id);
    await app.service.notify(client.sessionId!, log('two'));
    await again.count(1);
    expect(again.events.map(({ id }) => id)).toEqual(['0_2']);
    again.destroy();
  });

  it('a failing event store that is unavailable for a while loses no message, and delays only its own streams', async () => {
    const app = await start();
    const client = await app.client().initialize();
    const stream = await (await client.call('talks', { me: 'a' })).sse().count(1);
    const standalone = await client.listen();
    store.faults = { failBefore: ({ method }) => method === 'append' || method === 'read' };
    hold.open();
    const sent = app.service.notify(client.sessionId!, log('meanwhile'));
    await clock.advance(20_000);
    expect(gists([await (await client.call('quick')).json()])).toEqual(['quick']);
    expect([stream.ended, standalone.ended]).toEqual([undefined, undefined]);
    store.faults = {};
    await clock.advance(2_000);
    await sent;
    await clock.advance(2_000);
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['a one', 'a two', 'said']);
    await standalone.count(1);
    expect(faultsOf(true)).toEqual([]);
    standalone.destroy();
  });

  it('G13: a failing event store that is unavailable for longer than half a minute fails the calls that wait for it, and later ones work', async () => {
    const app = await start();
    const client = await app.client().initialize();
    const stream = await (await client.call('talks', { me: 'a' })).sse().count(1);
    store.faults = { failBefore: ({ method }) => method === 'append' };
    hold.open();
    await clock.advance(29_000);
    await app.settled({ inFlight: 1 });
    await clock.advance(10_000);
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['a one', LOST]);
    await eventually(() => expect(said).toEqual(['a one ok', 'a two STORE_UNAVAILABLE']));
    expect(aborted).toEqual(['a']);
    expect(faultsOf(true)).toMatchObject([{ error: expect.any(EventStoreFault) }]);
    store.faults = {};
    await clock.advance(2_000);
    await app.settled({ inFlight: 0, streams: 0, readers: 0 });
    const resumed = (await client.get(stream.events[0]!.id)).sse();
    expect([await resumed.end(), gists(resumed.messages)]).toEqual(['end', [LOST]]);
    const nothing = await client.get(resumed.events[0]!.id);
    expect([nothing.status, await nothing.text()]).toEqual([405, '']);
    const again = (await client.call('talks', { me: 'b' })).sse();
    expect(await again.end()).toBe('end');
    expect(gists(again.messages)).toEqual(['b one', 'b two', 'said']);
  });

  it('a failing event store that is unavailable while a handler sends messages costs a bounded amount of memory', async () => {
    const codes = new Set<unknown>();
    const done = gate();
    const app = await start({
      tools: {
        floods: async (_, ctx) => {
          await ctx.log('info', 'a word');
          await hold.promise;
          const told: Promise<unknown>[] = [];
          for (let n = 0; n < 40; n++) {
            const telling = ctx.log('info', 'x'.repeat(512 * 1024));
            told.push(telling.catch((error) => codes.add(error.code)));
            await clock.advance(100);
          }
          await Promise.all(told);
          done.open();
          return 'said';
        },
      },
    });
    const client = await app.client().initialize();
    const stream = await (await client.call('floods')).sse().count(1);
    store.faults = { failBefore: ({ method }) => method === 'append' };
    hold.open();
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['a word', LOST]);
    await done.promise;
    expect(codes).toContain('STREAM_OVERFLOW');
    store.faults = {};
    await clock.advance(2_000);
    await app.settled({ inFlight: 0, streams: 0, readers: 0 });
  });

  it('a failing event store that fails at bookkeeping is reported, and disturbs no stream', async () => {
    const app = await start();
    const client = await app.client().initialize();
    store.faults = { failBefore: ({ method }) => method === 'read' };
    hold.open();
    const stream = (await client.call('talks', { me: 'a' })).sse();
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['a one', 'a two', 'said']);
    await app.settled({ readers: 0 });
    expect(faultsOf(true)).toEqual([]);
    const failed = faultsOf(false).map((event) => (event as { error: EventStoreFault }).error.call.method);
    expect(failed).toEqual(['read']);
    store.faults = {};
    await app.settled({ streams: 0 });
  });

  it('a failing event store that refuses to be read cuts the reader, and the stream goes on', async () => {
    const app = await start();
    const client = await app.client().initialize();
    const posted = await (await client.call('talks', { me: 'a' })).sse().count(1);
    posted.destroy();
    await app.settled({ readers: 0 });
    let reads = 0;
    store.faults = { refuse: ({ method, stream }) => (method === 'read' && ++reads > 1 ? refusal(stream) : undefined) };
    const cut = await client.get(posted.primes[0]).then(
      (response) => response.sse().end(),
      () => 'cut',
    );
    expect(cut).toBe('cut');
    expect(aborted).toEqual([]);
    store.faults = {};
    await app.settled({ readers: 0, inFlight: 1 });
    hold.open();
    const again = (await client.get(posted.primes[0])).sse();
    expect(await again.end()).toBe('end');
    expect(gists(again.messages)).toEqual(['a one', 'a two', 'said']);
  });

  it('a failing event store that is unavailable when its session ends does not prevent the end', async () => {
    const app = await start();
    const client = await app.client().initialize();
    const stream = await (await client.call('talks', { me: 'a' })).sse().count(1);
    store.faults = { failBefore: ({ method }) => method === 'append' };
    const deleted = await client.delete();
    expect(deleted.status).toBe(204);
    await clock.advance(1_000);
    await stream.end();
    await app.settled({ live: 0, sessions: 0, inFlight: 0, streams: 0, readers: 0, logs: 0 });
    expect(aborted).toEqual(['a']);
    hold.open();
  });
});
