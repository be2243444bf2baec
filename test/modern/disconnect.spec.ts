import { request } from 'node:http';
import { merge, Observable, of } from 'rxjs';
import { toolProgress, type McpHandlerFunction, type McpContext, type ToolEvent } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { ADAPTERS, gate, type TestApp, NOTHING } from '../support/app.js';
import { gists } from '../support/messages.js';
import { eventually, testApps } from '../support/test-apps.js';
import { expectRefusal } from '../support/refusal.js';
import { forsakenCall, connectionsGone } from '../support/raw-socket.js';

type Tool = McpHandlerFunction<Record<string, unknown>>;

const REQUEST_TIMEOUT = -32001;

describe.each(ADAPTERS)('a modern client that leaves, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, port: true });
  let entered: ReturnType<typeof gate<McpContext>>;
  let left: string[];
  beforeEach(() => {
    entered = gate();
    left = [];
  });

  /** Waits until nobody waits for it any more. */
  const waits: Tool = (_, ctx) => {
    entered.open(ctx);
    return new Promise((_resolve, reject) => {
      ctx.signal.addEventListener('abort', () => {
        left.push('handler');
        reject(new Error('left', { cause: ctx.signal.reason }));
      });
    });
  };
  const talksAndWaits: Tool = async (args, ctx) => {
    await ctx.progress(1);
    return waits(args, ctx);
  };
  const observable: Tool = (_, ctx) => {
    entered.open(ctx);
    return new Observable<ToolEvent>(() => () => left.push('observable'));
  };
  const talkingObservable: Tool = (_, ctx) => {
    entered.open(ctx);
    const source = new Observable<ToolEvent>(() => () => left.push('observable'));
    return merge(of(toolProgress(1)), source);
  };
  const iterable: Tool = async function* (_, ctx) {
    entered.open(ctx);
    try {
      yield toolProgress(1);
      await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
      yield toolProgress(2);
    } finally {
      left.push('iterable');
    }
  };
  /** Notices nothing. */
  const deaf: Tool = async (_, ctx) => {
    entered.open(ctx);
    await deafness.promise;
    await ctx.progress(1);
    left.push('deaf');
    return 'what for?';
  };
  let deafness: ReturnType<typeof gate<void>>;
  beforeEach(() => {
    deafness = gate();
  });
  const handlers = { waits, talksAndWaits, observable, talkingObservable, iterable, deaf };
  const gone = async (app: TestApp, who: string): Promise<void> => {
    await eventually(() => expect(left).toEqual([who]));
    await app.settled(NOTHING);
    expect((await entered.promise).signal.aborted).toBe(true);
  };

  it.each([
    ['waits', 'handler'],
    ['observable', 'observable'],
  ])('P4: before the head: %s is cancelled, and nothing is left', async (name, who) => {
    const app = await start({ tools: handlers });
    const client = app.modern();
    const posted = forsakenCall(client, name);
    const { signal } = await entered.promise;
    await app.settled({ inFlight: 1, openResponses: 0 });
    expect(signal.aborted).toBe(false);
    await posted.hangUp();
    await gone(app, who);
  });

  it.each([
    ['waits', 'handler'],
    ['observable', 'observable'],
  ])('P4: while the client waits for JSON: %s is cancelled, and nothing is left', async (name, who) => {
    const app = await start({ tools: handlers, responseMode: 'json' });
    const client = app.modern();
    const posted = forsakenCall(client, name);
    await entered.promise;
    await posted.hangUp();
    await gone(app, who);
  });

  it.each([
    ['talksAndWaits', 'handler'],
    ['talkingObservable', 'observable'],
    ['iterable', 'iterable'],
  ])('P4: in the middle of the stream: %s is cancelled, and nothing is left', async (name, who) => {
    const app = await start({ tools: handlers });
    const client = app.modern();
    const stream = await (await client.call(name, {}, { progressToken: 1 })).sse().count(1);
    await app.settled({ inFlight: 1, openResponses: 1 });
    stream.destroy();
    await gone(app, who);
  });

  it.each(['waits', 'observable'])('P4: after a head without any message: %s is cancelled', async (name) => {
    const app = await start({ tools: handlers, responseMode: 'sse' });
    const client = app.modern();
    const response = await client.call(name);
    await entered.promise;
    response.destroy();
    await eventually(() => expect(left).toHaveLength(1));
    await app.settled(NOTHING);
  });

  it('P4: a handler that ignores its signal is not waited for, and its messages are dropped', async () => {
    const app = await start({ tools: handlers });
    const client = app.modern();
    const posted = forsakenCall(client, 'deaf', { progressToken: 1 });
    await entered.promise;
    await posted.hangUp();
    await connectionsGone(app);
    await app.settled(NOTHING);
    expect(left).toEqual([]);
    deafness.open();
    await eventually(() => expect(left).toEqual(['deaf']));
    await app.settled(NOTHING);
  });

  it('P4: a handler that looks at its signal late finds it aborted, with a reason', async () => {
    const looked = gate<unknown>();
    const late: Tool = async (_, ctx) => {
      entered.open(ctx);
      await deafness.promise;
      looked.open(ctx.signal.reason);
      return 'late';
    };
    const app = await start({ tools: { late } });
    const client = app.modern();
    const posted = forsakenCall(client, 'late');
    await entered.promise;
    await posted.hangUp();
    await app.settled(NOTHING);
    deafness.open();
    expect(await looked.promise).toMatchObject({ message: expect.stringContaining('closed') });
  });

  it('P4: a posted cancellation has no effect: closing the connection cancels the request', async () => {
    const app = await start({ tools: handlers });
    const client = app.modern();
    const posted = client.call('deaf', {}, { id: 1 });
    const { signal } = await entered.promise;
    const message = client.message('notifications/cancelled', { requestId: 1 });
    const { id: _, ...notification } = message;
    const response = await client.post(notification, client.headersOf(message));
    expect(response.status).toBe(202);
    await response.text();
    await app.settled({ inFlight: 1 });
    expect(signal.aborted).toBe(false);
    deafness.open();
    expect(gists([await (await posted).json()])).toEqual(['what for?']);
  });

  it('P4: a client that has its answer and closes cancels nothing', async () => {
    const aborts: unknown[] = [];
    const quick: Tool = (_, ctx) => {
      ctx.signal.addEventListener('abort', () => aborts.push('aborted'));
      return 'quick';
    };
    const app = await start({ tools: { quick } });
    const client = app.modern();
    const response = await client.call('quick');
    await response.text();
    response.destroy();
    await connectionsGone(app);
    await app.settled(NOTHING);
    expect(aborts).toEqual([]);
  });

  describe('or whose call takes longer than requestTimeoutMs', () => {
    const startTimed = async (options = {}) => {
      const clock = new ManualClock();
      const app = await start({ tools: handlers, clock, requestTimeoutMs: 1_000, ...options });
      return { clock, app, client: app.modern() };
    };

    it('requestTimeoutMs: a call without a head is answered with an error as JSON, and its handler is cancelled', async () => {
      const { app, client, clock } = await startTimed();
      const posted = client.call('waits', {}, { id: 3 });
      await entered.promise;
      await clock.advance(999);
      expect(left).toEqual([]);
      await clock.advance(1);
      const response = await posted;
      expect(response.status).toBe(200);
      expect(await response.json()).toMatchObject({
        id: 3,
        error: { code: REQUEST_TIMEOUT, message: expect.stringContaining('1000') },
      });
      await gone(app, 'handler');
    });

    it('requestTimeoutMs: a call in the middle of its stream ends it with an error', async () => {
      const { app, client, clock } = await startTimed();
      const stream = await (await client.call('talkingObservable', {}, { id: 3, progressToken: 1 })).sse().count(1);
      await clock.advance(1_000);
      expect(await stream.end()).toBe('end');
      expect(gists(stream.messages)).toEqual(['progress 1', `error ${REQUEST_TIMEOUT}`]);
      await gone(app, 'observable');
    });

    it('requestTimeoutMs: a call that is answered in time leaves no timer', async () => {
      const { app, client } = await startTimed({ tools: { quick: () => 'quick' } });
      expect(gists([await (await client.call('quick')).json()])).toEqual(['quick']);
      await app.settled(NOTHING);
    });
  });

  it('E13: a request whose body is cut is not dispatched', async () => {
    const app = await start({ tools: handlers });
    const client = app.modern();
    const message = client.message('tools/call', { name: 'waits', arguments: {} });
    const headers = { ...client.headersOf(message), 'content-length': '10000' };
    const sent = request(client.url, { method: 'POST', headers, agent: false });
    sent.on('error', () => {});
    sent.write(JSON.stringify(message));
    await connectionsGone(app, 1);
    sent.destroy();
    await connectionsGone(app);
    await app.settled(NOTHING);
    expect(left).toEqual([]);
  });

  it('E7: malformed messages are refused', async () => {
    const client = (await start({ tools: handlers })).modern();
    const message = client.message('tools/call', { name: 'waits' });
    await expectRefusal(await client.post('{"jsonrpc', client.headersOf(message)), { status: 400, code: -32700 });
  });
});
