import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestTool } from '../support/app.js';
import type { RawResponse } from '../support/http.js';
import { gists } from '../support/messages.js';
import { testApps } from '../support/test-apps.js';

function isJson(response: RawResponse): boolean {
  return /^application\/json\b/.test(response.header('content-type') ?? '');
}
function isSse(response: RawResponse): boolean {
  return /^text\/event-stream\b/.test(response.header('content-type') ?? '');
}

const quick: TestTool = () => 'quick';
const talks: TestTool = async (_, ctx) => {
  await ctx.log('info', 'one');
  await ctx.log('info', 'two');
  return 'said';
};

/** A tool that waits until the test lets it go, and the moment at which it was called. */
function waiting(): { waits: TestTool; called: Promise<void>; release: (text: string) => void } {
  const entered = gate();
  const hold = gate<string>();
  const waits: TestTool = () => {
    entered.open();
    return hold.promise;
  };
  return { waits, called: entered.promise, release: hold.open };
}

/** One for all tests: apps on one clock are shared. */
const clock = new ManualClock();

describe.each(ONE_ADAPTER)('the form of an answer on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, sseAfterMs: 500 });

  it('P3: in auto mode a call that sends nothing first is answered with JSON, past the log', async () => {
    const app = await start({ clock, tools: { quick } });
    const client = await app.client().initialize();
    const response = await client.call('quick');
    expect(response.status).toBe(200);
    expect(isJson(response)).toBe(true);
    expect(response.header('mcp-session-id')).toBeUndefined();
    expect(gists([await response.json()])).toEqual(['quick']);
    await app.settled({ inFlight: 0, streams: 0, readers: 0, loggedStreams: 0, events: 0 });
  });

  it('P3: in auto mode the first message that is no answer begins a stream at once', async () => {
    const { waits, called, release } = waiting();
    const app = await start({
      clock,
      tools: {
        'talks and waits': async (args, ctx, sessions) => {
          await ctx.log('info', 'a word');
          return waits(args, ctx, sessions);
        },
      },
    });
    const client = await app.client().initialize();
    const response = await client.call('talks and waits');
    expect(response.status).toBe(200);
    expect(isSse(response)).toBe(true);
    const stream = await response.sse().count(1);
    expect(stream.primes).toHaveLength(1);
    await called;
    await app.settled({ inFlight: 1, streams: 1, readers: 1, loggedStreams: 1, openResponses: 1 });
    release('done');
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['a word', 'done']);
    await app.settled({ inFlight: 0, streams: 0, readers: 0, openResponses: 0 });
  });

  it('P3: in auto mode a stream begins at sseAfterMs, not before, and its head is sent at once', async () => {
    const { waits, called, release } = waiting();
    const app = await start({ clock, tools: { quick, waits } });
    const client = await app.client().initialize();
    let answered = false;
    const posted = client.call('waits').finally(() => (answered = true));
    await called;
    await clock.advance(499);
    // A whole exchange later there is still no answer.
    await (await client.call('quick')).text();
    expect(answered).toBe(false);
    expect((await app.service.counts()).streams).toBe(0);
    await clock.advance(1);
    const response = await posted;
    expect(isSse(response)).toBe(true);
    const stream = await response.sse().opened();
    expect(stream.primes).toHaveLength(1);
    expect(stream.events).toEqual([]);
    release('at last');
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['at last']);
    expect(stream.events[0]!.id).toBe(stream.primes[0]!.replace(/_0$/, '_1'));
  });

  it('P3: in auto mode a quick answer leaves no timer behind', async () => {
    const app = await start({ clock, tools: { quick } });
    const client = await app.client().initialize();
    await app.settled({ openResponses: 0, inFlight: 0 });
    const before = clock.pending;
    for (let i = 0; i < 5; i++) await (await client.call('quick')).text();
    expect(clock.pending).toBe(before);
  });

  it('P3: in sse mode every request is answered with a stream, however quick', async () => {
    const app = await start({ responseMode: 'sse', tools: { quick, talks } });
    const client = await app.client().initialize();
    for (const [tool, said] of [
      ['quick', ['quick']],
      ['talks', ['one', 'two', 'said']],
    ] as const) {
      const response = await client.call(tool);
      expect(isSse(response)).toBe(true);
      const stream = response.sse();
      expect(await stream.end()).toBe('end');
      expect(stream.primes).toHaveLength(1);
      expect(gists(stream.messages)).toEqual(said);
    }
    await app.settled({ inFlight: 0, streams: 0, readers: 0, loggedStreams: 2, events: 4 });
  });

  it('P3: in json mode a call is answered with JSON however long it takes', async () => {
    const { waits, called, release } = waiting();
    const app = await start({ clock, responseMode: 'json', tools: { waits } });
    const client = await app.client().initialize();
    const posted = client.call('waits');
    await called;
    await clock.advance(600_000);
    release('at last');
    const response = await posted;
    expect(isJson(response)).toBe(true);
    expect(gists([await response.json()])).toEqual(['at last']);
    await app.settled({ inFlight: 0, streams: 0, loggedStreams: 0, events: 0 });
  });

  it('P3: in json mode the messages of a handler go to the standalone stream', async () => {
    const app = await start({
      responseMode: 'json',
      tools: {
        talks,
        progresses: async (_, ctx) => {
          await ctx.progress(1);
          return 'done';
        },
      },
    });
    const client = await app.client().initialize();
    const standalone = await client.listen();
    const response = await client.call('talks');
    expect(isJson(response)).toBe(true);
    expect(gists([await response.json()])).toEqual(['said']);
    const progressing = await client.call('progresses', {}, { progressToken: 'p' });
    expect(gists([await progressing.json()])).toEqual(['done']);
    await standalone.count(3);
    expect(gists(standalone.messages)).toEqual(['one', 'two', 'progress 1']);
    expect(standalone.events.map(({ id }) => id)).toEqual(['0_1', '0_2', '0_3']);
    expect(standalone.messages[2].params.progressToken).toBe('p');
    standalone.destroy();
  });

  it('P3: in json mode a request of a handler to its client fails, typed, and is not sent', async () => {
    const app = await start({
      responseMode: 'json',
      tools: {
        asks: (_, ctx, sessions) =>
          sessions.request(ctx.session!.id, { method: 'ping' }).then(
            () => 'answered',
            (error) => `${error.name} ${error.code}`,
          ),
      },
    });
    const client = await app.client().initialize();
    // Also while the standalone stream has a reader: it is not where this question belongs.
    const standalone = await client.listen();
    const response = await client.call('asks');
    expect(gists([await response.json()])).toEqual(['McpServerRequestError NO_STREAM']);
    expect(standalone.events).toEqual([]);
    await app.settled({ outbound: 0, events: 0 });
    standalone.destroy();
  });

  it('P3: in json mode a cancelled call is answered with the head of a stream and its end', async () => {
    const { waits, called } = waiting();
    const app = await start({ responseMode: 'json', tools: { waits } });
    const client = await app.client().initialize();
    const posted = client.call('waits', {}, { id: 'call' });
    await called;
    await client.notify('notifications/cancelled', { requestId: 'call' });
    const stream = (await posted).sse();
    expect(await stream.end()).toBe('end');
    expect(stream.body).toBe('');
    await app.settled({ inFlight: 0, streams: 0, loggedStreams: 0 });
  });
});
