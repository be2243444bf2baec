import { EventEmitter } from 'node:events';
import { readFile } from 'node:fs';
import { Inject, Injectable } from '@nestjs/common';
import { currentMcpCall, McpSessionService, type McpCall, type McpContext } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import type { Server, ServerContext } from '@modelcontextprotocol/server';
import { defer, lastValueFrom, mergeMap, range, tap, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestApp, type TestTool } from '../support/app.js';
import { gists, log } from '../support/messages.js';
import { testApps } from '../support/test-apps.js';
import { scripted } from '../support/scripted-server.js';
import { as, trustingGuard } from '../support/users.js';

/** Sends a log message, in a given way. */
type Speak = (way: string, what: unknown) => Promise<unknown>;

interface Voice {
  ctx: McpContext;
  sessions: McpSessionService;
}

/** How a handler, or what it calls, may send a log message. */
const WAYS_TO_SAY: Record<string, (voice: Voice, what: unknown) => Promise<unknown>> = {
  'ctx.log': ({ ctx }, what) => ctx.log('info', what),
  'ctx.notify': ({ ctx }, what) => ctx.notify('notifications/message', log(what).params),
  'McpSessionService.notify by id': ({ ctx, sessions }, what) => sessions.notify(ctx.session!.id, log(what)),
  'McpSessionService.notify by filter': ({ ctx, sessions }, what) =>
    sessions.notify(({ id }) => id === ctx.session!.id, log(what)),
};

interface SdkVoice {
  ctx: ServerContext;
  server: Server;
}

const SDK_WAYS_TO_SAY: Record<string, (voice: SdkVoice, what: unknown) => Promise<unknown>> = {
  'ctx.mcpReq.notify': ({ ctx }, what) => ctx.mcpReq.notify(log(what)),
  'ctx.mcpReq.log': ({ ctx }, what) => ctx.mcpReq.log('info', what),
  'server.sendLoggingMessage': ({ server }, what) => server.sendLoggingMessage({ level: 'info', data: what }),
  'server.notification': ({ server }, what) => server.notification(log(what)),
};

const later = <T>(schedule: (run: () => void) => void, task: () => Promise<T>): Promise<T> =>
  new Promise((resolve, reject) => schedule(() => void task().then(resolve, reject)));

/** From where it may be sent. */
const PLACES: Record<string, (say: (what: unknown) => Promise<unknown>) => Promise<unknown>> = {
  'the handler itself': (say) => say('it'),
  'after awaits': async (say) => {
    for (let n = 0; n < 5; n++) await Promise.resolve(n);
    await new Promise((resolve) => void setImmediate(resolve));
    await say('it');
  },
  'a timer': (say) =>
    later(
      (run) => void setTimeout(run, 1),
      () => say('it'),
    ),
  'the next turn': (say) =>
    later(
      (run) => void setImmediate(run),
      () => say('it'),
    ),
  'the next tick': (say) =>
    later(
      (run) => process.nextTick(run),
      () => say('it'),
    ),
  'a microtask': (say) =>
    later(
      (run) => queueMicrotask(run),
      () => say('it'),
    ),
  'Promise.all': (say) => Promise.all([Promise.resolve(1), say('it'), Promise.resolve(2)]),
  'an event that the handler emits': (say) => {
    const emitter = new EventEmitter();
    const said = new Promise((resolve, reject) => {
      emitter.on('now', () => void say('it').then(resolve, reject));
    });
    emitter.emit('now');
    return said;
  },
  'a callback of Node': (say) =>
    later(
      (run) => readFile(import.meta.filename, () => run()),
      () => say('it'),
    ),
  'an async generator': async (say) => {
    async function* steps() {
      yield await Promise.resolve(1);
      await say('it');
      yield 2;
    }
    for await (const _ of steps()) await Promise.resolve();
  },
  'an Observable': (say) => lastValueFrom(defer(() => timer(1)).pipe(mergeMap(() => say('it')))),
};

/** Says "it" in a given way, in a given place. */
async function speak({ way, place }: Record<string, unknown>, say: Speak): Promise<string> {
  await PLACES[String(place)]!((what) => say(String(way), what));
  return 'done';
}

/** Says twelve things, each in another way and place. */
async function chat({ me }: Record<string, unknown>, ways: readonly string[], say: Speak): Promise<string> {
  const places = Object.keys(PLACES);
  for (let n = 0; n < 12; n++) {
    const seed = Number(String(me).split('.')[1]) + n;
    await PLACES[places[(seed * 7) % places.length]!]!(() => say(ways[seed % ways.length]!, `${String(me)} says ${n}`));
  }
  return `${String(me)} is done`;
}

/** Calls of many clients at once, of the tool `chats`: each stream has the messages of its own call. */
async function expectNoMixUp(app: TestApp): Promise<void> {
  const clients = await Promise.all([1, 2, 3].map(() => app.client().initialize()));
  const standalones = await Promise.all(clients.map((client) => client.listen()));
  const talks = clients.flatMap((client, which) =>
    Array.from({ length: 8 }, async (_, id) => {
      const me = `${which}.${id}`;
      const stream = (await client.call('chats', { me }, { id })).sse();
      await stream.end();
      const said = Array.from({ length: 12 }, (__, n) => `${me} says ${n}`);
      expect(gists(stream.messages)).toEqual([...said, `${me} is done`]);
      expect(stream.messages.at(-1).id).toBe(id);
    }),
  );
  await Promise.all(talks);
  for (const standalone of standalones) {
    expect(standalone.events).toEqual([]);
    standalone.destroy();
  }
  await app.settled({ inFlight: 0, streams: 0, readers: 0 });
}

describe.each(ONE_ADAPTER)('messages of a handler on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, clock: undefined });
  const say =
    (voice: Voice): Speak =>
    (way, what) =>
      WAYS_TO_SAY[way]!(voice, what);
  const chatty = {
    tools: {
      speaks: (args, ctx, sessions) => speak(args, say({ ctx, sessions })),
      chats: (args, ctx, sessions) => chat(args, Object.keys(WAYS_TO_SAY), say({ ctx, sessions })),
    } satisfies Record<string, TestTool>,
  };

  it.each(Object.keys(WAYS_TO_SAY))('P6: a message sent by %s goes to the stream of its own request', async (way) => {
    const app = await start(chatty);
    const client = await app.client().initialize();
    const standalone = await client.listen();
    for (const place of Object.keys(PLACES)) {
      const stream = (await client.call('speaks', { way, place })).sse();
      expect(await stream.end()).toBe('end');
      expect([place, ...gists(stream.messages)]).toEqual([place, 'it', 'done']);
    }
    expect(standalone.events).toEqual([]);
    standalone.destroy();
  });

  it('P6: a question through McpSessionService travels on the stream of its own request', async () => {
    const app: TestApp = await start({
      tools: {
        asks: async (_, ctx, sessions) => {
          const asked = [1, 2, 3].map(async () => {
            await new Promise((resolve) => void setImmediate(resolve));
            return sessions.request(ctx.session!.id, { method: 'roots/list' });
          });
          const answers = await Promise.all(asked);
          return answers.map(({ roots }) => roots[0]!.uri).join();
        },
      },
    });
    const client = await app.client().initialize('2025-11-25', { roots: {} });
    const stream = await (await client.call('asks')).sse().count(3);
    for (const [n, { id }] of stream.messages.entries()) await client.respond(id, { roots: [{ uri: `file:///${n}` }] });
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages).at(-1)).toBe('file:///0,file:///1,file:///2');
  });

  it('P6: a message of a provider deep below the handler goes to the stream of its request', async () => {
    @Injectable()
    class Deep {
      constructor(@Inject(McpSessionService) private readonly sessions: McpSessionService) {}
      async work(): Promise<void> {
        const { session } = currentMcpCall()!;
        await Promise.resolve();
        await this.sessions.notify(session!.id, log('from below'));
      }
    }
    const app: TestApp = await start({
      isGlobal: true,
      module: { providers: [Deep] },
      tools: {
        works: async () => {
          await app.app.get(Deep).work();
          return 'done';
        },
      },
    });
    const client = await app.client().initialize();
    const stream = (await client.call('works')).sse();
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['from below', 'done']);
  });

  it('P6: messages of many calls at once, in sessions with the same ids, never get mixed up', async () => {
    const app = await start(chatty);
    await expectNoMixUp(app);
  });

  it('P6: a message to another session goes to its standalone stream, also when a call with the same id runs there', async () => {
    const hold = gate();
    const entered = gate();
    const app: TestApp = await start({
      tools: {
        waits: async (_, ctx) => {
          await ctx.log('info', 'mine');
          entered.open();
          await hold.promise;
          return 'done';
        },
        tells: async ({ whom }, _, sessions) => {
          await sessions.notify(String(whom), log('from elsewhere'));
          return 'told';
        },
      },
    });
    const [one, other] = [await app.client().initialize(), await app.client().initialize()];
    const standalone = await other.listen();
    const running = await (await other.call('waits', {}, { id: 'same' })).sse().count(1);
    await entered.promise;
    const told = await one.call('tells', { whom: other.sessionId }, { id: 'same' });
    expect(gists([await told.json()])).toEqual(['told']);
    await standalone.count(1);
    hold.open();
    expect(await running.end()).toBe('end');
    expect(gists(standalone.messages)).toEqual(['from elsewhere']);
    expect(gists(running.messages)).toEqual(['mine', 'done']);
    standalone.destroy();
  });

  it('P6: a message to all sessions goes to the stream of its request, and to the standalone streams of the others', async () => {
    const app: TestApp = await start({
      tools: {
        announces: async (_, __, sessions) => String(await sessions.notify(() => true, log('news'))),
      },
    });
    const clients = await Promise.all([1, 2, 3].map(() => app.client().initialize()));
    const standalones = await Promise.all(clients.map((client) => client.listen()));
    const stream = (await clients[0]!.call('announces')).sse();
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['news', '3']);
    await Promise.all(standalones.slice(1).map((standalone) => standalone.count(1)));
    expect(standalones.map(({ messages }) => gists(messages))).toEqual([[], ['news'], ['news']]);
    for (const standalone of standalones) standalone.destroy();
  });

  it('P6: a message through the context of another call goes to the stream of that call', async () => {
    const first = gate<McpContext>();
    const release = gate();
    const app = await start({
      tools: {
        waits: async (_, ctx) => {
          await ctx.log('info', 'begun');
          first.open(ctx);
          await release.promise;
          return 'done';
        },
        'speaks for the other': async (_, ctx) => {
          const other = await first.promise;
          await other.log('info', 'through the other context');
          await ctx.log('info', 'for itself');
          return 'done';
        },
      },
    });
    const client = await app.client().initialize();
    const waiting = (await client.call('waits')).sse();
    const speaking = (await client.call('speaks for the other')).sse();
    expect(await speaking.end()).toBe('end');
    release.open();
    expect(await waiting.end()).toBe('end');
    expect(gists(speaking.messages)).toEqual(['for itself', 'done']);
    expect(gists(waiting.messages)).toEqual(['begun', 'through the other context', 'done']);
  });

  it('P6: a message through the context of another session goes to that session', async () => {
    const first = gate<McpContext>();
    const release = gate();
    const app = await start({
      tools: {
        waits: async (_, ctx) => {
          first.open(ctx);
          await release.promise;
          return 'done';
        },
        'speaks for the other': async () => {
          await (await first.promise).log('info', 'through the other context');
          return 'done';
        },
      },
    });
    const [one, other] = [await app.client().initialize(), await app.client().initialize()];
    const waiting = one.call('waits', {}, { id: 'same' });
    await first.promise;
    const speaking = await other.call('speaks for the other', {}, { id: 'same' });
    expect(gists([await speaking.json()])).toEqual(['done']);
    release.open();
    const stream = (await waiting).sse();
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['through the other context', 'done']);
  });

  it('P6: currentMcpCall() is the call of its handler, in many calls at once', async () => {
    const app = await start({
      guards: [trustingGuard],
      tools: {
        'who am I': async () => {
          const seen: unknown[] = [];
          await lastValueFrom(
            range(3).pipe(
              mergeMap(() => timer(1)),
              tap(() => {
                const { principal, requestId, session, request, method } = currentMcpCall()!;
                const { headers } = request as { headers: Record<string, string> };
                seen.push([principal, requestId, session!.id, headers['x-nonce'], method].join());
              }),
            ),
          );
          return [...new Set(seen)].join(';');
        },
      },
    });
    const calls = ['alice', 'bob'].map(async (user) => {
      const client = await app.client(as(user)).initialize();
      const answers = Array.from({ length: 10 }, async (_, id) => {
        const nonce = `${user}-${id}`;
        const response = await client.post(client.toolCall('who am I', {}, { id }), { 'x-nonce': nonce });
        expect(gists([await response.json()])).toEqual([[user, id, client.sessionId, nonce, 'tools/call'].join()]);
      });
      await Promise.all(answers);
    });
    await Promise.all(calls);
  });
});

describe.each(ONE_ADAPTER)('with an SDK server: messages of a handler on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, clock: undefined });
  const say =
    (voice: SdkVoice): Speak =>
    (way, what) =>
      SDK_WAYS_TO_SAY[way]!(voice, what);
  const chatty = {
    server: scripted({
      speaks: (args, ctx, { server }) => speak(args, say({ ctx, server })),
      chats: (args, ctx, { server }) => chat(args, Object.keys(SDK_WAYS_TO_SAY), say({ ctx, server })),
    }),
  };

  it.each(Object.keys(SDK_WAYS_TO_SAY))(
    'P6: a message sent by %s goes to the stream of its own request',
    async (way) => {
      const app = await start(chatty);
      const client = await app.client().initialize();
      const standalone = await client.listen();
      for (const place of Object.keys(PLACES)) {
        const stream = (await client.call('speaks', { way, place })).sse();
        expect(await stream.end()).toBe('end');
        expect([place, ...gists(stream.messages)]).toEqual([place, 'it', 'done']);
      }
      expect(standalone.events).toEqual([]);
      standalone.destroy();
    },
  );

  it('P6: messages of many calls at once, in sessions with the same ids, never get mixed up', async () => {
    const app = await start(chatty);
    await expectNoMixUp(app);
  });

  it('P6: a message with the id of another request goes to the stream of that request', async () => {
    const first = gate<ServerContext>();
    const release = gate();
    const app = await start({
      server: scripted({
        waits: async (_, ctx) => {
          await ctx.mcpReq.notify(log('begun'));
          first.open(ctx);
          await release.promise;
          return 'done';
        },
        'speaks for the other': async (_, ctx, { server }) => {
          const other = await first.promise;
          await other.mcpReq.notify(log('through the other context'));
          await server.notification(log('by id'), { relatedRequestId: other.mcpReq.id });
          await ctx.mcpReq.notify(log('for itself'));
          return 'done';
        },
      }),
    });
    const client = await app.client().initialize();
    const waiting = (await client.call('waits')).sse();
    const speaking = (await client.call('speaks for the other')).sse();
    expect(await speaking.end()).toBe('end');
    release.open();
    expect(await waiting.end()).toBe('end');
    expect(gists(speaking.messages)).toEqual(['for itself', 'done']);
    expect(gists(waiting.messages)).toEqual(['begun', 'through the other context', 'by id', 'done']);
  });

  it('P6: a message of a server outside of any request goes to the standalone stream', async () => {
    let initialized: McpCall | undefined;
    const app: TestApp = await start({
      clock: new ManualClock(),
      server: scripted({}, (server) => {
        server.oninitialized = () => {
          initialized = currentMcpCall();
          void server.sendLoggingMessage({ level: 'info', data: 'welcome' });
        };
      }),
    });
    const client = await app.client().initialize();
    const standalone = await (await client.listen()).count(1);
    expect(gists(standalone.messages)).toEqual(['welcome']);
    expect(currentMcpCall()).toBeUndefined();
    // A notification has a context too, if only for whoever wants to know who sent it.
    expect(initialized).toMatchObject({ method: 'notifications/initialized', requestId: undefined, era: 'legacy' });
    expect(initialized!.session?.id).toBe(client.sessionId);
    standalone.destroy();
  });
});
