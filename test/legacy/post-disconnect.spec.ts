import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { ADAPTERS, gate, type TestTool } from '../support/app.js';
import { gists } from '../support/messages.js';
import type { RawClient } from '../support/raw-client.js';
import { recordedEvents, testApps } from '../support/test-apps.js';
import { ForsakenPost, connectionsGone } from '../support/raw-socket.js';

/** Which message each event is, by the index in its id. */
function indices(events: readonly { id: string | undefined }[]): number[] {
  return events.map(({ id }) => Number(id!.split('_')[1]));
}

describe.each(ADAPTERS)('a client that leaves, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, port: true });
  let entered: ReturnType<typeof gate<void>>;
  let next: ReturnType<typeof gate<void>>;
  let hold: ReturnType<typeof gate<void>>;
  let aborted: boolean | undefined;
  let returned: boolean;

  beforeEach(() => {
    [entered, next, hold] = [gate(), gate(), gate()];
    aborted = undefined;
    returned = false;
  });

  /** Says as much as it is told, and goes on when it is let. */
  const talks: TestTool = async ({ first, second }, ctx) => {
    if (first !== undefined) await ctx.log('info', first);
    entered.open();
    await next.promise;
    if (second !== undefined) await ctx.log('info', second);
    await hold.promise;
    aborted = ctx.signal.aborted;
    returned = true;
    return 'the answer';
  };

  /** A call whose client leaves before it has heard anything. */
  async function forsaken(client: RawClient, args: object = {}): Promise<void> {
    const posted = new ForsakenPost(client, client.toolCall('talks', args, { id: 'call', progressToken: 'p' }));
    await entered.promise;
    await posted.hangUp();
  }

  it('P4: a handler whose client leaves before an id was sent continues, and its answer is dropped', async () => {
    const clock = new ManualClock();
    const app = await start({ clock, sseAfterMs: 500, tools: { talks } });
    const client = await app.client().initialize();
    await forsaken(client);
    await connectionsGone(app);
    await app.settled({ inFlight: 1, streams: 0 });
    // Nothing becomes of the response any more, so nothing is logged for it.
    await clock.advance(10_000);
    next.open();
    hold.open();
    await app.settled({ inFlight: 0, streams: 0, loggedStreams: 0, events: 0 });
    expect([returned, aborted]).toEqual([true, false]);
    // The session does not mind, nor does the id.
    const again = await client.call('talks', {}, { id: 'call' });
    expect(gists([await again.json()])).toEqual(['the answer']);
  });

  it('P4: the messages of a handler whose client left before an id was sent are late messages', async () => {
    const app = await start({
      clock: new ManualClock(),
      tools: {
        talks: async (args, ctx, sessions) => {
          entered.open();
          await next.promise;
          await ctx.log('info', 'for whom it may concern');
          await ctx.progress(1);
          return talks(args, ctx, sessions);
        },
      },
    });
    const events = recordedEvents(app);
    const client = await app.client().initialize();
    await forsaken(client);
    await connectionsGone(app);
    next.open();
    hold.open();
    await app.settled({ inFlight: 0, events: 1 });
    expect(events.filter(({ type }) => type === 'late-message')).toMatchObject([
      { method: 'notifications/message', requestId: 'call', disposition: 'standalone' },
      { method: 'notifications/progress', requestId: 'call', disposition: 'dropped' },
    ]);
    const standalone = await (await client.listen()).count(1);
    expect(gists(standalone.messages)).toEqual(['for whom it may concern']);
    standalone.destroy();
  });

  it('P4: all calls of a batch continue whose client leaves before an id was sent', async () => {
    const app = await start({ clock: new ManualClock(), tools: { talks, quick: () => 'quick' } });
    const client = await app.client().initialize('2025-03-26');
    const posted = new ForsakenPost(client, [
      client.toolCall('quick'),
      client.toolCall('talks'),
      client.toolCall('talks'),
    ]);
    await app.settled({ inFlight: 2 });
    await posted.hangUp();
    await connectionsGone(app);
    next.open();
    hold.open();
    await app.settled({ inFlight: 0, streams: 0, loggedStreams: 0, events: 0 });
  });

  it('P4: a handler whose client leaves in json mode continues, and its answer is dropped', async () => {
    const app = await start({ responseMode: 'json', tools: { talks } });
    const client = await app.client().initialize();
    await forsaken(client, { first: 'elsewhere' });
    await connectionsGone(app);
    next.open();
    hold.open();
    await app.settled({ inFlight: 0, streams: 0 });
    expect([returned, aborted]).toEqual([true, false]);
  });

  it('P4 G8: a handler whose client leaves after an id was sent continues, and its stream keeps all messages', async () => {
    const app = await start({ clock: new ManualClock(), tools: { talks } });
    const client = await app.client().initialize();
    const stream = await (await client.call('talks', { first: 'one', second: 'two' })).sse().count(1);
    stream.destroy();
    await app.settled({ readers: 0, openResponses: 0, inFlight: 1, streams: 1 });
    next.open();
    hold.open();
    // Finished without a reader: nothing is written or read any more, and all of it is kept.
    await app.settled({ inFlight: 0, streams: 0, loggedStreams: 1, events: 3 });
    expect([returned, aborted]).toEqual([true, false]);
    const resumed = (await client.get(stream.events[0]!.id)).sse();
    expect(await resumed.end()).toBe('end');
    expect(gists(resumed.messages)).toEqual(['two', 'the answer']);
    expect(indices(resumed.events)).toEqual([2, 3]);
    await app.settled({ readers: 0, streams: 0 });
  });

  it('P4 G8: a client that has the priming event alone resumes with all messages', async () => {
    const app = await start({ clock: new ManualClock(), responseMode: 'sse', tools: { talks } });
    const client = await app.client().initialize();
    const stream = await (await client.call('talks', { second: 'two' })).sse().opened();
    stream.destroy();
    await app.settled({ readers: 0 });
    next.open();
    hold.open();
    await app.settled({ inFlight: 0 });
    const resumed = (await client.get(stream.primes[0])).sse();
    expect(await resumed.end()).toBe('end');
    expect(gists(resumed.messages)).toEqual(['two', 'the answer']);
  });

  it('G8: a client that resumes during its call gets the answer exactly once', async () => {
    const app = await start({ clock: new ManualClock(), tools: { talks } });
    const client = await app.client().initialize();
    const stream = await (await client.call('talks', { first: 'one', second: 'two' })).sse().count(1);
    stream.destroy();
    await app.settled({ readers: 0 });
    const resumed = await (await client.get(stream.events[0]!.id)).sse().opened();
    await app.settled({ readers: 1, streams: 1, inFlight: 1 });
    next.open();
    await resumed.count(1);
    hold.open();
    expect(await resumed.end()).toBe('end');
    expect(gists(resumed.messages)).toEqual(['two', 'the answer']);
    expect(indices(resumed.events)).toEqual([2, 3]);
    // Whoever has the answer finds nothing more.
    const after = await client.get(resumed.events.at(-1)!.id);
    expect(after.status).toBe(405);
    await after.text();
    await app.settled({ readers: 0, streams: 0, openResponses: 0 });
  });

  it('G8: a client that is cut again and again misses no message and gets none twice', async () => {
    const rounds = 12;
    const steps = Array.from({ length: rounds }, () => gate());
    const app = await start({
      tools: {
        counts: async (_, ctx) => {
          for (const [n, step] of steps.entries()) {
            await ctx.log('info', n);
            await step.promise;
          }
          return 'counted';
        },
      },
    });
    const client = await app.client().initialize();
    const heard: unknown[] = [];
    let stream = (await client.call('counts')).sse();
    for (const step of steps) {
      await stream.count(1);
      heard.push(...gists(stream.messages));
      const cursor = stream.events.at(-1)!.id;
      stream.destroy();
      await app.settled({ readers: 0 });
      step.open();
      stream = (await client.get(cursor)).sse();
    }
    expect(await stream.end()).toBe('end');
    heard.push(...gists(stream.messages));
    expect(heard).toEqual([...Array(rounds).keys(), 'counted']);
  });

  it('G8: a client that resumes in a session that was rebuilt meanwhile finds how its call ended', async () => {
    const app = await start({ clock: new ManualClock(), tools: { talks } });
    const client = await app.client().initialize();
    const stream = await (await client.call('talks', { first: 'one' })).sse().count(1);
    stream.destroy();
    await app.settled({ readers: 0 });
    await app.release(client.sessionId!);
    await app.settled({ live: 0, sessions: 1, inFlight: 0 });
    const resumed = (await client.get(stream.events[0]!.id)).sse();
    expect(await resumed.end()).toBe('end');
    expect(gists(resumed.messages)).toEqual(['error -32000']);
    await app.settled({ live: 1, streams: 0, readers: 0 });
    hold.open();
  });

  it('G8: a client that resumes before the server has noticed that it left gets the rest once', async () => {
    const app = await start({ clock: new ManualClock(), tools: { talks } });
    const client = await app.client().initialize();
    const stream = await (await client.call('talks', { first: 'one', second: 'two' })).sse().count(1);
    // Its old response still is the reader, until the new one takes over.
    const resumed = await (await client.get(stream.events[0]!.id)).sse().opened();
    await app.settled({ readers: 2 });
    next.open();
    await resumed.count(1);
    hold.open();
    expect(await resumed.end()).toBe('end');
    expect(await stream.end()).toBe('end');
    expect(gists(resumed.messages)).toEqual(['two', 'the answer']);
    expect(gists(stream.messages)).toEqual(['one']);
    await app.settled({ readers: 0, streams: 0, openResponses: 0 });
  });
});
