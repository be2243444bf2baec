import { currentMcpCall } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { gate, ONE_ADAPTER, type TestTool } from '../support/app.js';
import { cancelOf, gists } from '../support/messages.js';
import { LATEST } from '../support/raw-client.js';
import { eventually, recordedEvents, testApps } from '../support/test-apps.js';
import { scripted } from '../support/scripted-server.js';

/** Stands still: nothing ends by time. */
const STILL = new ManualClock();

/** Reasons that are no texts. */
const REASONS: [what: string, reason: unknown][] = [
  ['a number', 17],
  ['an object', { because: 'so' }],
  ['null', null],
  ['something without a text', { toString: 1 }],
];

describe.each(ONE_ADAPTER)('cancellation on %s', (adapter) => {
  const start = testApps(adapter, { shared: true });
  let entered: ReturnType<typeof gate<void>>;
  let hold: ReturnType<typeof gate<string>>;
  let signals: AbortSignal[];

  beforeEach(() => {
    entered = gate();
    hold = gate<string>();
    signals = [];
  });

  const waits: TestTool = (_, ctx) => {
    signals.push(ctx.signal);
    entered.open();
    return hold.promise;
  };
  /** Says a word, so that the response is SSE, then waits. */
  const talks: TestTool = async (args, ctx, sessions) => {
    await ctx.log('info', 'a word');
    return waits(args, ctx, sessions);
  };
  const tools = { waits, talks, quick: () => 'quick' };
  const aborted = () => signals.map((signal) => signal.aborted);

  it('P9: a call that is cancelled before the head gets the head of a stream and its end, and its signals abort', async () => {
    const app = await start({ clock: STILL, tools });
    const events = recordedEvents(app);
    const client = await app.client().initialize();
    const posted = client.call('waits', {}, { id: 'call' });
    await entered.promise;
    expect(aborted()).toEqual([false]);
    await client.notify('notifications/cancelled', { requestId: 'call', reason: 'changed my mind' });
    const response = await posted;
    expect(response.status).toBe(200);
    expect(response.header('content-type')).toMatch('text/event-stream');
    const stream = response.sse();
    expect(await stream.end()).toBe('end');
    expect(stream.body).toBe('');
    await eventually(() => expect(aborted()).toEqual([true]));
    expect(signals.map(({ reason }) => reason)).toEqual(['changed my mind']);
    await app.settled({ inFlight: 0, streams: 0, readers: 0, openResponses: 0, loggedStreams: 0, events: 0 });
    // The result of the handler comes too late to be a message.
    hold.open('too late');
    expect(gists([await (await client.call('quick')).json()])).toEqual(['quick']);
    expect(events.filter(({ type }) => type === 'late-message')).toEqual([]);
  });

  it('P9: a call that is cancelled after the head ends its stream without an answer', async () => {
    const app = await start({ clock: STILL, tools });
    const client = await app.client().initialize();
    const stream = (await client.call('talks', {}, { id: 'call' })).sse();
    await stream.count(1);
    await entered.promise;
    await client.notify('notifications/cancelled', { requestId: 'call' });
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['a word']);
    await eventually(() => expect(aborted()).toEqual([true]));
    await app.settled({ inFlight: 0, streams: 0, readers: 0, openResponses: 0 });
    // Nothing to come back for.
    const again = await client.get(stream.events[0]!.id);
    expect(again.status).toBe(405);
    await again.text();
    hold.open('too late');
  });

  it('P9: a call that is cancelled in sse mode before its first message ends its stream', async () => {
    const app = await start({ clock: STILL, responseMode: 'sse', tools });
    const client = await app.client().initialize();
    const stream = await (await client.call('waits', {}, { id: 'call' })).sse().opened();
    await entered.promise;
    await client.notify('notifications/cancelled', { requestId: 'call' });
    expect(await stream.end()).toBe('end');
    expect(stream.primes).toHaveLength(1);
    expect(stream.events).toEqual([]);
    await app.settled({ inFlight: 0, streams: 0, readers: 0, openResponses: 0, events: 0 });
  });

  it('P9: a cancellation in one batch with its request ends the stream in sse mode', async () => {
    const app = await start({ clock: STILL, responseMode: 'sse', tools });
    const client = await app.client().initialize('2025-03-26');
    const stream = (await client.post([client.toolCall('waits', {}, { id: 'call' }), cancelOf('call')])).sse();
    expect(await stream.end()).toBe('end');
    expect(stream.events).toEqual([]);
    await app.settled({ inFlight: 0, streams: 0, readers: 0, openResponses: 0 });
  });

  it('P9: a client that left finds the end of its cancelled call when it resumes', async () => {
    const app = await start({ clock: STILL, tools });
    const client = await app.client().initialize();
    const stream = await (await client.call('talks', {}, { id: 'call' })).sse().count(1);
    await entered.promise;
    stream.destroy();
    await app.settled({ readers: 0, streams: 1, inFlight: 1 });
    await client.notify('notifications/cancelled', { requestId: 'call' });
    await app.settled({ inFlight: 0, streams: 0 });
    const resumed = (await client.get(stream.primes[0])).sse();
    expect(await resumed.end()).toBe('end');
    expect(gists(resumed.messages)).toEqual(['a word']);
  });

  it('P9: a cancellation of an id that is unknown or answered changes nothing', async () => {
    const app = await start({ clock: STILL, tools });
    const events = recordedEvents(app);
    const client = await app.client().initialize();
    await (await client.call('quick', {}, { id: 'answered' })).text();
    const posted = client.call('waits', {}, { id: 5 });
    await entered.promise;
    for (const requestId of ['never', 'answered', 'answered', '5', 6, null, undefined, { id: 5 }, [5], true]) {
      const response = await client.post(cancelOf(requestId));
      expect(`${JSON.stringify(requestId)}: ${response.status}`).toBe(`${JSON.stringify(requestId)}: 202`);
      await response.text();
    }
    const bare = await client.post({ jsonrpc: '2.0', method: 'notifications/cancelled' });
    expect(bare.status).toBe(202);
    expect(aborted()).toEqual([false]);
    await app.settled({ inFlight: 1 });
    hold.open('waited');
    expect(gists([await (await posted).json()])).toEqual(['waited']);
    expect(events.filter(({ type }) => type !== 'created')).toEqual([]);
  });

  it('P9: a cancellation of a call of another session changes nothing', async () => {
    const app = await start({ clock: STILL, tools });
    const [mine, other] = [await app.client().initialize(), await app.client().initialize()];
    const posted = mine.call('waits', {}, { id: 'same' });
    await entered.promise;
    await other.notify('notifications/cancelled', { requestId: 'same' });
    await app.settled({ inFlight: 1 });
    expect(aborted()).toEqual([false]);
    hold.open('waited');
    expect(gists([await (await posted).json()])).toEqual(['waited']);
  });

  it.each(REASONS)('P9: a cancellation aborts the signals also when its reason is %s', async (_, reason) => {
    const app = await start({ clock: STILL, tools });
    const client = await app.client().initialize();
    const posted = client.call('waits', {}, { id: 'call' });
    await entered.promise;
    await (await client.post(cancelOf('call', reason))).text();
    expect(await (await posted).sse().end()).toBe('end');
    await eventually(() => expect(aborted()).toEqual([true]));
    await app.settled({ inFlight: 0, streams: 0 });
  });

  it('P9: a cancellation without a reason aborts the signals with an AbortError', async () => {
    const app = await start({ clock: STILL, tools });
    const client = await app.client().initialize();
    const posted = client.call('waits', {}, { id: 'call' });
    await entered.promise;
    await client.notify('notifications/cancelled', { requestId: 'call' });
    await (await posted).text();
    await eventually(() => expect(aborted()).toEqual([true]));
    for (const { reason } of signals) expect(reason).toMatchObject({ name: 'AbortError' });
  });

  it('P9: a cancelled id is free at once, also while the cancelled handler still runs', async () => {
    const app = await start({ clock: STILL, tools });
    const client = await app.client().initialize();
    const first = client.call('waits', {}, { id: 'call' });
    await entered.promise;
    await client.notify('notifications/cancelled', { requestId: 'call' });
    await (await first).text();
    entered = gate();
    const again = hold;
    hold = gate<string>();
    const second = client.call('waits', {}, { id: 'call' });
    await entered.promise;
    // The first handler returns: that is no answer of the second request.
    again.open('of the first');
    await (await client.call('quick')).text();
    await app.settled({ inFlight: 1 });
    hold.open('of the second');
    expect(gists([await (await second).json()])).toEqual(['of the second']);
  });

  it('P9: a cancellation of "initialize" changes nothing', async () => {
    const app = await start({ tools });
    const client = app.client();
    const response = await client.post(client.initializeMessage(LATEST));
    client.sessionId = response.header('mcp-session-id');
    expect((await response.json()).result).toBeDefined();
    await client.notify('notifications/cancelled', { requestId: 1 });
    expect(gists([await (await client.call('quick')).json()])).toEqual(['quick']);
  });

  it('P9: nothing is left of many cancelled calls', async () => {
    const app = await start({ responseMode: 'auto', tools });
    const client = await app.client().initialize();
    const calls = Array.from({ length: 60 }, (_, n) => client.call(n % 2 ? 'waits' : 'talks', {}, { id: n }));
    await app.settled({ inFlight: 60 });
    await Promise.all(calls.map((_, requestId) => client.notify('notifications/cancelled', { requestId })));
    const streams = (await Promise.all(calls)).map((response) => response.sse());
    expect(new Set(await Promise.all(streams.map((stream) => stream.end())))).toEqual(new Set(['end']));
    await eventually(() => expect(new Set(aborted())).toEqual(new Set([true])));
    await app.settled({ inFlight: 0, streams: 0, readers: 0, openResponses: 0, outbound: 0 });
  });
});

describe.each(ONE_ADAPTER)('with an SDK server: cancellation on %s', (adapter) => {
  const start = testApps(adapter, { shared: true });

  it.each([...REASONS, ['a text', 'changed my mind'] as const])(
    'P9: a cancellation aborts the signals of the SDK and of the call also when its reason is %s',
    async (_, reason) => {
      const entered = gate();
      const hold = gate();
      const signals: AbortSignal[] = [];
      const app = await start({
        clock: STILL,
        server: scripted({
          waits: async (__, ctx) => {
            signals.push(ctx.mcpReq.signal, currentMcpCall()!.signal);
            entered.open();
            await hold.promise;
            return 'too late';
          },
        }),
      });
      const client = await app.client().initialize();
      const posted = client.call('waits', {}, { id: 'call' });
      await entered.promise;
      await (await client.post(cancelOf('call', reason))).text();
      expect(await (await posted).sse().end()).toBe('end');
      await eventually(() => expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]));
      if (typeof reason === 'string') expect(signals.map((signal) => signal.reason)).toEqual([reason, reason]);
      await app.settled({ inFlight: 0, streams: 0 });
      hold.open();
    },
  );
});
