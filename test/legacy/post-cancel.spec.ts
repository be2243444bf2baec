import { scripted, type ScriptedTool } from '../support/scripted-server.js';
import { currentMcpCall } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { ADAPTERS, gate } from '../support/app.js';
import { cancelOf, gists, log } from '../support/messages.js';
import { LATEST } from '../support/raw-client.js';
import { eventually, recordedEvents, runningApps } from '../support/running-apps.js';

describe.each(ADAPTERS)('cancellation on %s', (adapter) => {
  const start = runningApps(adapter, { sseAfterMs: 60_000 });
  let entered: ReturnType<typeof gate<void>>;
  let hold: ReturnType<typeof gate<string>>;
  /** The two signals that a handler has: of the SDK, and of the call. */
  let signals: AbortSignal[];

  beforeEach(() => {
    entered = gate();
    hold = gate<string>();
    signals = [];
  });

  const waits: ScriptedTool = (_, ctx) => {
    signals.push(ctx.mcpReq.signal, currentMcpCall()!.signal);
    entered.open();
    return hold.promise;
  };
  /** Says a word, so that the response is SSE, then waits. */
  const talks: ScriptedTool = async (args, ctx, here) => {
    await ctx.mcpReq.notify(log('a word'));
    return waits(args, ctx, here);
  };
  const tools = { waits, talks, quick: () => 'quick' };
  const aborted = () => signals.map((signal) => signal.aborted);

  it('P9: before the head: SSE head and end, no id, and the handler is told', async () => {
    const app = await start({ clock: new ManualClock(), server: scripted(tools) });
    const events = recordedEvents(app);
    const client = await app.client().initialize();
    const posted = client.call('waits', {}, { id: 'call' });
    await entered.promise;
    expect(aborted()).toEqual([false, false]);
    await client.notify('notifications/cancelled', { requestId: 'call', reason: 'changed my mind' });
    const response = await posted;
    expect(response.status).toBe(200);
    expect(response.header('content-type')).toMatch('text/event-stream');
    const stream = response.sse();
    expect(await stream.end()).toBe('end');
    expect(stream.body).toBe('');
    await eventually(() => expect(aborted()).toEqual([true, true]));
    expect(signals.map(({ reason }) => reason)).toEqual(['changed my mind', 'changed my mind']);
    await app.settled({ inFlight: 0, streams: 0, readers: 0, openResponses: 0, loggedStreams: 0, events: 0 });
    // What the handler says in the end, nobody hears; the SDK does not even try.
    hold.open('too late');
    expect(gists([await (await client.call('quick')).json()])).toEqual(['quick']);
    expect(events.filter(({ type }) => type === 'late-message')).toEqual([]);
  });

  it('P9: after the head: the stream ends without an answer, and is finished', async () => {
    const app = await start({ clock: new ManualClock(), server: scripted(tools) });
    const client = await app.client().initialize();
    const stream = (await client.call('talks', {}, { id: 'call' })).sse();
    await stream.count(1);
    await entered.promise;
    await client.notify('notifications/cancelled', { requestId: 'call' });
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['a word']);
    await eventually(() => expect(aborted()).toEqual([true, true]));
    await app.settled({ inFlight: 0, streams: 0, readers: 0, openResponses: 0 });
    // Nothing to come back for.
    const again = await client.get(stream.events[0]!.id);
    expect(again.status).toBe(405);
    await again.text();
    hold.open('too late');
  });

  it('P9: in sse mode, before anything was said', async () => {
    const app = await start({ clock: new ManualClock(), responseMode: 'sse', server: scripted(tools) });
    const client = await app.client().initialize();
    const stream = await (await client.call('waits', {}, { id: 'call' })).sse().opened();
    await entered.promise;
    await client.notify('notifications/cancelled', { requestId: 'call' });
    expect(await stream.end()).toBe('end');
    expect(stream.primes).toHaveLength(1);
    expect(stream.events).toEqual([]);
    await app.settled({ inFlight: 0, streams: 0, readers: 0, openResponses: 0, events: 0 });
  });

  it('P9: in one batch with its request, in sse mode', async () => {
    const app = await start({ clock: new ManualClock(), responseMode: 'sse', server: scripted(tools) });
    const client = await app.client().initialize('2025-03-26');
    const stream = (await client.post([client.toolCall('waits', {}, { id: 'call' }), cancelOf('call')])).sse();
    expect(await stream.end()).toBe('end');
    expect(stream.events).toEqual([]);
    await app.settled({ inFlight: 0, streams: 0, readers: 0, openResponses: 0 });
  });

  it('P9: of a call whose client has left, and comes back for the rest', async () => {
    const app = await start({ clock: new ManualClock(), server: scripted(tools) });
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

  it('P9: of ids that are unknown, answered, or cancelled already changes nothing', async () => {
    const app = await start({ clock: new ManualClock(), server: scripted(tools) });
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
    expect(aborted()).toEqual([false, false]);
    await app.settled({ inFlight: 1 });
    hold.open('waited');
    expect(gists([await (await posted).json()])).toEqual(['waited']);
    expect(events.filter(({ type }) => type !== 'created')).toEqual([]);
  });

  it('P9: of a call of another session changes nothing', async () => {
    const app = await start({ clock: new ManualClock(), server: scripted(tools) });
    const [mine, other] = [await app.client().initialize(), await app.client().initialize()];
    const posted = mine.call('waits', {}, { id: 'same' });
    await entered.promise;
    await other.notify('notifications/cancelled', { requestId: 'same' });
    await app.settled({ inFlight: 1 });
    expect(aborted()).toEqual([false, false]);
    hold.open('waited');
    expect(gists([await (await posted).json()])).toEqual(['waited']);
  });

  it.each([
    ['a number', 17],
    ['an object', { because: 'so' }],
    ['null', null],
    ['something without a text', { toString: 1 }],
  ])('P9: reaches the handler also when its reason is %s', async (_, reason) => {
    const app = await start({ clock: new ManualClock(), server: scripted(tools) });
    const client = await app.client().initialize();
    const posted = client.call('waits', {}, { id: 'call' });
    await entered.promise;
    await (await client.post(cancelOf('call', reason))).text();
    expect(await (await posted).sse().end()).toBe('end');
    await eventually(() => expect(aborted()).toEqual([true, true]));
    await app.settled({ inFlight: 0, streams: 0 });
  });

  it('P9: gives a handler without a reason the usual error', async () => {
    const app = await start({ clock: new ManualClock(), server: scripted(tools) });
    const client = await app.client().initialize();
    const posted = client.call('waits', {}, { id: 'call' });
    await entered.promise;
    await client.notify('notifications/cancelled', { requestId: 'call' });
    await (await posted).text();
    await eventually(() => expect(aborted()).toEqual([true, true]));
    for (const { reason } of signals) expect(reason).toMatchObject({ name: 'AbortError' });
  });

  it('P9: frees the id at once, also while the cancelled handler still runs', async () => {
    const app = await start({ clock: new ManualClock(), server: scripted(tools) });
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

  it('P9: of "initialize" is not possible', async () => {
    const app = await start({ server: scripted(tools) });
    const client = app.client();
    const response = await client.post(client.initializeMessage(LATEST));
    client.sessionId = response.header('mcp-session-id');
    expect((await response.json()).result).toBeDefined();
    await client.notify('notifications/cancelled', { requestId: 1 });
    expect(gists([await (await client.call('quick')).json()])).toEqual(['quick']);
  });

  it('P9: leaves nothing of many calls', async () => {
    const app = await start({ responseMode: 'auto', sseAfterMs: 60_000, server: scripted(tools) });
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
