import type { Server } from '@modelcontextprotocol/server';
import { currentMcpCall } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, TestApp, type TestTool } from '../support/app.js';
import { gists, log } from '../support/messages.js';
import type { RawClient } from '../support/raw-client.js';
import { LATEST } from '../support/raw-client.js';
import { eventually, recordedEvents, testApps } from '../support/test-apps.js';
import { scripted } from '../support/scripted-server.js';

/** A call whose handler waits. */
interface Running {
  requestId: unknown;
  signals: AbortSignal[];
  server?: Server;
}

interface Ended {
  app: TestApp;
  client: RawClient;
  clock: ManualClock;
  call: Running;
}

/** What ends a call from outside, and what its client receives of it. */
interface End {
  end: (on: Ended) => unknown;
  heard: unknown[];
}

const ENDS: Record<string, End> = {
  'a cancellation': {
    end: ({ client, call }) => client.notify('notifications/cancelled', { requestId: call.requestId }),
    heard: [],
  },
  DELETE: { end: async ({ client }) => (await client.delete()).text(), heard: ['error -32000'] },
  'terminate()': { end: ({ app, client }) => app.service.terminate(client.sessionId!), heard: ['error -32000'] },
  'terminateAll()': { end: ({ app }) => app.service.terminateAll(), heard: ['error -32000'] },
  requestTimeoutMs: { end: ({ clock }) => clock.advance(30_000), heard: ['error -32001'] },
  'the release of the live copy': {
    end: ({ app, client }) => app.release(client.sessionId!),
    heard: ['error -32000'],
  },
};
const SDK_ENDS: Record<string, End> = {
  ...ENDS,
  'server.close()': { end: ({ call }) => call.server!.close(), heard: ['error -32000'] },
};

const clock = new ManualClock();
let running: Running[];
let hold: ReturnType<typeof gate<void>>;

beforeEach(() => {
  running = [];
  hold = gate();
});
const aborted = () => running.flatMap(({ signals }) => signals.map((signal) => signal.aborted));

/** A call that has sent nothing is ended. */
async function expectSilentEnd(app: TestApp, { end, heard }: End): Promise<void> {
  const client = await app.client().initialize();
  const silent = client.call('waits');
  await eventually(() => expect(running).toHaveLength(1));
  expect(new Set(aborted())).toEqual(new Set([false]));
  await end({ app, client, clock, call: running[0]! });
  const response = await silent;
  if (heard.length > 0) expect(gists([await response.json()])).toEqual(heard);
  else expect(await response.text()).toBe('');
  await expectNothingRuns(app);
}

/** A call whose response is a stream is ended. */
async function expectStreamEnd(app: TestApp, { end, heard }: End): Promise<void> {
  const client = await app.client().initialize();
  const stream = await (await client.call('waits', { first: 'a word' })).sse().count(1);
  await eventually(() => expect(running).toHaveLength(1));
  await end({ app, client, clock, call: running[0]! });
  expect(await stream.end()).toBe('end');
  expect(gists(stream.messages)).toEqual(['a word', ...heard]);
  await expectNothingRuns(app);
}

async function expectNothingRuns(app: TestApp): Promise<void> {
  await eventually(() => expect(new Set(aborted())).toEqual(new Set([true])));
  await app.settled({ inFlight: 0, streams: 0, readers: 0, outbound: 0, openResponses: 0 });
  hold.open();
}

describe.each(ONE_ADAPTER)('the signal of a handler on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, requestTimeoutMs: 30_000 });
  const waits: TestTool = async ({ first }, ctx) => {
    if (first !== undefined) await ctx.log('info', first);
    running.push({ requestId: ctx.requestId, signals: [ctx.signal] });
    await hold.promise;
    return 'too late';
  };
  const tools = { waits };

  it.each(Object.entries(ENDS))('P9 S12: %s aborts the signal of a handler that has sent nothing', async (_, end) =>
    expectSilentEnd(await start({ clock, tools }), end),
  );

  it.each(Object.entries(ENDS))(
    'P9 S12: %s aborts the signal of a handler whose response is a stream',
    async (_, end) => expectStreamEnd(await start({ clock, tools }), end),
  );

  it('S15: a shutdown aborts the signals of all handlers, and every call is answered', async () => {
    const app = await TestApp.start({ adapter, clock, tools });
    const client = await app.client().initialize();
    const silent = client.call('waits');
    const stream = await (await client.call('waits', { first: 'a word' })).sse().count(1);
    await eventually(() => expect(running).toHaveLength(2));
    await app.shutDown();
    expect(gists([await (await silent).json()])).toEqual(['error -32000']);
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['a word', 'error -32000']);
    expect(aborted()).toEqual([true, true]);
    await app.settled({ live: 0, sessions: 0, inFlight: 0, streams: 0, openResponses: 0, logs: 0, timers: 0 });
    hold.open();
  });

  it('P9: a signal that is first read when the call is over is aborted', async () => {
    const app = await start({
      clock,
      tools: {
        looks: async (_, ctx) => {
          running.push({ requestId: ctx.requestId, signals: [] });
          await hold.promise;
          late.open([ctx.signal.aborted, ctx.signal.reason]);
          return 'too late';
        },
      },
    });
    const late = gate<unknown[]>();
    const client = await app.client().initialize();
    const posted = client.call('looks', {}, { id: 'call' });
    await eventually(() => expect(running).toHaveLength(1));
    await client.notify('notifications/cancelled', { requestId: 'call', reason: 'enough' });
    await (await posted).text();
    hold.open();
    expect(await late.promise).toEqual([true, 'enough']);
  });

  it('P9: the signal of a call that was answered never aborts', async () => {
    const app = await start({ clock, tools });
    const client = await app.client().initialize();
    hold.open();
    expect(gists([await (await client.call('waits', {}, { id: 'call' })).json()])).toEqual(['too late']);
    await client.notify('notifications/cancelled', { requestId: 'call' });
    await clock.advance(60_000);
    await (await client.delete()).text();
    await app.settled({ live: 0 });
    expect(aborted()).toEqual([false]);
  });

  it('P4: the signal of a call whose client leaves does not abort', async () => {
    const app = await start({ clock, tools });
    const client = await app.client().initialize();
    const stream = await (await client.call('waits', { first: 'a word' })).sse().count(1);
    stream.destroy();
    await app.settled({ readers: 0 });
    expect(aborted()).toEqual([false]);
    hold.open();
    await app.settled({ inFlight: 0 });
  });

  it('P9: a cancellation of one call leaves the signals of others alone', async () => {
    const app = await start({ clock, tools });
    const client = await app.client().initialize();
    const calls = [0, 1, 2].map((id) => client.call('waits', {}, { id }));
    await eventually(() => expect(running).toHaveLength(3));
    const one = running.find(({ requestId }) => requestId === 1)!;
    await client.notify('notifications/cancelled', { requestId: 1 });
    await (await calls[1])!.text();
    await eventually(() => expect(aborted().filter(Boolean)).toHaveLength(1));
    expect(one.signals[0]!.aborted).toBe(true);
    hold.open();
    for (const call of [calls[0]!, calls[2]!]) expect(gists([await (await call).json()])).toEqual(['too late']);
  });

  it('S12: a handler that sends, asks and terminates when its signal aborts changes nothing of the end', async () => {
    const outcomes: string[] = [];
    const app = await start({
      clock,
      tools: {
        'makes a scene': async (_, ctx, sessions) => {
          await ctx.log('info', 'a word');
          const note = (name: string) => (asked: Promise<unknown>) =>
            void asked.then(
              () => outcomes.push(`${name} ok`),
              (error) => outcomes.push(`${name} ${error.code ?? error.message}`),
            );
          ctx.signal.addEventListener('abort', () => {
            note('notify')(ctx.log('info', 'last words'));
            note('ask')(ctx.roots('roots'));
            note('terminate')(sessions.terminate(ctx.session!.id));
          });
          running.push({ requestId: ctx.requestId, signals: [ctx.signal] });
          await hold.promise;
          return 'too late';
        },
      },
    });
    const recorded = recordedEvents(app);
    const client = await app.client().initialize(LATEST, { roots: {} });
    const stream = await (await client.call('makes a scene')).sse().count(1);
    await (await client.delete()).text();
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['a word', 'error -32000']);
    await eventually(() => expect(outcomes).toHaveLength(3));
    expect(outcomes.toSorted()).toEqual(['ask SESSION_OVER', 'notify ok', 'terminate ok']);
    await app.settled({ live: 0, sessions: 0, inFlight: 0, streams: 0, logs: 0, timers: 0 });
    expect(recorded.filter(({ type }) => type === 'closed')).toEqual([
      { type: 'closed', sessionId: client.sessionId, reason: 'deleted' },
    ]);
    hold.open();
  });
});

describe.each(ONE_ADAPTER)('with an SDK server: the signals of a handler on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, requestTimeoutMs: 30_000 });
  const server = scripted({
    waits: async ({ first }, ctx, here) => {
      if (first !== undefined) await ctx.mcpReq.notify(log(first));
      const signals = [ctx.mcpReq.signal, currentMcpCall()!.signal];
      running.push({ requestId: ctx.mcpReq.id, signals, server: here.server });
      await hold.promise;
      return 'too late';
    },
  });

  it.each(Object.entries(SDK_ENDS))(
    'P9 S12: %s aborts both signals of a handler that has sent nothing',
    async (_, end) => expectSilentEnd(await start({ clock, server }), end),
  );

  it.each(Object.entries(SDK_ENDS))(
    'P9 S12: %s aborts both signals of a handler whose response is a stream',
    async (_, end) => expectStreamEnd(await start({ clock, server }), end),
  );

  it('S12: a handler that sends, asks and closes its server when its signal aborts changes nothing of the end', async () => {
    const outcomes: string[] = [];
    let closes = 0;
    const app: TestApp = await start({
      clock,
      server: scripted({
        'makes a scene': async (_, ctx, { server: its }) => {
          await ctx.mcpReq.notify(log('a word'));
          const call = currentMcpCall()!;
          const note = (name: string) => (asked: Promise<unknown>) =>
            void asked.then(
              () => outcomes.push(`${name} ok`),
              (error) => outcomes.push(`${name} ${error.code ?? error.message}`),
            );
          call.signal.addEventListener('abort', () => {
            note('notify')(its.sendLoggingMessage({ level: 'info', data: 'last words' }));
            note('ask')(ctx.mcpReq.send({ method: 'ping' }));
            note('close')(its.close());
            note('terminate')(app.service.terminate(call.session!.id));
          });
          its.onclose = () => closes++;
          running.push({ requestId: ctx.mcpReq.id, signals: [] });
          await hold.promise;
          return 'too late';
        },
      }),
    });
    const recorded = recordedEvents(app);
    const client = await app.client().initialize();
    const stream = await (await client.call('makes a scene')).sse().count(1);
    await (await client.delete()).text();
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['a word', 'error -32000']);
    await eventually(() => expect(outcomes).toHaveLength(4));
    expect(outcomes.toSorted()).toEqual(['ask CONNECTION_CLOSED', 'close ok', 'notify ok', 'terminate ok']);
    expect(closes).toBe(1);
    await app.settled({ live: 0, sessions: 0, inFlight: 0, streams: 0, logs: 0, timers: 0 });
    expect(recorded.filter(({ type }) => type === 'closed')).toEqual([
      { type: 'closed', sessionId: client.sessionId, reason: 'deleted' },
    ]);
    hold.open();
  });
});
