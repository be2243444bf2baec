import { currentMcpCall, type McpSessionEvent } from 'nestjs-mcp-streamable';
import { InMemoryEventStore } from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, TestApp, type TestAppOptions, type TestTool, NOTHING } from '../support/app.js';
import { double } from '../support/doubles.js';
import type { SseStream } from '../support/http.js';
import { log } from '../support/messages.js';
import type { RawClient } from '../support/raw-client.js';
import { expectRefusal, NO_SESSION_ID, NO_SUCH_SESSION } from '../support/refusal.js';
import { eventually, recordedEvents, testApps } from '../support/test-apps.js';
import { scripted, type ScriptedTool } from '../support/scripted-server.js';

type Way = 'DELETE' | 'terminate()' | 'terminateAll()' | 'server.close()';
const ROW: Record<Way, string> = {
  DELETE: 'S12',
  'terminate()': 'S14',
  'terminateAll()': 'S14',
  'server.close()': 'S14',
};

describe.each(ONE_ADAPTER)('the end of a session on %s', (adapter) => {
  let app: TestApp;
  let events: McpSessionEvent[];
  let release: ReturnType<typeof gate<void>>;
  let aborted: string[];
  let closers: Map<string, () => Promise<void>>;

  /** What a handler can do, on either kind of server. */
  interface Voice {
    say(): Promise<unknown>;
    ask(): Promise<unknown>;
    signals: AbortSignal[];
  }
  type Handler = (args: Record<string, unknown>, voice: Voice) => unknown;

  /** Waits until it is cancelled, then talks on as if it had not noticed. */
  const waits: Handler = async ({ name }, { say, signals }) => {
    await Promise.all(signals.map((signal) => new Promise((resolve) => signal.addEventListener('abort', resolve))));
    aborted.push(String(name));
    await say().catch(() => {});
    return 'too late';
  };
  const handlers: Record<string, Handler> = {
    quick: () => 'quick',
    waits,
    talks: async (args, voice) => {
      await voice.say();
      return waits(args, voice);
    },
    asks: async ({ name }, { ask }) => {
      await ask().catch(() => aborted.push(String(name)));
      return 'too late';
    },
    stubborn: async (_, { say }) => {
      await say();
      await release.promise;
      await say().catch(() => {});
      return 'too late';
    },
  };
  const tools: Record<string, TestTool> = {
    ...Object.fromEntries(
      Object.entries(handlers).map(([name, handler]): [string, TestTool] => [
        name,
        (args, ctx, sessions) =>
          handler(args, {
            say: () => ctx.log('info', 'hello'),
            ask: () => sessions.request(ctx.session!.id, { method: 'ping' }),
            signals: [ctx.signal],
          }),
      ]),
    ),
    terminates: async (_, ctx, sessions) => void (await sessions.terminate(ctx.session!.id)),
  };
  const sdkTools: Record<string, ScriptedTool> = Object.fromEntries(
    Object.entries(handlers).map(([name, handler]): [string, ScriptedTool] => [
      name,
      (args, ctx) =>
        handler(args, {
          say: () => ctx.mcpReq.notify(log('hello')),
          ask: () => ctx.mcpReq.send({ method: 'ping' }),
          signals: [ctx.mcpReq.signal, currentMcpCall()!.signal],
        }) as string,
    ]),
  );

  const begin = testApps(adapter, { shared: true, guards: [], requestTimeoutMs: 60_000 });
  const start = async (options: Partial<TestAppOptions>): Promise<void> => {
    app = await begin(options);
    events = recordedEvents(app);
  };
  beforeEach(async () => {
    [aborted, closers, release] = [[], new Map(), gate()];
    await start({ tools });
  });

  const end = async (way: Way, client: RawClient): Promise<void> => {
    switch (way) {
      case 'DELETE': {
        const response = await client.delete();
        expect(response.status).toBe(204);
        expect(await response.text()).toBe('');
        return;
      }
      case 'terminate()':
        expect(await app.service.terminate(client.sessionId!)).toBe(true);
        return;
      case 'terminateAll()':
        expect(await app.service.terminateAll()).toBe(1);
        return;
      case 'server.close()':
        await closers.get(client.sessionId!)!();
    }
  };
  const reasonOf = (way: Way): string => (way === 'DELETE' ? 'deleted' : 'terminated');
  const lastOf = async (stream: SseStream): Promise<unknown> => {
    expect(await stream.end()).toBe('end');
    return stream.messages.at(-1);
  };

  const endsBy = (way: Way): void => {
    const row = ROW[way];
    const error = { code: -32000, message: expect.stringContaining(`(${reasonOf(way)})`) };

    it(`${row}: every open call gets an error, its handler is cancelled, and every stream ends`, async () => {
      const client = await app.client().initialize();
      const standalone = await client.listen();
      const undecided = client.call('waits', { name: 'undecided' }, { id: 1 });
      const talking = await (await client.call('talks', { name: 'talking' }, { id: 2 })).sse().count(1);
      const asking = await (await client.call('asks', { name: 'asking' }, { id: 3 })).sse().count(1);
      const forsaken = await (await client.call('talks', { name: 'forsaken' }, { id: 4 })).sse().count(1);
      forsaken.destroy();
      await app.settled({ inFlight: 4, outbound: 1, readers: 3, openResponses: 3 });

      await end(way, client);

      expect(await (await undecided).json()).toEqual({ jsonrpc: '2.0', id: 1, error });
      expect(await lastOf(talking)).toEqual({ jsonrpc: '2.0', id: 2, error });
      expect(await lastOf(asking)).toEqual({ jsonrpc: '2.0', id: 3, error });
      expect(await standalone.end()).toBe('end');
      await app.settled(NOTHING);
      expect(aborted.toSorted()).toEqual(['asking', 'forsaken', 'talking', 'undecided']);
      expect(talking.messages).toHaveLength(2);
      expect(events.filter(({ type }) => type === 'closed')).toEqual([
        { type: 'closed', sessionId: client.sessionId, reason: reasonOf(way) },
      ]);
    });

    it(`${row}: the session does not exist afterwards, and nothing is left of it`, async () => {
      const client = await app.client().initialize();
      await (await client.call('quick')).text();
      await app.service.notify(client.sessionId!, {
        method: 'notifications/message',
        params: { level: 'info', data: 'unread' },
      });
      await app.settled({ events: 1, logs: 1 });
      await end(way, client);
      await app.settled(NOTHING);
      await expectRefusal(await client.delete(), NO_SUCH_SESSION);
      await expectRefusal(await client.call('quick', {}, { id: 9 }), { ...NO_SUCH_SESSION, id: 9 });
      await expectRefusal(await client.get('0_0'), NO_SUCH_SESSION);
      expect(await app.service.terminate(client.sessionId!)).toBe(false);
      expect(await app.service.get(client.sessionId!)).toBeUndefined();
      await app.settled(NOTHING);
      // Its client can start again.
      await client.initialize();
    });

    it(`S16: nothing comes back when a handler goes on after the end (${way})`, async () => {
      const client = await app.client().initialize();
      const stream = await (await client.call('stubborn')).sse().count(1);
      await end(way, client);
      await lastOf(stream);
      await app.settled(NOTHING);
      release.open();
      // What it says to its client arrives before the answer to what another session says now.
      const other = await app.client().initialize();
      await (await other.call('quick')).text();
      expect(stream.messages).toHaveLength(2);
      await app.settled({ sessions: 1, live: 1, logs: 1, loggedStreams: 0, events: 0, inFlight: 0 });
    });
  };

  describe.each(['DELETE', 'terminate()', 'terminateAll()'] as const)('by %s', (way) => {
    endsBy(way);
  });
  describe('with an SDK server: by server.close()', () => {
    beforeEach(async () => {
      await start({
        server: scripted(sdkTools, (server, { session }) => closers.set(session!.id, () => server.close())),
      });
    });
    endsBy('server.close()');
  });

  it.each(['DELETE', 'terminate()', 'terminateAll()'] as const)(
    'S14: %s ends a session whose live copy was given up',
    async (way) => {
      const client = await app.client().initialize();
      await app.release(client.sessionId!);
      await app.settled({ sessions: 1, live: 0, logs: 1 });
      await end(way, client);
      await app.settled(NOTHING);
      expect(events.at(-1)).toEqual({ type: 'closed', sessionId: client.sessionId, reason: reasonOf(way) });
    },
  );

  it('S12: a DELETE answers each open call of a batch with an error', async () => {
    const client = await app.client().initialize('2025-03-26');
    const call = (name: string, id: number) => client.toolCall(name, { name: `batched ${id}` }, { id });
    const undecided = client.post([call('waits', 1), call('quick', 2), call('waits', 3)]);
    const streaming = await (await client.post([call('talks', 4), call('waits', 5)])).sse().count(1);
    await app.settled({ inFlight: 4 });
    await end('DELETE', client);
    const answers = await (await undecided).json();
    expect(answers).toHaveLength(3);
    expect(answers.filter((answer: object) => 'error' in answer).map(({ id }: { id: number }) => id)).toEqual([1, 3]);
    expect(await streaming.end()).toBe('end');
    expect(streaming.messages.slice(1).map(({ id, error }) => [id, error.code])).toEqual([
      [4, -32000],
      [5, -32000],
    ]);
    await app.settled(NOTHING);
  });

  it('S12: a DELETE without a session id is refused', async () => {
    const client = await app.client().initialize();
    await expectRefusal(await app.client().delete(), NO_SESSION_ID);
    await app.settled({ sessions: 1, live: 1 });
    expect((await client.call('quick')).status).toBe(200);
  });

  it('S12: a DELETE needs no Accept, and no body', async () => {
    const client = await app.client().initialize();
    const response = await client.delete({ accept: 'text/plain' });
    expect(response.status).toBe(204);
    expect(response.header('content-type')).toBeUndefined();
  });

  it('S12: of many DELETEs at a time one gets 204, and the others 404', async () => {
    const client = await app.client().initialize();
    await (await client.listen()).opened();
    const responses = await Promise.all(Array.from({ length: 10 }, () => client.delete()));
    expect(responses.filter(({ status }) => status === 204)).toHaveLength(1);
    expect(responses.filter(({ status }) => status === 404)).toHaveLength(9);
    await Promise.all(responses.map((response) => response.text()));
    // On several nodes the ends of the others come by the bus.
    await app.settled(NOTHING);
    await eventually(() => expect(events.filter(({ type }) => type === 'closed')).toHaveLength(1));
  });

  it('S14: terminateAll() ends the sessions of all principals', async () => {
    const clients = await Promise.all(Array.from({ length: 20 }, () => app.client().initialize()));
    const streams = await Promise.all(clients.map((client) => client.listen()));
    expect(await app.service.terminateAll()).toBe(20);
    for (const stream of streams) expect(await stream.end()).toBe('end');
    await app.settled(NOTHING);
    expect(await app.service.terminateAll()).toBe(0);
    for (const client of clients) await expectRefusal(await client.delete(), NO_SUCH_SESSION);
  });

  it('S14: terminate() of an id without a session ends nothing', async () => {
    const client = await app.client().initialize();
    for (const id of ['never-was', '__proto__', 'constructor', '']) expect(await app.service.terminate(id)).toBe(false);
    expect((await client.call('quick')).status).toBe(200);
  });

  it('S14: a call that ends its own session is answered with an error like any other', async () => {
    const client = await app.client().initialize();
    const response = await client.call('terminates', {}, { id: 'last' });
    expect(await response.json()).toMatchObject({ id: 'last', error: { code: -32000 } });
    await app.settled(NOTHING);
  });
});

describe.each(ONE_ADAPTER)('the end of a session whose log hangs on %s', (adapter) => {
  it('S12: a DELETE is answered at once, and the streams end a second later', async () => {
    const clock = new ManualClock();
    const store = new InMemoryEventStore({}, clock);
    const hang = gate();
    let hanging = false;
    const eventStore = double(store, {
      append: async (...of) => {
        if (hanging) await hang.promise;
        return store.append(...of);
      },
    });
    const talks: TestTool = async (_, ctx) => {
      await ctx.log('info', 'hello');
      await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
      return 'too late';
    };
    const app = await TestApp.start({ adapter, clock, eventStore, tools: { talks } });
    const client = await app.client().initialize();
    const stream = await (await client.call('talks')).sse().count(1);
    hanging = true;
    expect((await client.delete()).status).toBe(204);
    await app.settled({ sessions: 0, live: 0 });
    await clock.advance(1_000);
    await stream.end();
    await app.settled(NOTHING);
    hang.open();
    await app.settled(NOTHING);
    await app.close();
  });
});
