import { scripted } from '../support/scripted-server.js';
import type { McpSessionEvent } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import type { ServerContext, Server } from '@modelcontextprotocol/server';
import { beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestApp } from '../support/app.js';
import { gists, log } from '../support/messages.js';
import type { RawClient } from '../support/raw-client.js';
import { recordedEvents, runningApps } from '../support/running-apps.js';

interface Talk {
  ctx: ServerContext;
  server: Server;
}

/** What a handler may still want to say; `said` is what the client gets to see of it. */
const NOTIFICATIONS: [name: string, method: string, tell: (talk: Talk) => Promise<void>][] = [
  ['a log message', 'notifications/message', ({ ctx }) => ctx.mcpReq.notify(log('late'))],
  [
    'a log message without its context',
    'notifications/message',
    ({ server }) => server.sendLoggingMessage({ level: 'info', data: 'late' }),
  ],
  [
    'tools/list_changed',
    'notifications/tools/list_changed',
    ({ ctx }) => ctx.mcpReq.notify({ method: 'notifications/tools/list_changed' }),
  ],
  ['prompts/list_changed', 'notifications/prompts/list_changed', ({ server }) => server.sendPromptListChanged()],
  [
    'resources/list_changed',
    'notifications/resources/list_changed',
    ({ ctx }) => ctx.mcpReq.notify({ method: 'notifications/resources/list_changed' }),
  ],
  [
    'resources/updated',
    'notifications/resources/updated',
    ({ server }) => server.sendResourceUpdated({ uri: 'file:///a' }),
  ],
];

const progress = ({ ctx }: Talk) =>
  ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken: 'p', progress: 9 } });
const answer = ({ ctx, server }: Talk) =>
  server.transport!.send({ jsonrpc: '2.0', id: ctx.mcpReq.id, result: { content: [] } });

describe.each(ONE_ADAPTER)('late messages on %s', (adapter) => {
  const start = runningApps(adapter, { sseAfterMs: 60_000, clock: undefined });
  /** Opened when the request of the handler is over. */
  let later: ReturnType<typeof gate<void>>;
  let hold: ReturnType<typeof gate<void>>;
  let entered: ReturnType<typeof gate<void>>;
  /** What the handler does after its request is over, and how that came out. */
  let act: (talk: Talk) => Promise<unknown>;
  let acted: Promise<unknown>;
  let app: TestApp;
  let client: RawClient;
  let events: McpSessionEvent[];

  beforeEach(async () => {
    [later, hold, entered] = [gate(), gate(), gate()];
    app = await start({
      clock: new ManualClock(),
      server: scripted({
        'talks on': (_, ctx, { server }) => {
          acted = later.promise.then(() => act({ ctx, server }));
          acted.catch(() => {});
          return 'done';
        },
        'talks on after a word': async (_, ctx, { server }) => {
          await ctx.mcpReq.notify(log('a word'));
          acted = later.promise.then(() => act({ ctx, server }));
          acted.catch(() => {});
          return 'done';
        },
        waits: async (_, ctx, { server }) => {
          acted = later.promise.then(() => act({ ctx, server }));
          acted.catch(() => {});
          entered.open();
          await hold.promise;
          return 'too late';
        },
      }),
    });
    events = recordedEvents(app);
    client = await app.client().initialize('2025-11-25', { sampling: {}, roots: {} });
  });

  const lateEvents = () => events.filter(({ type }) => type === 'late-message');
  /** Lets the handler act. */
  async function actLate(task: (talk: Talk) => Promise<unknown>): Promise<unknown> {
    act = task;
    later.open();
    return acted.catch((error: unknown) => error);
  }
  async function callAndCancel(id: string): Promise<void> {
    const posted = client.call('waits', {}, { id });
    await entered.promise;
    await client.notify('notifications/cancelled', { requestId: id });
    await (await posted).text();
    await app.settled({ inFlight: 0 });
  }

  it.each(NOTIFICATIONS)('P8: %s after the answer goes to the standalone stream', async (_, method, tell) => {
    expect((await (await client.call('talks on', {}, { id: 'call' })).json()).result).toBeDefined();
    const standalone = await client.listen();
    await actLate(tell);
    await standalone.count(1);
    expect(standalone.messages).toMatchObject([{ method }]);
    expect(standalone.events[0]!.id).toBe('0_1');
    expect(lateEvents()).toEqual([
      { type: 'late-message', sessionId: client.sessionId, method, requestId: 'call', disposition: 'standalone' },
    ]);
    standalone.destroy();
  });

  it('P8: a message after the answer never goes to the stream that it came too late for', async () => {
    const stream = (await client.call('talks on after a word')).sse();
    expect(await stream.end()).toBe('end');
    await actLate(({ ctx }) => ctx.mcpReq.notify(log('late')));
    await app.settled({ streams: 0, events: 3 });
    // What was finished stays as it was.
    const again = (await client.get(stream.primes[0])).sse();
    expect(await again.end()).toBe('end');
    expect(gists(again.messages)).toEqual(['a word', 'done']);
    const standalone = await (await client.listen()).count(1);
    expect(gists(standalone.messages)).toEqual(['late']);
    standalone.destroy();
  });

  it('P8: progress after the answer is dropped', async () => {
    await (await client.call('talks on', {}, { id: 'call', progressToken: 'p' })).text();
    await actLate(progress);
    const method = 'notifications/progress';
    expect(lateEvents()).toMatchObject([{ method, requestId: 'call', disposition: 'dropped' }]);
    await app.settled({ events: 0 });
  });

  it('P8: a second answer is dropped', async () => {
    await (await client.call('talks on', {}, { id: 'call' })).text();
    await actLate(answer);
    expect(lateEvents()).toMatchObject([{ method: undefined, requestId: 'call', disposition: 'dropped' }]);
    await app.settled({ events: 0 });
  });

  it('P8: a request after the answer fails, typed, and is not sent', async () => {
    const standalone = await client.listen();
    await (await client.call('talks on', {}, { id: 'call' })).text();
    const outcome = await actLate(({ ctx }) => ctx.mcpReq.send({ method: 'roots/list' }));
    expect(outcome).toMatchObject({ name: 'ServerRequestError', code: 'CALL_OVER' });
    expect(lateEvents()).toMatchObject([{ method: 'roots/list', requestId: 'call', disposition: 'refused' }]);
    expect(standalone.events).toEqual([]);
    await app.settled({ outbound: 0, events: 0 });
    standalone.destroy();
  });

  it('P8: of a request without its context says the same', async () => {
    await (await client.call('talks on', {}, { id: 'call' })).text();
    const outcome = await actLate(() => app.service.request(client.sessionId!, { method: 'ping' }));
    expect(outcome).toMatchObject({ name: 'ServerRequestError', code: 'CALL_OVER' });
    expect(lateEvents()).toMatchObject([{ method: 'ping', requestId: 'call', disposition: 'refused' }]);
  });

  it.each([...NOTIFICATIONS, ['progress', 'notifications/progress', progress] as const])(
    'P8: %s after a cancellation is dropped',
    async (_, method, tell) => {
      const standalone = await client.listen();
      await callAndCancel('call');
      await actLate(tell);
      expect(lateEvents()).toMatchObject([{ method, requestId: 'call', disposition: 'dropped' }]);
      expect(standalone.events).toEqual([]);
      await app.settled({ events: 0 });
      standalone.destroy();
      hold.open();
    },
  );

  it('P8: an answer after a cancellation is dropped', async () => {
    await callAndCancel('call');
    await actLate(answer);
    expect(lateEvents()).toMatchObject([{ method: undefined, requestId: 'call', disposition: 'dropped' }]);
    hold.open();
    await app.settled({ events: 0 });
  });

  it('P8: a request after a cancellation fails, typed, and is not sent', async () => {
    const standalone = await client.listen();
    await callAndCancel('call');
    const outcome = await actLate(({ ctx }) => ctx.mcpReq.send({ method: 'roots/list' }));
    expect(outcome).toMatchObject({ name: 'ServerRequestError', code: 'CALL_OVER' });
    expect(lateEvents()).toMatchObject([{ method: 'roots/list', requestId: 'call', disposition: 'refused' }]);
    expect(standalone.events).toEqual([]);
    await app.settled({ outbound: 0, events: 0 });
    standalone.destroy();
    hold.open();
  });

  it('P8: what comes too late does not reach a new request with the same id', async () => {
    await (await client.call('talks on', {}, { id: 'same' })).text();
    const [before, actFirst] = [acted, later];
    later = gate();
    const second = client.call('waits', {}, { id: 'same' });
    await entered.promise;
    act = ({ ctx }) => ctx.mcpReq.notify(log('of the first'));
    actFirst.open();
    await before;
    expect(lateEvents()).toMatchObject([{ requestId: 'same', disposition: 'standalone' }]);
    hold.open();
    expect(gists([await (await second).json()])).toEqual(['too late']);
    const standalone = await (await client.listen()).count(1);
    expect(gists(standalone.messages)).toEqual(['of the first']);
    standalone.destroy();
  });
});
