import { Server } from '@modelcontextprotocol/server';
import { NEVER, type Subscription } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import { deferred } from '../base/deferred.js';
import { InMemoryMessageBus, InMemoryMessageHub } from '../bus/in-memory-message-bus.js';
import type { McpHttpCall } from '../context/mcp-call.js';
import { InMemoryEventStore } from '../stream/in-memory-event-store.js';
import { ManualClock } from '../testing/index.js';
import type { JsonRpcMessage } from '../wire/json-rpc.js';
import { InMemorySessionStore } from './in-memory-session-store.js';
import type { LiveSession } from './live-session.js';
import type { McpSessionEvent } from './session-events.js';
import { furnishSessionRoom } from './session-room.js';
import { resolveSessionOptions, type McpSessionOptions } from './session.options.js';
import type { InitializeParams, McpSessionStore } from './session-store.js';

const IDLE_MS = 10_000;
const KEEP_ALIVE_MS = 60_000;
const HTTP: McpHttpCall = { era: 'legacy', principal: undefined, request: undefined };
const INITIALIZE: InitializeParams = {
  ...{ protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'spec', version: '1' } },
};

/** What several nodes have in common; a node alone has it to itself. */
function shared(clock = new ManualClock()) {
  const hub = new InMemoryMessageHub();
  return { clock, hub, sessionStore: new InMemorySessionStore(clock), eventStore: new InMemoryEventStore({}, clock) };
}

type Make = (server: Server, count: number) => void | Promise<void>;

function node(name = 'a', with_ = shared(), make: Make = () => {}, options: McpSessionOptions = {}) {
  const { clock, hub, sessionStore, eventStore } = with_;
  const bus = new InMemoryMessageBus(name, hub);
  const servers: Server[] = [];
  const factory = {
    create: async () => {
      const server = new Server({ name: 'spec', version: '1' }, { capabilities: { logging: {}, resources: {} } });
      servers.push(server);
      await make(server, servers.length);
      return server;
    },
  };
  const room = furnishSessionRoom({
    ...{ clock, sessionStore, eventStore, bus, factory, keepAliveMs: KEEP_ALIVE_MS },
    options: resolveSessionOptions({ idleTimeoutMs: IDLE_MS, sseAfterMs: 1_000_000, ...options }),
  });
  const events: McpSessionEvent[] = [];
  room.events$.subscribe((event) => events.push(event));
  const { sessions } = room;

  /** A session as `initialize` begins one. */
  const begin = async (id: string): Promise<LiveSession> => {
    await eventStore.open(id);
    const { protocolVersion, clientInfo, capabilities: clientCapabilities } = INITIALIZE;
    const live = await sessions.connect(
      { id, principal: undefined, protocolVersion, clientInfo, clientCapabilities },
      {},
    );
    const message = { jsonrpc: '2.0', id: 0, method: 'initialize', params: INITIALIZE } as unknown as JsonRpcMessage;
    await live.session.receive(HTTP, { batch: false, messages: [message] }).reply;
    await sessionStore.create({ id, protocolVersion, initialize: INITIALIZE });
    sessions.add(live);
    return live;
  };
  const closed = () =>
    events.flatMap((event) => (event.type === 'closed' ? [`${event.sessionId} ${event.reason}`] : []));
  /** Records, live copies, logs and timers. */
  const left = async () => {
    const { sessions: logs } = await eventStore.stats();
    return [await sessionStore.count(), sessions.size, logs, clock.pending];
  };
  return { clock, sessionStore, eventStore, sessions, servers, events, begin, closed, left, with_ };
}

const NOTHING = [0, 0, 0, 0];

const ping = (id: number): JsonRpcMessage => ({ jsonrpc: '2.0', id, method: 'ping' });
const request = ({ session }: LiveSession, message: JsonRpcMessage) =>
  session.receive(HTTP, { batch: false, messages: [message] });

/** Opens the standalone stream. */
async function listen({ session }: LiveSession): Promise<Subscription> {
  const reply = await session.open();
  if (reply.kind !== 'stream') throw new Error(`The reply is ${reply.kind}.`);
  return reply.open({ paused: false, resumed$: NEVER }).subscribe();
}

describe('the sweeper', () => {
  it('is there while there are sessions, and not longer', async () => {
    const { clock, sessions, begin, left } = node();
    expect(clock.pending).toBe(0);
    await begin('s');
    await begin('t');
    expect(clock.pending).toBe(1);
    await sessions.end('s', 'deleted');
    await sessions.settled();
    expect(clock.pending).toBe(1);
    await sessions.end('t', 'deleted');
    await sessions.settled();
    expect(await left()).toEqual(NOTHING);
  });

  it('stays for a session that comes while the last one goes', async () => {
    const { clock, sessionStore, sessions, begin } = node();
    await begin('s');
    const counting = deferred();
    vi.spyOn(sessionStore, 'count').mockImplementationOnce(async () => {
      await counting.promise;
      return 0;
    });
    await sessions.end('s', 'deleted');
    await clock.advance(0);
    const live = await begin('t');
    counting.resolve();
    await sessions.settled();
    expect(clock.pending).toBe(1);
    await clock.advance(2 * IDLE_MS);
    expect(sessions.peek(live.session.sessionId)).toBeUndefined();
    expect(clock.pending).toBe(0);
  });

  it('S13: ends what was idle for long enough, and leaves nothing of it', async () => {
    const { clock, begin, closed, left } = node();
    await begin('s');
    await clock.advance(IDLE_MS / 2);
    await begin('t');
    await clock.advance(IDLE_MS / 2 - 1);
    expect(closed()).toEqual([]);
    await clock.advance(1);
    expect(closed()).toEqual(['s idle']);
    await clock.advance(IDLE_MS);
    expect(closed()).toEqual(['s idle', 't idle']);
    expect(await left()).toEqual(NOTHING);
  });

  it('S13: keeps alive whoever sends, is served, or listens', async () => {
    const hold = deferred();
    const { clock, begin, closed, left } = node('a', shared(), (server) => {
      server.setRequestHandler('resources/list', async () => {
        await hold.promise;
        return { resources: [] };
      });
    });
    const [sends, served, listens] = [await begin('sends'), await begin('served'), await begin('listens')];
    await begin('idle');
    const serving = request(served, { jsonrpc: '2.0', id: 1, method: 'resources/list' });
    const listening = await listen(listens);
    for (let n = 0; n < 6; n++) {
      await clock.advance(IDLE_MS / 2);
      await request(sends, ping(n)).reply;
    }
    expect(closed()).toEqual(['idle idle']);
    hold.resolve();
    await serving.reply;
    listening.unsubscribe();
    await clock.advance(2 * IDLE_MS);
    expect(closed().toSorted()).toEqual(['idle idle', 'listens idle', 'sends idle', 'served idle']);
    expect(await left()).toEqual(NOTHING);
  });

  it('tells the store of a sign of life ten times per idle timeout at most', async () => {
    const { clock, sessionStore, sessions, begin } = node();
    const touch = vi.spyOn(sessionStore, 'touch');
    const live = await begin('s');
    for (let n = 0; n < 1_000; n++) {
      await clock.advance(IDLE_MS / 100);
      await sessions.acquire('s');
      await request(live, ping(n)).reply;
    }
    expect(touch.mock.calls.length).toBeLessThanOrEqual(100);
    expect(touch.mock.calls.length).toBeGreaterThan(80);
    await sessions.end('s', 'deleted');
  });

  it('notices that a session has ended elsewhere', async () => {
    const { clock, sessionStore, eventStore, begin, closed, sessions } = node();
    const live = await begin('s');
    await listen(live);
    await sessionStore.delete('s');
    await clock.advance(IDLE_MS / 5);
    expect([closed(), sessions.size]).toEqual([['s ended-elsewhere'], 0]);
    // Whoever took the record cleans up the rest.
    expect((await eventStore.stats()).sessions).toBe(1);
  });

  it('goes on when the store fails', async () => {
    const { clock, sessionStore, events, begin, closed } = node();
    const live = await begin('s');
    const listening = await listen(live);
    const away = async (): Promise<never> => {
      throw new Error('away');
    };
    const failing = [vi.spyOn(sessionStore, 'touch'), vi.spyOn(sessionStore, 'claimExpired')];
    for (const method of failing) method.mockImplementation(away);
    await clock.advance(IDLE_MS / 2);
    expect(events.filter(({ type }) => type === 'store-fault').length).toBeGreaterThan(1);
    expect(closed()).toEqual([]);
    for (const method of failing) method.mockRestore();
    await clock.advance(2 * IDLE_MS);
    expect(closed()).toEqual([]);
    listening.unsubscribe();
    await clock.advance(2 * IDLE_MS);
    expect(closed()).toEqual(['s idle']);
  });

  it('tells the log how far the readers have come', async () => {
    const { clock, eventStore, sessions, begin } = node();
    const live = await begin('s');
    await listen(live);
    await live.session.send({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'x' } });
    await clock.advance(0);
    expect((await eventStore.describe('s', '0'))?.delivered).toBe(0);
    await clock.advance(IDLE_MS / 10);
    expect((await eventStore.describe('s', '0'))?.delivered).toBe(1);
    await sessions.end('s', 'deleted');
  });

  it('never touches nor ends sessions that may idle for ever', async () => {
    const { clock, sessions, begin, left } = node('a', shared(), () => {}, { idleTimeoutMs: Infinity });
    await begin('s');
    await clock.advance(1_000 * KEEP_ALIVE_MS);
    expect(sessions.size).toBe(1);
    await sessions.end('s', 'deleted');
    await sessions.settled();
    expect(await left()).toEqual(NOTHING);
  });
});

describe('a session without a live copy', () => {
  it('is rebuilt once, by whoever comes first: what the client said before is said again', async () => {
    const said: string[] = [];
    const { clock, sessionStore, sessions, events, servers, begin } = node('a', shared(), (server) => {
      const hear = (what: string) => {
        said.push(what);
        return {};
      };
      server.setRequestHandler('resources/subscribe', ({ params }) => hear(params.uri));
      server.setRequestHandler('logging/setLevel', ({ params }) => hear(params.level));
    });
    const first = await begin('s');
    await request(first, { jsonrpc: '2.0', id: 1, method: 'logging/setLevel', params: { level: 'error' } }).reply;
    await request(first, { jsonrpc: '2.0', id: 2, method: 'resources/subscribe', params: { uri: 'doc:a' } }).reply;
    expect(await sessionStore.get('s')).toMatchObject({ logLevel: 'error', subscriptions: ['doc:a'] });
    await sessions.release('s');
    expect([sessions.size, await sessionStore.count(), clock.pending]).toEqual([0, 1, 1]);
    const copies = await Promise.all([sessions.acquire('s'), sessions.acquire('s'), sessions.acquire('s')]);
    expect(new Set(copies).size).toBe(1);
    expect(servers).toHaveLength(2);
    expect(said).toEqual(['error', 'doc:a', 'error', 'doc:a']);
    expect(copies[0]!.session.info).toEqual(first.session.info);
    expect(events.filter(({ type }) => type === 'rebuilt')).toHaveLength(1);
    expect(await request(copies[0]!, ping(3)).reply).toMatchObject({ kind: 'json' });
    await sessions.end('s', 'deleted');
  });

  it('still ends when it is idle', async () => {
    const { clock, sessions, begin, closed, left } = node();
    await begin('s');
    await sessions.release('s');
    await clock.advance(2 * IDLE_MS);
    expect(closed()).toEqual(['s idle']);
    expect(await left()).toEqual(NOTHING);
  });

  it('that has no record is not made', async () => {
    const { sessions, servers, left } = node();
    expect(await sessions.acquire('unknown')).toBeUndefined();
    expect(await sessions.acquire('__proto__')).toBeUndefined();
    expect([servers.length, await left()]).toEqual([0, NOTHING]);
  });

  const failures: [why: string, make: Make, message: string][] = [
    ['the factory fails', () => Promise.reject(new Error('no server today')), 'no server today'],
    [
      'the server refuses',
      (server) => server.setRequestHandler('initialize', () => Promise.reject(new Error('not you'))),
      'not you',
    ],
    ['the server is connected already', (server) => server.connect(deadTransport), 'already connected'],
  ];
  it.each(failures)('stays without one when %s, and is tried again the next time', async (_, fail, message) => {
    const { sessions, begin } = node('a', shared(), (server, count) => (count === 2 ? fail(server, count) : undefined));
    await begin('s');
    await sessions.release('s');
    await expect(sessions.acquire('s')).rejects.toThrow(message);
    expect(sessions.size).toBe(0);
    expect(await sessions.acquire('s')).toBeDefined();
    await sessions.end('s', 'deleted');
  });

  it('that ends when its record was read already is gone, with its log', async () => {
    const hold = deferred();
    const { sessionStore, sessions, begin, left } = node();
    await begin('s');
    await sessions.release('s');
    const record = await sessionStore.get('s');
    vi.spyOn(sessionStore, 'get').mockImplementationOnce(() => hold.promise.then(() => record));
    const acquired = sessions.acquire('s');
    await sessions.end('s', 'deleted');
    await sessions.settled();
    hold.resolve();
    expect(await acquired).toBeUndefined();
    expect(await left()).toEqual(NOTHING);
  });

  it('that ends while its server is made is gone, with its log: nobody waits for the server', async () => {
    const { sessions, begin, closed, left } = node('a', shared(), (_, count) => (count > 1 ? never : undefined));
    await begin('s');
    await sessions.release('s');
    const acquired = sessions.acquire('s');
    await new Promise(setImmediate);
    expect(await sessions.end('s', 'deleted')).toBe(true);
    await sessions.settled();
    expect(await acquired).toBeUndefined();
    expect([closed(), await left()]).toEqual([['s deleted'], NOTHING]);
  });
});

describe('an end', () => {
  it('comes to one caller, whoever asks', async () => {
    const { sessions, begin, closed, left } = node();
    await begin('s');
    const asked = await Promise.all([sessions.end('s', 'deleted'), sessions.end('s', 'terminated')]);
    expect(asked).toEqual([true, false]);
    expect(await sessions.end('unknown', 'deleted')).toBe(false);
    await sessions.settled();
    expect([closed(), await left()]).toEqual([['s deleted'], NOTHING]);
  });

  it('S14: comes from the server itself, when it is closed', async () => {
    const { clock, begin, closed, left } = node();
    const { server } = await begin('s');
    await server.close();
    await clock.advance(0);
    expect([closed(), await left()]).toEqual([['s terminated'], NOTHING]);
  });

  it('reaches every live copy', async () => {
    const with_ = shared();
    const [here, there] = [node('a', with_), node('b', with_)];
    await here.begin('s');
    const copy = await there.sessions.acquire('s');
    expect([here.sessions.size, there.sessions.size]).toEqual([1, 1]);
    await there.sessions.end('s', 'deleted');
    await with_.clock.advance(0);
    expect([here.closed(), there.closed()]).toEqual([['s ended-elsewhere'], ['s deleted']]);
    expect(() => request(copy!, ping(1))).toThrow('The session has ended');
    expect(await here.left()).toEqual(NOTHING);
  });
});

describe('shutdown', () => {
  it('S15: ends everything of this process, live or not', async () => {
    const { sessions, begin, closed, left } = node();
    await begin('s');
    await begin('t');
    await sessions.release('t');
    await sessions.shutdown();
    expect([closed().toSorted(), await left()]).toEqual([['s shutdown', 't shutdown'], NOTHING]);
  });

  it('S15: leaves to other nodes what they share', async () => {
    const with_ = shared();
    const [sessionStore, eventStore] = [asShared(with_.sessionStore), asShared(with_.eventStore)];
    const { sessions, begin, closed } = node('a', { ...with_, sessionStore, eventStore });
    await begin('s');
    await sessions.shutdown();
    expect([closed(), sessions.size, with_.clock.pending]).toEqual([['s shutdown'], 0, 0]);
    expect([await sessionStore.count(), (await eventStore.stats()).sessions]).toEqual([1, 1]);
    const other = node('b', { ...with_, sessionStore, eventStore });
    expect(await other.sessions.acquire('s')).toBeDefined();
    await other.sessions.end('s', 'deleted');
  });

  it('does not wait for a server that is being made, nor leaves anything of it', async () => {
    const { sessions, begin, left } = node('a', shared(), (_, count) => (count > 1 ? never : undefined));
    await begin('s');
    await sessions.release('s');
    const outcome = refusalOf(sessions.acquire('s'));
    await new Promise(setImmediate);
    await sessions.shutdown();
    expect(await outcome).toBe('UNAVAILABLE');
    expect(await left()).toEqual(NOTHING);
  });

  it('ends what becomes live only now', async () => {
    const { sessions, begin, closed } = node();
    await begin('s');
    await sessions.shutdown();
    const late = await begin('late');
    await sessions.settled();
    expect([sessions.closing, sessions.size, closed()]).toEqual([true, 0, ['s shutdown', 'late shutdown']]);
    expect(sessions.add(late)).toBe(false);
  });

  it('does not leave a rebuilding hanging whose server does not answer', async () => {
    const { sessions, begin, left } = node('a', shared(), (server, count) => {
      if (count === 2) server.setRequestHandler('initialize', () => new Promise(() => {}));
    });
    await begin('s');
    await sessions.release('s');
    const outcome = refusalOf(sessions.acquire('s'));
    await new Promise(setImmediate);
    await sessions.shutdown();
    expect(await outcome).toBe('UNAVAILABLE');
    expect(await left()).toEqual(NOTHING);
  });

  it('answers its calls although the store is away', async () => {
    const { sessionStore, sessions, events, begin, closed } = node();
    const live = await begin('s');
    vi.spyOn(sessionStore, 'list').mockRejectedValue(new Error('away'));
    await sessions.shutdown();
    expect(closed()).toEqual(['s shutdown']);
    expect(() => request(live, ping(1))).toThrow('The session has ended');
    expect(events.map(({ type }) => type)).toContain('store-fault');
  });
});

/** The same store as one that other nodes see too. */
function asShared<Store extends McpSessionStore | InMemoryEventStore>(store: Store): Store {
  return new Proxy(store, {
    get: (target, name) => {
      const member: unknown = name === 'scope' ? 'shared' : Reflect.get(target, name);
      return typeof member === 'function' ? (member.bind(target) as unknown) : member;
    },
  });
}

const never = new Promise<void>(() => {});

/** The code of the error that a promise rejects with. */
function refusalOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => 'none',
    (error: unknown) => (error as { code?: unknown }).code,
  );
}

const deadTransport = { start: async () => {}, send: async () => {}, close: async () => {} };
