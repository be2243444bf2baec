import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestApp, type TestTool } from '../support/app.js';
import { gists, log } from '../support/messages.js';
import { testApps } from '../support/test-apps.js';
import { scripted } from '../support/scripted-server.js';

/** Stands still: nothing ends by time. */
const STILL = new ManualClock();

const WITH_PRIMING = '2025-11-25';
const OLDER = ['2025-03-26', '2025-06-18'];

let next: ReturnType<typeof gate<void>>;
let hold: ReturnType<typeof gate<void>>;
/** What the tools found when they closed the connection of their request. */
let closed: unknown[];

beforeEach(() => {
  [next, hold] = [gate(), gate()];
  closed = [];
});

/** The tool `closes` closes its connection before its first message. */
async function expectHeadForced(app: TestApp): Promise<void> {
  const client = await app.client().initialize(WITH_PRIMING);
  const posted = (await client.call('closes')).sse();
  expect(await posted.end()).toBe('end');
  expect(posted.primes).toHaveLength(1);
  expect(posted.events).toEqual([]);
  await app.settled({ inFlight: 1, streams: 1, readers: 0, openResponses: 0 });
  const resumed = await (await client.get(posted.primes[0])).sse().opened();
  expect(resumed.primes).toEqual(posted.primes);
  next.open();
  await resumed.count(1);
  hold.open();
  expect(await resumed.end()).toBe('end');
  expect(gists(resumed.messages)).toEqual(['two', 'said']);
  await app.settled({ inFlight: 0, streams: 0, readers: 0 });
}

/** The tool `closes` closes its connection after its first message. */
async function expectEachOnce(app: TestApp): Promise<void> {
  const client = await app.client().initialize(WITH_PRIMING);
  const posted = (await client.call('closes', { first: true })).sse();
  expect(await posted.end()).toBe('end');
  // The word may go with the first response or with the next, and with one of them only.
  const cursor = [...posted.primes, ...posted.events.map(({ id }) => id!)].at(-1)!;
  next.open();
  hold.open();
  const resumed = (await client.get(cursor)).sse();
  expect(await resumed.end()).toBe('end');
  expect(gists([...posted.messages, ...resumed.messages])).toEqual(['one', 'two', 'said']);
}

/** The tool `closes` cannot close its connection. */
async function expectStaysOpen(app: TestApp, revision: string): Promise<void> {
  const client = await app.client().initialize(revision);
  next.open();
  hold.open();
  const stream = (await client.call('closes', { first: true })).sse();
  expect(await stream.end()).toBe('end');
  expect(gists(stream.messages)).toEqual(['one', 'two', 'said']);
}

describe.each(ONE_ADAPTER)('cursors and closed connections on %s', (adapter) => {
  const start = testApps(adapter, { shared: true });
  const talks: TestTool = async (_, ctx) => {
    await ctx.log('info', 'one');
    await next.promise;
    await ctx.log('info', 'two');
    await hold.promise;
    return 'said';
  };
  /** Closes the connection of its request, before its first message or after it. */
  const closes: TestTool = async ({ first }, ctx) => {
    if (first) await ctx.log('info', 'one');
    closed.push(ctx.closeStream());
    await next.promise;
    await ctx.log('info', 'two');
    await hold.promise;
    return 'said';
  };
  const tools = { talks, closes };

  it('G9: every response with ids begins with the cursor it continues from, the time to wait, and no data', async () => {
    const app = await start({ clock: STILL, retryMs: 1_234, tools });
    const client = await app.client().initialize(WITH_PRIMING);
    const posted = await (await client.call('talks')).sse().count(1);
    const stream = posted.events[0]!.id!.slice(0, -2);
    expect(posted.body).toMatch(new RegExp(`^id: ${stream}_0\\nretry: 1234\\ndata:\\n\\nevent: message\\n`));
    posted.destroy();
    await app.settled({ readers: 0 });
    const resumed = await (await client.get(`${stream}_1`)).sse().opened();
    expect(resumed.body).toBe(`id: ${stream}_1\nretry: 1234\ndata:\n\n`);
    const standalone = await client.listen();
    expect(standalone.body).toBe('id: 0_0\nretry: 1234\ndata:\n\n');
    next.open();
    hold.open();
    expect(await resumed.end()).toBe('end');
    // It is not logged and consumes no index.
    expect(resumed.events.map(({ id }) => id)).toEqual([`${stream}_2`, `${stream}_3`]);
    expect((await app.service.counts()).events).toBe(3);
    standalone.destroy();
  });

  it('G9: the priming event asks clients to wait three seconds by default', async () => {
    const app = await start();
    const client = await app.client().initialize(WITH_PRIMING);
    const standalone = await client.listen();
    expect(standalone.retryMs).toBe(3_000);
    standalone.destroy();
  });

  it('G9: a client that is cut twice with nothing in between still has its cursor', async () => {
    const app = await start({ clock: STILL, responseMode: 'sse', tools });
    const client = await app.client().initialize(WITH_PRIMING);
    let stream = await (await client.call('talks')).sse().count(1);
    for (let cut = 0; cut < 3; cut++) {
      const cursor = [...stream.primes, ...stream.events.map(({ id }) => id!)].at(-1)!;
      stream.destroy();
      await app.settled({ readers: 0 });
      stream = await (await client.get(cursor)).sse().opened();
      expect(stream.primes).toEqual([cursor]);
    }
    next.open();
    hold.open();
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['two', 'said']);
  });

  it('G9: a handler that closes its connection before its first message forces the head', async () => {
    const app = await start({ clock: STILL, tools });
    await expectHeadForced(app);
    expect(closed).toEqual([true]);
  });

  it('G9: a client whose handler closed the connection after a message gets each message once', async () => {
    const app = await start({ clock: STILL, tools });
    await expectEachOnce(app);
  });

  it('G9: a handler can close the connection as often as the client comes back', async () => {
    const rounds = 5;
    const again = Array.from({ length: rounds }, () => gate());
    const app = await start({
      clock: STILL,
      tools: {
        closes: async (_, ctx) => {
          for (const round of again) {
            closed.push(ctx.closeStream());
            await round.promise;
          }
          return 'said';
        },
      },
    });
    const client = await app.client().initialize(WITH_PRIMING);
    let stream = (await client.call('closes')).sse();
    for (const round of again) {
      expect(await stream.end()).toBe('end');
      // Of a response on another node the last frame says once more where its client is (G7).
      for (const prime of stream.primes) expect(prime).toMatch(/_0$/);
      const cursor = stream.primes[0]!;
      await app.settled({ readers: 0 });
      const response = client.get(cursor);
      stream = await (await response).sse().opened();
      await app.settled({ readers: 1 });
      round.open();
    }
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['said']);
    expect(closed).toEqual(Array(rounds).fill(true));
  });

  it('G9: an answer right after the connection was closed reaches its client once', async () => {
    const app = await start({
      clock: STILL,
      tools: {
        closes: (_, ctx) => {
          ctx.closeStream();
          return 'at once';
        },
      },
    });
    const client = await app.client().initialize(WITH_PRIMING);
    const posted = (await client.call('closes')).sse();
    expect(await posted.end()).toBe('end');
    await app.settled({ inFlight: 0, streams: 0, readers: 0 });
    const said = [...posted.messages];
    if (said.length === 0) {
      const resumed = (await client.get(posted.primes[0])).sse();
      expect(await resumed.end()).toBe('end');
      said.push(...resumed.messages);
    }
    expect(gists(said)).toEqual(['at once']);
  });

  it('G9: closing the connection ends all responses of the stream', async () => {
    const app = await start({
      clock: STILL,
      tools: {
        closes: async (_, ctx) => {
          await ctx.log('info', 'one');
          await next.promise;
          closed.push(ctx.closeStream());
          await hold.promise;
          return 'said';
        },
      },
    });
    const client = await app.client().initialize(WITH_PRIMING);
    const posted = await (await client.call('closes')).sse().count(1);
    const other = await (await client.get(posted.primes[0])).sse().count(1);
    next.open();
    expect([await posted.end(), await other.end()]).toEqual(['end', 'end']);
    await app.settled({ readers: 0, streams: 1, inFlight: 1 });
    hold.open();
    const resumed = (await client.get(posted.events[0]!.id)).sse();
    expect(await resumed.end()).toBe('end');
    expect(gists(resumed.messages)).toEqual(['said']);
  });

  it('G9: a handler cannot close the connection after its answer, nor in json mode', async () => {
    const late = gate<boolean>();
    const app = await start({
      responseMode: 'json',
      tools: {
        closes: (_, ctx) => {
          closed.push(ctx.closeStream());
          void next.promise.then(() => late.open(ctx.closeStream()));
          return 'said';
        },
      },
    });
    const client = await app.client().initialize(WITH_PRIMING);
    const response = await client.call('closes');
    expect(gists([await response.json()])).toEqual(['said']);
    next.open();
    expect([...closed, await late.promise]).toEqual([false, false]);
    await app.settled({ streams: 0, loggedStreams: 0 });
  });

  it.each(OLDER)('G10: a stream of revision %s has ids, but no priming event', async (revision) => {
    const app = await start({ clock: STILL, tools });
    const client = await app.client().initialize(revision);
    const standalone = await client.listen();
    // A comment, so that the head does not wait for the first message.
    expect(standalone.body).toBe(':\n\n');
    const posted = await (await client.call('talks')).sse().count(1);
    expect(posted.primes).toEqual([]);
    expect(posted.retryMs).toBeUndefined();
    expect(posted.events[0]!.id).toMatch(/^[A-Za-z0-9]{22}_1$/);
    posted.destroy();
    await app.settled({ readers: 1 });
    const resumed = await (await client.get(posted.events[0]!.id)).sse().opened();
    expect(resumed.body).toBe(':\n\n');
    next.open();
    hold.open();
    expect(await resumed.end()).toBe('end');
    expect(gists(resumed.messages)).toEqual(['two', 'said']);
    standalone.destroy();
  });

  it.each(OLDER)('G10: a handler cannot close the connection of a client of revision %s', async (revision) => {
    const app = await start({ clock: STILL, tools });
    await expectStaysOpen(app, revision);
    expect(closed).toEqual([false]);
  });
});

describe.each(ONE_ADAPTER)('with an SDK server: closed connections on %s', (adapter) => {
  const start = testApps(adapter, { shared: true });
  const server = scripted({
    closes: async ({ first }, ctx) => {
      if (first) await ctx.mcpReq.notify(log('one'));
      closed.push(typeof ctx.http?.closeSSE);
      ctx.http?.closeSSE?.();
      await next.promise;
      await ctx.mcpReq.notify(log('two'));
      await hold.promise;
      return 'said';
    },
  });

  it('G9: a handler that closes its connection before its first message forces the head', async () => {
    const app = await start({ clock: STILL, server });
    await expectHeadForced(app);
    expect(closed).toEqual(['function']);
  });

  it('G9: a client whose handler closed the connection after a message gets each message once', async () => {
    const app = await start({ clock: STILL, server });
    await expectEachOnce(app);
  });

  it('G9: a handler can close the standalone connection, and nothing more', async () => {
    const app = await start({
      clock: STILL,
      server: scripted({
        closes: (_, ctx) => {
          ctx.http!.closeStandaloneSSE!();
          return 'said';
        },
      }),
    });
    const client = await app.client().initialize(WITH_PRIMING);
    const standalone = await client.listen();
    expect(gists([await (await client.call('closes')).json()])).toEqual(['said']);
    expect(await standalone.end()).toBe('end');
    await app.settled({ readers: 0, streams: 0 });
    // Where nobody listens there is nothing to close, and nothing is begun.
    expect(gists([await (await client.call('closes')).json()])).toEqual(['said']);
    await app.settled({ readers: 0, streams: 0 });
    const again = await client.listen(standalone.primes[0]);
    await app.service.notify(client.sessionId!, log('still there'));
    await again.count(1);
    again.destroy();
  });

  it.each(OLDER)('G10: a handler cannot close the connection of a client of revision %s', async (revision) => {
    const app = await start({ clock: STILL, server });
    await expectStaysOpen(app, revision);
    expect(closed).toEqual(['undefined']);
  });
});
