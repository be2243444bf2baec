import type { Server, ServerContext } from '@modelcontextprotocol/server';
import type { McpContext, McpSessionEvent, McpSessionService } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestApp, type TestAppOptions } from '../support/app.js';
import { gists, log } from '../support/messages.js';
import type { RawClient } from '../support/raw-client.js';
import { recordedEvents, testApps } from '../support/test-apps.js';
import { scripted } from '../support/scripted-server.js';

/** Stands still: nothing ends by time. */
const STILL = new ManualClock();

interface Talk {
  ctx: McpContext;
  sessions: McpSessionService;
}

/** Notifications that outlive their request. */
const NOTIFICATIONS: [name: string, method: string, tell: (talk: Talk) => Promise<unknown>][] = [
  ['a log message', 'notifications/message', ({ ctx }) => ctx.log('info', 'late')],
  [
    'a log message through McpSessionService',
    'notifications/message',
    ({ ctx, sessions }) => sessions.notify(ctx.session!.id, log('late')),
  ],
  [
    'tools/list_changed',
    'notifications/tools/list_changed',
    ({ ctx }) => ctx.notify('notifications/tools/list_changed'),
  ],
  [
    'prompts/list_changed',
    'notifications/prompts/list_changed',
    ({ ctx, sessions }) => sessions.notify(ctx.session!.id, { method: 'notifications/prompts/list_changed' }),
  ],
  [
    'resources/list_changed',
    'notifications/resources/list_changed',
    ({ ctx }) => ctx.notify('notifications/resources/list_changed'),
  ],
  [
    'resources/updated',
    'notifications/resources/updated',
    ({ ctx }) => ctx.notify('notifications/resources/updated', { uri: 'file:///a' }),
  ],
];

const progress = ({ ctx }: Talk) => ctx.notify('notifications/progress', { progressToken: 'p', progress: 9 });

/** What a handler does after its request is over, when the test lets it. */
class Afterwards<Voice> {
  readonly entered = gate();
  readonly hold = gate();
  readonly #later = gate<(voice: Voice) => Promise<unknown>>();
  #acted: Promise<unknown> | undefined;

  /** Called by the handler. */
  follow(voice: Voice): void {
    this.#acted = this.#later.promise.then((act) => act(voice));
    this.#acted.catch(() => {});
  }

  /** @returns the result or the error of the handler's act */
  async act(act: (voice: Voice) => Promise<unknown>): Promise<unknown> {
    this.#later.open(act);
    return this.#acted!.catch((error: unknown) => error);
  }
}

/** A client of an app with the tools "talks on" and "waits", and the events of its session. */
class LateCalls {
  private constructor(
    readonly app: TestApp,
    readonly client: RawClient,
    readonly events: McpSessionEvent[],
  ) {}

  static async of(app: TestApp): Promise<LateCalls> {
    const events = recordedEvents(app);
    return new LateCalls(app, await app.client().initialize('2025-11-25', { sampling: {}, roots: {} }), events);
  }

  get lateEvents(): McpSessionEvent[] {
    return this.events.filter(({ type }) => type === 'late-message');
  }

  async callAndCancel(id: string, entered: Promise<void>): Promise<void> {
    const posted = this.client.call('waits', {}, { id });
    await entered;
    await this.client.notify('notifications/cancelled', { requestId: id });
    await (await posted).text();
    await this.app.settled({ inFlight: 0 });
  }
}

describe.each(ONE_ADAPTER)('late messages on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, clock: undefined });
  let after: Afterwards<Talk>;
  let app: TestApp;
  let client: RawClient;
  let calls: LateCalls;

  const tools: TestAppOptions['tools'] = {
    'talks on': (_, ctx, sessions) => {
      after.follow({ ctx, sessions });
      return 'done';
    },
    'talks on after a word': async (_, ctx, sessions) => {
      await ctx.log('info', 'a word');
      after.follow({ ctx, sessions });
      return 'done';
    },
    waits: async (_, ctx, sessions) => {
      const { entered, hold } = after;
      after.follow({ ctx, sessions });
      entered.open();
      await hold.promise;
      return 'too late';
    },
  };

  beforeEach(async () => {
    after = new Afterwards();
    app = await start({ clock: STILL, tools });
    calls = await LateCalls.of(app);
    ({ client } = calls);
  });

  it.each(NOTIFICATIONS)('P8: %s after the answer goes to the standalone stream', async (_, method, tell) => {
    expect((await (await client.call('talks on', {}, { id: 'call' })).json()).result).toBeDefined();
    const standalone = await client.listen();
    await after.act(tell);
    await standalone.count(1);
    expect(standalone.messages).toMatchObject([{ method }]);
    expect(standalone.events[0]!.id).toBe('0_1');
    expect(calls.lateEvents).toEqual([
      { type: 'late-message', sessionId: client.sessionId, method, requestId: 'call', disposition: 'standalone' },
    ]);
    standalone.destroy();
  });

  it('P8: a message after the answer never goes to the stream that it came too late for', async () => {
    const stream = (await client.call('talks on after a word')).sse();
    expect(await stream.end()).toBe('end');
    await after.act(({ ctx }) => ctx.log('info', 'late'));
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
    await after.act(progress);
    const method = 'notifications/progress';
    expect(calls.lateEvents).toMatchObject([{ method, requestId: 'call', disposition: 'dropped' }]);
    await app.settled({ events: 0 });
  });

  it('P8: a request after the answer fails, typed, and is not sent', async () => {
    const standalone = await client.listen();
    await (await client.call('talks on', {}, { id: 'call' })).text();
    const outcome = await after.act(({ ctx }) => ctx.roots('roots'));
    expect(outcome).toMatchObject({ name: 'McpServerRequestError', code: 'CALL_OVER' });
    expect(calls.lateEvents).toMatchObject([{ method: 'roots/list', requestId: 'call', disposition: 'refused' }]);
    expect(standalone.events).toEqual([]);
    await app.settled({ outbound: 0, events: 0 });
    standalone.destroy();
  });

  it('P8: a request through McpSessionService after the answer fails, typed, and is not sent', async () => {
    await (await client.call('talks on', {}, { id: 'call' })).text();
    const outcome = await after.act(({ sessions }) => sessions.request(client.sessionId!, { method: 'ping' }));
    expect(outcome).toMatchObject({ name: 'McpServerRequestError', code: 'CALL_OVER' });
    expect(calls.lateEvents).toMatchObject([{ method: 'ping', requestId: 'call', disposition: 'refused' }]);
  });

  it.each([...NOTIFICATIONS, ['progress', 'notifications/progress', progress] as const])(
    'P8: %s after a cancellation is dropped',
    async (_, method, tell) => {
      const standalone = await client.listen();
      await calls.callAndCancel('call', after.entered.promise);
      await after.act(tell);
      expect(calls.lateEvents).toMatchObject([{ method, requestId: 'call', disposition: 'dropped' }]);
      expect(standalone.events).toEqual([]);
      await app.settled({ events: 0 });
      standalone.destroy();
      after.hold.open();
    },
  );

  it('P8: a request after a cancellation fails, typed, and is not sent', async () => {
    const standalone = await client.listen();
    await calls.callAndCancel('call', after.entered.promise);
    const outcome = await after.act(({ ctx }) => ctx.roots('roots'));
    expect(outcome).toMatchObject({ name: 'McpServerRequestError', code: 'CALL_OVER' });
    expect(calls.lateEvents).toMatchObject([{ method: 'roots/list', requestId: 'call', disposition: 'refused' }]);
    expect(standalone.events).toEqual([]);
    await app.settled({ outbound: 0, events: 0 });
    standalone.destroy();
    after.hold.open();
  });

  it('P8: a late message does not reach a new request with the same id', async () => {
    await (await client.call('talks on', {}, { id: 'same' })).text();
    const first = after;
    after = new Afterwards();
    const second = client.call('waits', {}, { id: 'same' });
    await after.entered.promise;
    await first.act(({ ctx }) => ctx.log('info', 'of the first'));
    expect(calls.lateEvents).toMatchObject([{ requestId: 'same', disposition: 'standalone' }]);
    after.hold.open();
    expect(gists([await (await second).json()])).toEqual(['too late']);
    const standalone = await (await client.listen()).count(1);
    expect(gists(standalone.messages)).toEqual(['of the first']);
    standalone.destroy();
  });
});

describe.each(ONE_ADAPTER)('with an SDK server: late messages on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, clock: undefined });
  let after: Afterwards<SdkTalk>;
  let app: TestApp;
  let client: RawClient;
  let calls: LateCalls;

  interface SdkTalk {
    ctx: ServerContext;
    server: Server;
  }

  /** The ways of the SDK to send a notification. */
  const REMARKS: [name: string, method: string, tell: (talk: SdkTalk) => Promise<void>][] = [
    [
      'sendLoggingMessage()',
      'notifications/message',
      ({ server }) => server.sendLoggingMessage({ level: 'info', data: 'late' }),
    ],
    ['sendPromptListChanged()', 'notifications/prompts/list_changed', ({ server }) => server.sendPromptListChanged()],
    [
      'sendResourceUpdated()',
      'notifications/resources/updated',
      ({ server }) => server.sendResourceUpdated({ uri: 'file:///a' }),
    ],
    ['notify() of the context', 'notifications/message', ({ ctx }) => ctx.mcpReq.notify(log('late'))],
  ];
  const answer = ({ ctx, server }: SdkTalk) =>
    server.transport!.send({ jsonrpc: '2.0', id: ctx.mcpReq.id, result: { content: [] } });

  beforeEach(async () => {
    after = new Afterwards();
    const server = scripted({
      'talks on': (_, ctx, { server: its }) => {
        after.follow({ ctx, server: its });
        return 'done';
      },
      waits: async (_, ctx, { server: its }) => {
        after.follow({ ctx, server: its });
        after.entered.open();
        await after.hold.promise;
        return 'too late';
      },
    });
    app = await start({ clock: STILL, server });
    calls = await LateCalls.of(app);
    ({ client } = calls);
  });

  it.each(REMARKS)('P8: %s after the answer goes to the standalone stream', async (_, method, tell) => {
    await (await client.call('talks on', {}, { id: 'call' })).text();
    const standalone = await client.listen();
    await after.act(tell);
    await standalone.count(1);
    expect(standalone.messages).toMatchObject([{ method }]);
    expect(calls.lateEvents).toMatchObject([{ method, requestId: 'call', disposition: 'standalone' }]);
    standalone.destroy();
  });

  it.each(REMARKS)('P8: %s after a cancellation is dropped', async (_, method, tell) => {
    const standalone = await client.listen();
    await calls.callAndCancel('call', after.entered.promise);
    await after.act(tell);
    expect(calls.lateEvents).toMatchObject([{ method, requestId: 'call', disposition: 'dropped' }]);
    expect(standalone.events).toEqual([]);
    await app.settled({ events: 0 });
    standalone.destroy();
    after.hold.open();
  });

  it('P8: a request through the context of the SDK after the answer fails, typed', async () => {
    await (await client.call('talks on', {}, { id: 'call' })).text();
    const outcome = await after.act(({ ctx }) => ctx.mcpReq.send({ method: 'roots/list' }));
    expect(outcome).toMatchObject({ name: 'McpServerRequestError', code: 'CALL_OVER' });
    expect(calls.lateEvents).toMatchObject([{ method: 'roots/list', requestId: 'call', disposition: 'refused' }]);
  });

  it('P8: a second answer is dropped', async () => {
    await (await client.call('talks on', {}, { id: 'call' })).text();
    await after.act(answer);
    expect(calls.lateEvents).toMatchObject([{ method: undefined, requestId: 'call', disposition: 'dropped' }]);
    await app.settled({ events: 0 });
  });

  it('P8: an answer after a cancellation is dropped', async () => {
    await calls.callAndCancel('call', after.entered.promise);
    await after.act(answer);
    expect(calls.lateEvents).toMatchObject([{ method: undefined, requestId: 'call', disposition: 'dropped' }]);
    after.hold.open();
    await app.settled({ events: 0 });
  });
});
