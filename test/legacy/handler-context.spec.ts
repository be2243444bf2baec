import { scripted } from '../support/scripted-server.js';
import { EventEmitter } from 'node:events';
import { readFile } from 'node:fs';
import { Inject, Injectable } from '@nestjs/common';
import { currentMcpCall, McpSessionService, type McpCall } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import type { Server, ServerContext } from '@modelcontextprotocol/server';
import { defer, lastValueFrom, mergeMap, range, tap, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestApp } from '../support/app.js';
import { gists, log } from '../support/messages.js';
import { runningApps } from '../support/running-apps.js';
import { as, trustingGuard } from '../support/users.js';

interface Voice {
  ctx: ServerContext;
  server: Server;
  service: McpSessionService;
}

/** How a handler, or whatever it calls, may say something. */
const WAYS_TO_SAY: Record<string, (voice: Voice, what: unknown) => Promise<unknown>> = {
  'ctx.mcpReq.notify': ({ ctx }, what) => ctx.mcpReq.notify(log(what)),
  'ctx.mcpReq.log': ({ ctx }, what) => ctx.mcpReq.log('info', what),
  'server.sendLoggingMessage': ({ server }, what) => server.sendLoggingMessage({ level: 'info', data: what }),
  'server.notification': ({ server }, what) => server.notification(log(what)),
  'McpSessionService.notify by id': ({ ctx, service }, what) => service.notify(ctx.sessionId!, log(what)),
  'McpSessionService.notify by filter': ({ ctx, service }, what) =>
    service.notify(({ id }) => id === ctx.sessionId, log(what)),
};

const later = <T>(schedule: (run: () => void) => void, task: () => Promise<T>): Promise<T> =>
  new Promise((resolve, reject) => schedule(() => void task().then(resolve, reject)));

/** From where it may be said. */
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

describe.each(ONE_ADAPTER)('what a handler says, on %s', (adapter) => {
  const start = runningApps(adapter, { sseAfterMs: 60_000, clock: undefined });

  /** An app whose tool says something in a given way, in a given place. */
  async function speaking(): Promise<TestApp> {
    const app: TestApp = await start({
      server: scripted({
        speaks: async ({ way, place }, ctx, { server, context }) => {
          const voice: Voice = { ctx, server, service: context.sessions };
          await PLACES[String(place)]!((what) => WAYS_TO_SAY[String(way)]!(voice, what));
          return 'done';
        },
      }),
    });
    return app;
  }

  it.each(Object.keys(WAYS_TO_SAY))('P6: through %s reaches the stream of its own request', async (way) => {
    const app = await speaking();
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
      server: scripted({
        asks: async (_, ctx, { context }) => {
          const asked = [1, 2, 3].map(async () => {
            await new Promise((resolve) => void setImmediate(resolve));
            return context.sessions.request(ctx.sessionId!, { method: 'roots/list' });
          });
          const answers = await Promise.all(asked);
          return answers.map(({ roots }) => roots[0]!.uri).join();
        },
      }),
    });
    const client = await app.client().initialize('2025-11-25', { roots: {} });
    const stream = await (await client.call('asks')).sse().count(3);
    for (const [n, { id }] of stream.messages.entries()) await client.respond(id, { roots: [{ uri: `file:///${n}` }] });
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages).at(-1)).toBe('file:///0,file:///1,file:///2');
  });

  it('P6: through a provider deep below that knows nothing of the request', async () => {
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
      server: scripted({
        works: async () => {
          await app.app.get(Deep).work();
          return 'done';
        },
      }),
    });
    const client = await app.client().initialize();
    const stream = (await client.call('works')).sse();
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['from below', 'done']);
  });

  it('P6: of many calls at once, in several sessions with the same ids, never gets mixed up', async () => {
    const places = Object.keys(PLACES);
    const ways = Object.keys(WAYS_TO_SAY);
    const app: TestApp = await start({
      server: scripted({
        chats: async ({ me }, ctx, { server, context }) => {
          const voice: Voice = { ctx, server, service: context.sessions };
          for (let n = 0; n < 12; n++) {
            const seed = Number(String(me).split('.')[1]) + n;
            const say = () => WAYS_TO_SAY[ways[seed % ways.length]!]!(voice, `${String(me)} says ${n}`);
            await PLACES[places[(seed * 7) % places.length]!]!(say);
          }
          return `${String(me)} is done`;
        },
      }),
    });
    const clients = await Promise.all([1, 2, 3].map(() => app.client().initialize()));
    const standalones = await Promise.all(clients.map((client) => client.listen()));
    const talks = clients.flatMap((client, which) =>
      Array.from({ length: 25 }, async (_, id) => {
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
  });

  it('P6: to another session goes to the standalone stream there, whatever runs there under the same id', async () => {
    const hold = gate();
    const entered = gate();
    const app: TestApp = await start({
      server: scripted({
        waits: async (_, ctx) => {
          await ctx.mcpReq.notify(log('mine'));
          entered.open();
          await hold.promise;
          return 'done';
        },
        tells: async ({ whom }, _, { context }) => {
          await context.sessions.notify(String(whom), log('from elsewhere'));
          return 'told';
        },
      }),
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

  it('P6: to all sessions goes to its own stream at home, and to the standalone streams elsewhere', async () => {
    const app: TestApp = await start({
      server: scripted({
        announces: async (_, __, { context }) => String(await context.sessions.notify(() => true, log('news'))),
      }),
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

  it('P6: an explicit context wins over the one in which it is said', async () => {
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

  it('P6: an explicit context of another session reaches that session', async () => {
    const first = gate<ServerContext>();
    const release = gate();
    const app = await start({
      server: scripted({
        waits: async (_, ctx) => {
          first.open(ctx);
          await release.promise;
          return 'done';
        },
        'speaks for the other': async () => {
          await (await first.promise).mcpReq.notify(log('through the other context'));
          return 'done';
        },
      }),
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

  it('P6: outside of any call goes to the standalone stream', async () => {
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

  it('P6: the context tells whose request it is, to the last of many at once', async () => {
    const app = await start({
      guards: [trustingGuard],
      server: scripted({
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
      }),
    });
    const calls = ['alice', 'bob'].map(async (user) => {
      const client = await app.client(as(user)).initialize();
      const answers = Array.from({ length: 30 }, async (_, id) => {
        const nonce = `${user}-${id}`;
        const response = await client.post(client.toolCall('who am I', {}, { id }), { 'x-nonce': nonce });
        expect(gists([await response.json()])).toEqual([[user, id, client.sessionId, nonce, 'tools/call'].join()]);
      });
      await Promise.all(answers);
    });
    await Promise.all(calls);
  });
});
