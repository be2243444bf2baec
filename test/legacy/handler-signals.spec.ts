import { scripted, type ScriptedTool } from '../support/scripted-server.js';
import { currentMcpCall, type McpCall } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import type { Server, ServerContext } from '@modelcontextprotocol/server';
import { beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, TestApp } from '../support/app.js';
import { gists, log } from '../support/messages.js';
import type { RawClient } from '../support/raw-client.js';
import { eventually, recordedEvents, runningApps } from '../support/running-apps.js';

interface Running {
  ctx: ServerContext;
  call: McpCall;
  server: Server;
}

/** What ends a call from outside, and what its client hears of it. */
const ENDS: Record<
  string,
  { end: (on: { app: TestApp; client: RawClient; clock: ManualClock } & Running) => unknown; heard: unknown[] }
> = {
  'a cancellation': {
    end: ({ client, ctx }) => client.notify('notifications/cancelled', { requestId: ctx.mcpReq.id }),
    heard: [],
  },
  DELETE: { end: async ({ client }) => (await client.delete()).text(), heard: ['error -32000'] },
  'terminate()': { end: ({ app, client }) => app.service.terminate(client.sessionId!), heard: ['error -32000'] },
  'terminateAll()': { end: ({ app }) => app.service.terminateAll(), heard: ['error -32000'] },
  'server.close()': { end: ({ server }) => server.close(), heard: ['error -32000'] },
  requestTimeoutMs: { end: ({ clock }) => clock.advance(30_000), heard: ['error -32001'] },
  'giving up the live copy': {
    end: ({ app, client }) => app.release(client.sessionId!),
    heard: ['error -32000'],
  },
};

describe.each(ONE_ADAPTER)('the signals of a handler on %s', (adapter) => {
  const start = runningApps(adapter, { sseAfterMs: 60_000, requestTimeoutMs: 30_000 });
  let clock: ManualClock;
  let running: Running[];
  let hold: ReturnType<typeof gate<void>>;

  beforeEach(() => {
    clock = new ManualClock();
    running = [];
    hold = gate();
  });

  const waits: ScriptedTool = async ({ first }, ctx, { server }) => {
    if (first !== undefined) await ctx.mcpReq.notify(log(first));
    running.push({ ctx, call: currentMcpCall()!, server });
    await hold.promise;
    return 'too late';
  };
  const signals = () => running.flatMap(({ ctx, call }) => [ctx.mcpReq.signal, call.signal]);
  const aborted = () => signals().map((signal) => signal.aborted);

  it.each(Object.keys(ENDS))('P9 S12: %s aborts both signals, and the call ends', async (name) => {
    const { end, heard } = ENDS[name]!;
    const app = await start({ clock, server: scripted({ waits }) });
    const client = await app.client().initialize();
    const silent = client.call('waits');
    await eventually(() => expect(running).toHaveLength(1));
    expect(aborted()).toEqual([false, false]);
    await end({ app, client, clock, ...running[0]! });
    const response = await silent;
    if (heard.length > 0) expect(gists([await response.json()])).toEqual(heard);
    else expect(await response.text()).toBe('');
    await eventually(() => expect(aborted()).toEqual([true, true]));
    await app.settled({ inFlight: 0, streams: 0, readers: 0, outbound: 0, openResponses: 0 });
    hold.open();
  });

  it.each(Object.keys(ENDS))('P9 S12: %s aborts both signals when the response is a stream already', async (name) => {
    const { end, heard } = ENDS[name]!;
    const app = await start({ clock, server: scripted({ waits }) });
    const client = await app.client().initialize();
    const stream = await (await client.call('waits', { first: 'a word' })).sse().count(1);
    await eventually(() => expect(running).toHaveLength(1));
    await end({ app, client, clock, ...running[0]! });
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['a word', ...heard]);
    await eventually(() => expect(aborted()).toEqual([true, true]));
    await app.settled({ inFlight: 0, streams: 0, readers: 0, outbound: 0, openResponses: 0 });
    hold.open();
  });

  it('S15: shutdown aborts both signals, and answers every call', async () => {
    const app = await TestApp.start({ adapter, clock, sseAfterMs: 60_000, server: scripted({ waits }) });
    const client = await app.client().initialize();
    const silent = client.call('waits');
    const stream = await (await client.call('waits', { first: 'a word' })).sse().count(1);
    await eventually(() => expect(running).toHaveLength(2));
    await app.shutDown();
    expect(gists([await (await silent).json()])).toEqual(['error -32000']);
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['a word', 'error -32000']);
    expect(aborted()).toEqual([true, true, true, true]);
    await app.settled({ live: 0, sessions: 0, inFlight: 0, streams: 0, openResponses: 0, logs: 0, timers: 0 });
    hold.open();
  });

  it('P9: a signal that is first looked at when the call is over is aborted as well', async () => {
    const app = await start({
      clock,
      server: scripted({
        looks: async () => {
          const call = currentMcpCall()!;
          running.push({ call } as Running);
          await hold.promise;
          late.open([call.signal.aborted, call.signal.reason]);
          return 'too late';
        },
      }),
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

  it('P9: a call that was answered is not aborted by what comes afterwards', async () => {
    const app = await start({ clock, server: scripted({ waits }) });
    const client = await app.client().initialize();
    hold.open();
    expect(gists([await (await client.call('waits', {}, { id: 'call' })).json()])).toEqual(['too late']);
    signals();
    await client.notify('notifications/cancelled', { requestId: 'call' });
    await clock.advance(60_000);
    await (await client.delete()).text();
    await app.settled({ live: 0 });
    expect(aborted()).toEqual([false, false]);
  });

  it('P4: that its client leaves aborts nothing', async () => {
    const app = await start({ clock, server: scripted({ waits }) });
    const client = await app.client().initialize();
    const stream = await (await client.call('waits', { first: 'a word' })).sse().count(1);
    stream.destroy();
    await app.settled({ readers: 0 });
    expect(aborted()).toEqual([false, false]);
    hold.open();
    await app.settled({ inFlight: 0 });
  });

  it('P9: one call is cancelled, the others go on', async () => {
    const app = await start({ clock, server: scripted({ waits }) });
    const client = await app.client().initialize();
    const calls = [0, 1, 2].map((id) => client.call('waits', {}, { id }));
    await eventually(() => expect(running).toHaveLength(3));
    const one = running.find(({ call }) => call.requestId === 1)!;
    await client.notify('notifications/cancelled', { requestId: 1 });
    await (await calls[1])!.text();
    await eventually(() => expect(signals().filter((signal) => signal.aborted)).toHaveLength(2));
    expect([one.ctx.mcpReq.signal.aborted, one.call.signal.aborted]).toEqual([true, true]);
    hold.open();
    for (const call of [calls[0]!, calls[2]!]) expect(gists([await (await call).json()])).toEqual(['too late']);
  });

  it('S12: a handler that talks, asks and closes its server when it is aborted changes nothing of the end', async () => {
    const outcomes: string[] = [];
    let closes = 0;
    const app: TestApp = await start({
      clock,
      server: scripted({
        'makes a scene': async (_, ctx, { server }) => {
          await ctx.mcpReq.notify(log('a word'));
          const call = currentMcpCall()!;
          const note = (name: string) => (asked: Promise<unknown>) =>
            void asked.then(
              () => outcomes.push(`${name} ok`),
              (error) => outcomes.push(`${name} ${error.code ?? error.message}`),
            );
          call.signal.addEventListener('abort', () => {
            note('notify')(server.sendLoggingMessage({ level: 'info', data: 'last words' }));
            note('ask')(ctx.mcpReq.send({ method: 'ping' }));
            note('close')(server.close());
            note('terminate')(app.service.terminate(call.session!.id));
          });
          server.onclose = () => closes++;
          running.push({ ctx, call, server });
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
