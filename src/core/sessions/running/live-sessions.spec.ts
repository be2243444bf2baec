import { NEVER, type Subscription } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import { resolveOptions } from '../../common/options.js';
import { deferred } from '../../common/promises.js';
import { InMemoryMessageBus, InMemoryMessageHub } from '../../nodes/in-memory-message-bus.js';
import type { McpCall, McpHttpCall } from '../../calls/mcp-call.js';
import type { EndpointName } from '../../calls/endpoint-name.js';
import { CallObserver } from '../../calls/call-observer.js';
import type { McpDispatchedSession, McpDispatcher, McpSessionSettings } from '../../calls/mcp-dispatcher.js';
import { InMemoryEventStore } from '../../log/in-memory-event-store.js';
import { ManualClock } from '../../../testing/index.js';
import type { JsonRpcMessage } from '../../protocol/json-rpc.js';
import { InMemorySessionStore } from '../store/in-memory-session-store.js';
import { type LiveSession, LiveSessions } from './live-sessions.js';
import { BusNodes } from '../../nodes/bus-nodes.js';
import { NodeListener } from '../../nodes/node-listener.js';
import { McpSessionService } from '../mcp-session.service.js';
import { DeadNodes } from '../../nodes/dead-nodes.js';
import { McpSession } from './mcp-session.js';
import type { McpSessionEvent } from '../session-events.js';
import { SessionRuntime } from '../session-runtime.js';
import { SESSION_TABLE, type McpSessionOptions } from '../session.options.js';
import type { McpSessionStore } from '../store/session-store.js';

const AT_MCP: EndpointName = {
  name: undefined,
  path: 'mcp',
  version: '1',
  guarded: false,
  guards: [],
  interceptors: [],
};

const IDLE_MS = 10_000;
const KEEP_ALIVE_MS = 60_000;
const NO_CAPS = { total: Infinity, perPrincipal: Infinity };
const HTTP: McpHttpCall = { era: 'legacy', principal: undefined, request: undefined };
const INITIALIZE = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'spec', version: '1' } };

/** What several nodes have in common; a node alone has it to itself. */
function shared(clock = new ManualClock()) {
  const hub = new InMemoryMessageHub();
  return { clock, hub, sessionStore: new InMemorySessionStore(clock), eventStore: new InMemoryEventStore({}, clock) };
}

/** Says yes to everything, and notes what it hears of sessions. */
class SpecDispatcher implements McpDispatcher {
  readonly rebuilt: [id: string, said: McpSessionSettings][] = [];
  readonly changed: [id: string, said: McpSessionSettings][] = [];
  readonly ended: string[] = [];

  constructor(private readonly hooks: Hooks) {}

  request(call: McpCall): object | Promise<object> {
    if (call.method !== 'initialize') return this.hooks.serve?.(call) ?? {};
    return {
      protocolVersion: call.session!.protocolVersion,
      capabilities: {},
      serverInfo: { name: 'spec', version: '1' },
    };
  }
  notification(): void {}
  capabilities(): object {
    return {};
  }
  sessionEnded(session: McpDispatchedSession): void {
    this.ended.push(session.info.id);
  }
  sessionRebuilt(session: McpDispatchedSession, said: McpSessionSettings): void {
    this.rebuilt.push([session.info.id, said]);
  }
  sessionChanged(session: McpDispatchedSession, said: McpSessionSettings): void {
    this.changed.push([session.info.id, said]);
  }
}

interface Hooks {
  serve?: (call: McpCall) => Promise<object>;
}

function node(name = 'a', with_ = shared(), hooks: Hooks = {}, options: McpSessionOptions = {}) {
  const { clock, hub, sessionStore, eventStore } = with_;
  const bus = new InMemoryMessageBus(name, hub);
  const dispatcher = new SpecDispatcher(hooks);
  const resolved = resolveOptions(SESSION_TABLE, { idleTimeoutMs: IDLE_MS, sseAfterMs: 1_000_000, ...options });
  const observer = new CallObserver();
  const environment = new SessionRuntime(
    resolved,
    clock,
    sessionStore,
    eventStore,
    BusNodes.over(bus),
    dispatcher,
    observer,
  );
  const sessions = new LiveSessions(sessionStore, environment, { ...resolved, keepAliveMs: KEEP_ALIVE_MS });
  const parts = [
    new NodeListener(bus, sessions, environment),
    new DeadNodes(bus, environment, sessions, { nodeDied: async () => {} }),
  ];
  const service = new McpSessionService(sessions, sessionStore, environment, observer, AT_MCP);
  const events: McpSessionEvent[] = [];
  environment.events$.subscribe((event) => events.push(event));

  /** A session that is being initialized. */
  const newborn = async (id: string): Promise<McpSession> => {
    const protocolVersion = '2025-11-25';
    await sessionStore.create({ id, protocolVersion, initialize: JSON.stringify(INITIALIZE) }, NO_CAPS);
    const session = new McpSession({ id }, environment);
    sessions.begin(session);
    await eventStore.open(id);
    const message = { jsonrpc: '2.0', id: 0, method: 'initialize', params: INITIALIZE } as unknown as JsonRpcMessage;
    await session.receive(HTTP, { batch: false, messages: [message] }).reply;
    return session;
  };
  const begin = async (id: string): Promise<LiveSession> => {
    sessions.add(await newborn(id));
    return sessions.peek(id)!;
  };
  const closed = () =>
    events.flatMap((event) => (event.type === 'closed' ? [`${event.sessionId} ${event.reason}`] : []));
  /** Records, live copies, logs, and timers but that of the sweeps. */
  const left = async () => {
    const { sessions: logs } = await eventStore.stats();
    return [await sessionStore.count(), sessions.size, logs, clock.pending - (sessions.closing ? 0 : 1)];
  };
  return {
    clock,
    sessionStore,
    eventStore,
    sessions,
    dispatcher,
    events,
    newborn,
    begin,
    closed,
    left,
    service,
    parts,
  };
}

const NOTHING = [0, 0, 0, 0];

const ping = (id: number): JsonRpcMessage => ({ jsonrpc: '2.0', id, method: 'ping' });
const request = ({ session }: LiveSession, message: JsonRpcMessage) =>
  session.receive(HTTP, { batch: false, messages: [message] });

/** Opens the standalone stream. */
async function listen({ session }: LiveSession): Promise<Subscription> {
  const reply = await session.open();
  if (reply.kind !== 'events') throw new Error(`The reply is ${reply.kind}.`);
  return reply.open({ paused: false, resumed$: NEVER }).subscribe();
}

describe('the sweeper', () => {
  it('the sweeper runs until the node stops, with one timer', async () => {
    const { clock, sessions, begin } = node();
    expect(clock.pending).toBe(1);
    await begin('s');
    await begin('t');
    expect(clock.pending).toBe(1);
    await sessions.shutdown();
    expect(clock.pending).toBe(0);
  });

  it('the sweeper touches the record ten times per idle timeout at most', async () => {
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

  it('the sweeper goes on when the store fails', async () => {
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

  it('the sweeper never ends sessions that may idle for ever, and touches them once', async () => {
    const { clock, sessionStore, sessions, begin, left } = node('a', shared(), {}, { idleTimeoutMs: Infinity });
    const touch = vi.spyOn(sessionStore, 'touch');
    await begin('s');
    for (let n = 0; n < 10; n++) {
      await sessions.acquire('s');
      await clock.advance(100 * KEEP_ALIVE_MS);
    }
    expect([sessions.size, touch.mock.calls.length]).toEqual([1, 1]);
    await sessions.end('s', 'deleted');
    await sessions.settled();
    expect(await left()).toEqual(NOTHING);
  });
});

describe('a session whose client has sent nothing after "initialize"', () => {
  const NEWCOMER = { id: 'newcomer' };
  const MINUTE_MS = 60_000;
  const patient = (idleTimeoutMs = 30 * MINUTE_MS) => node('a', shared(), {}, { idleTimeoutMs });

  it.each([30 * MINUTE_MS, Infinity])(
    'S13: a session whose client has sent nothing after "initialize" ends after a minute, with an idle timeout of %s',
    async (idleTimeoutMs) => {
      const { clock, sessions, begin, closed, left } = patient(idleTimeoutMs);
      await begin('unused');
      await begin('used');
      await sessions.acquire('used');
      await clock.advance(MINUTE_MS - 1);
      expect(closed()).toEqual([]);
      await clock.advance(1);
      expect(closed()).toEqual(['unused idle']);
      await clock.advance(20 * MINUTE_MS);
      expect(sessions.size).toBe(1);
      await sessions.end('used', 'deleted');
      await sessions.settled();
      expect(await left()).toEqual(NOTHING);
    },
  );

  it('S13: a session whose client has sent nothing after "initialize" counts as used although the store failed when its first message came', async () => {
    const { clock, sessionStore, sessions, begin, closed } = patient();
    await begin('s');
    const touch = vi.spyOn(sessionStore, 'touch').mockRejectedValue(new Error('away'));
    request((await sessions.acquire('s'))!, { jsonrpc: '2.0', method: 'notifications/initialized' });
    await clock.advance(MINUTE_MS / 2);
    touch.mockRestore();
    // The sweep repeats what the client does not.
    await clock.advance(30 * MINUTE_MS - 1);
    expect(closed()).toEqual([]);
    await sessions.end('s', 'deleted');
  });

  it('S13: a session whose client has sent nothing after "initialize" is not ended while "initialize" runs', async () => {
    const { clock, sessions, newborn, closed } = patient();
    const session = await newborn('s');
    await clock.advance(10 * MINUTE_MS);
    expect([closed(), sessions.isInitializing('s'), sessions.add(session)]).toEqual([[], true, true]);
    await sessions.end('s', 'deleted');
  });

  it('E13: a session whose client has sent nothing after "initialize" gives way to a newcomer after some seconds, the longest unused first', async () => {
    const { clock, sessions, begin, closed } = patient();
    for (const id of ['first', 'used', 'second', 'third']) {
      await begin(id);
      await clock.advance(1_000);
    }
    await sessions.acquire('used');
    await clock.advance(999);
    expect([await sessions.endUnused(NEWCOMER), closed()]).toEqual([false, []]);
    await clock.advance(1);
    expect(await sessions.endUnused(NEWCOMER)).toBe(true);
    await sessions.settled();
    expect(closed()).toEqual(['first idle']);
    expect(await sessions.endUnused(NEWCOMER)).toBe(false);
    await clock.advance(5_000);
    for (const gaveWay of [true, true, false]) expect(await sessions.endUnused(NEWCOMER)).toBe(gaveWay);
    await sessions.settled();
    expect(closed()).toEqual(['first idle', 'second idle', 'third idle']);
    await sessions.end('used', 'deleted');
  });
});

describe('a session without a live copy', () => {
  it('a session without a live copy is rebuilt once, by the first request that needs it, with what its client has negotiated', async () => {
    const { clock, sessionStore, sessions, events, dispatcher, begin } = node();
    const first = await begin('s');
    await request(first, { jsonrpc: '2.0', id: 1, method: 'logging/setLevel', params: { level: 'error' } }).reply;
    await request(first, { jsonrpc: '2.0', id: 2, method: 'resources/subscribe', params: { uri: 'doc:a' } }).reply;
    expect(await sessionStore.get('s')).toMatchObject({ logLevel: 'error', subscriptions: ['doc:a'] });
    await sessions.release('s');
    expect([sessions.size, await sessionStore.count(), clock.pending]).toEqual([0, 1, 1]);
    const copies = await Promise.all([sessions.acquire('s'), sessions.acquire('s'), sessions.acquire('s')]);
    expect(new Set(copies).size).toBe(1);
    const { session } = copies[0]!;
    expect(dispatcher.rebuilt).toEqual([['s', { initialize: INITIALIZE, logLevel: 'error', subscribe: ['doc:a'] }]]);
    expect(session.info).toEqual(first.session.info);
    expect([session.initialized, session.state.logLevel, session.state.subscriptions.count]).toEqual([
      true,
      'error',
      1,
    ]);
    expect(events.filter(({ type }) => type === 'rebuilt')).toHaveLength(1);
    expect(await request(copies[0]!, ping(3)).reply).toMatchObject({ kind: 'json' });
    await sessions.end('s', 'deleted');
  });

  it('a session without a live copy is rebuilt at once, and messages that come before its log is readable wait for that', async () => {
    const { eventStore, sessions, dispatcher, begin } = node();
    await begin('s');
    await sessions.release('s');
    const hold = deferred();
    holdingBack(eventStore, 'open', hold.promise);
    const known = (await sessions.lookup('s'))!;
    expect([known.info.id, known.live, sessions.size]).toEqual(['s', undefined, 0]);
    const live = sessions.enter(known)!;
    expect([sessions.peek('s'), sessions.enter(known), sessions.lookup('s')]).toEqual([
      live,
      live,
      { info: live.session.info, live },
    ]);
    expect(dispatcher.rebuilt).toHaveLength(1);
    const acquired = sessions.acquire('s');
    expect([await settled(live.ready!), await settled(acquired)]).toEqual([false, false]);
    hold.resolve();
    expect([await acquired, live.ready]).toEqual([live, undefined]);
    await sessions.end('s', 'deleted');
  });

  it('a session without a live copy is not rebuilt from an outdated record when it was live at the lookup', async () => {
    const { sessions, dispatcher, begin } = node();
    const { session } = await begin('s');
    const known = (await sessions.lookup('s'))!;
    expect(known.live?.session).toBe(session);
    await sessions.release('s');
    expect([sessions.enter(known), dispatcher.rebuilt]).toEqual([undefined, []]);
    await sessions.end('s', 'deleted');
  });

  it('a session without a live copy is not rebuilt while its log is unavailable, and is tried again at the next request', async () => {
    const { eventStore, sessions, dispatcher, events, begin } = node();
    await begin('s');
    await sessions.release('s');
    const open = vi.spyOn(eventStore, 'open').mockRejectedValueOnce(new Error('away'));
    await expect(sessions.acquire('s')).rejects.toMatchObject({ code: 'UNAVAILABLE', status: 503 });
    expect([sessions.size, dispatcher.ended]).toEqual([0, ['s', 's']]);
    expect(events.filter(({ type }) => type === 'store-fault')).toHaveLength(1);
    expect(await sessions.acquire('s')).toBeDefined();
    expect(open).toHaveBeenCalledTimes(2);
    await sessions.end('s', 'deleted');
  });

  it('a session without a live copy fails the request with the error of the store while the store is unavailable', async () => {
    const { sessionStore, sessions, events } = node();
    vi.spyOn(sessionStore, 'get').mockRejectedValueOnce(new Error('away'));
    await expect(sessions.acquire('s')).rejects.toMatchObject({ code: 'UNAVAILABLE', status: 503 });
    expect(events.map(({ type }) => type)).toEqual(['store-fault']);
  });

  it('a session without a live copy stays ended, with its log dropped, when it ends after its record was read', async () => {
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
    await sessions.settled();
    expect(await left()).toEqual(NOTHING);
  });

  it('a session without a live copy stays ended, with its log dropped, when it ends while it is rebuilt', async () => {
    const { eventStore, sessions, begin, closed, left } = node();
    await begin('s');
    await sessions.release('s');
    const hold = deferred();
    holdingBack(eventStore, 'open', hold.promise);
    const acquired = sessions.acquire('s');
    await turn();
    expect(await sessions.end('s', 'deleted')).toBe(true);
    await sessions.settled();
    hold.resolve();
    expect(await acquired).toBeUndefined();
    expect([closed(), await left()]).toEqual([['s deleted'], NOTHING]);
  });
});

describe('an end', () => {
  it('an end is reported to one of the callers that ask for it', async () => {
    const { sessions, begin, closed, left } = node();
    await begin('s');
    const asked = await Promise.all([sessions.end('s', 'deleted'), sessions.end('s', 'terminated')]);
    expect(asked).toEqual([true, false]);
    expect(await sessions.end('unknown', 'deleted')).toBe(false);
    await sessions.settled();
    expect([closed(), await left()]).toEqual([['s deleted'], NOTHING]);
  });

  it('an end notifies the dispatcher once for each live copy', async () => {
    const { sessions, dispatcher, begin } = node();
    const live = await begin('s');
    await begin('t');
    await sessions.release('t');
    await sessions.acquire('t');
    await Promise.all([sessions.end('s', 'deleted'), live.session.end('terminated'), sessions.end('t', 'deleted')]);
    await sessions.settled();
    expect(dispatcher.ended).toEqual(['t', 's', 't']);
  });
});

describe('a session that is being initialized', () => {
  it('a session that is being initialized has a record, and is not found by its id', async () => {
    const { sessions, sessionStore, service, newborn } = node();
    const session = await newborn('s');
    expect(await sessionStore.count()).toBe(1);
    expect([await sessions.lookup('s'), await sessions.acquire('s'), sessions.size]).toEqual([undefined, undefined, 0]);
    expect([await service.list(), await service.get('s'), await service.terminate('s')]).toEqual([
      [],
      undefined,
      false,
    ]);
    expect(await service.notify(() => true, { method: 'notifications/message' })).toBe(0);
    expect(sessions.add(session)).toBe(true);
    expect((await service.list()).map(({ id }) => id)).toEqual(['s']);
    await sessions.end('s', 'deleted');
  });

  it('S2: a session that is being initialized leaves nothing when it is discarded', async () => {
    const { sessions, newborn, closed, left } = node();
    const session = await newborn('s');
    await sessions.discard('s', session);
    expect([sessions.add(session), closed(), await left()]).toEqual([false, [], NOTHING]);
  });

  it('S2: a session that is being initialized expires when its record cannot be deleted', async () => {
    const { sessions, sessionStore, newborn, clock, events, left } = node();
    const session = await newborn('s');
    vi.spyOn(sessionStore, 'delete').mockRejectedValueOnce(new Error('away'));
    await sessions.discard('s', session);
    expect(events.map(({ type }) => type)).toEqual(['store-fault']);
    await clock.advance(2 * IDLE_MS);
    expect(await left()).toEqual(NOTHING);
  });

  it('a session that is being initialized does not become live beside a copy that was rebuilt from its record', async () => {
    const { sessions, sessionStore, begin } = node();
    const live = await begin('s');
    const late = new McpSession({ id: 's' }, live.session['runtime']);
    expect([sessions.add(late), sessions.peek('s')]).toEqual([false, live]);
    await sessions.end('s', 'deleted');
    expect(await sessionStore.count()).toBe(0);
  });

  it('a session that is being initialized ends with its record, when another node deletes that', async () => {
    const with_ = shared();
    const stores = { sessionStore: asShared(with_.sessionStore), eventStore: asShared(with_.eventStore) };
    const [here, there] = [node('a', { ...with_, ...stores }), node('b', { ...with_, ...stores })];
    const session = await here.newborn('s');
    expect(await there.service.terminateAll()).toBe(1);
    await with_.clock.advance(0);
    expect([session.over, here.sessions.add(session)]).toEqual([true, false]);
    await here.sessions.discard('s', session);
    expect(here.closed()).toEqual([]);
    for (const { sessions } of [here, there]) await sessions.shutdown();
    expect(await here.left()).toEqual(NOTHING);
  });

  it('a session that is being initialized is left out by notify() of another node while it has no log', async () => {
    const with_ = shared();
    const { sessions, sessionStore, service } = node('b', { ...with_, sessionStore: asShared(with_.sessionStore) });
    await sessionStore.create(
      { id: 's', protocolVersion: '2025-11-25', initialize: JSON.stringify(INITIALIZE) },
      NO_CAPS,
    );
    expect(await service.notify(() => true, { method: 'notifications/message' })).toBe(0);
    await sessions.end('s', 'deleted');
    await sessions.shutdown();
  });
});

describe('the end of a session', () => {
  it.each([
    ['is told to other nodes that share the records', asShared, ['session-ended']],
    ['is told to no other node where each has its own records', (store: InMemorySessionStore) => store, []],
  ])('the end of a session %s', async (_name, storeOf, told) => {
    const with_ = shared();
    const { sessions, begin } = node('a', { ...with_, sessionStore: storeOf(with_.sessionStore) });
    const types: unknown[] = [];
    new InMemoryMessageBus('b', with_.hub).messages$.subscribe((message) =>
      types.push((message as { type: unknown }).type),
    );
    await begin('s');
    await sessions.end('s', 'deleted');
    await sessions.settled();
    await with_.clock.advance(0);
    expect(types).toEqual(told);
    await sessions.shutdown();
  });
});

describe('a change that the client makes to its session', () => {
  it('a change that the client makes to its session notifies the dispatchers of other nodes with a live copy', async () => {
    const with_ = shared();
    const stores = { sessionStore: asShared(with_.sessionStore), eventStore: asShared(with_.eventStore) };
    const [here, there] = [node('a', { ...with_, ...stores }), node('b', { ...with_, ...stores })];
    const live = await here.begin('s');
    const copy = await there.sessions.acquire('s');
    await request(live, { jsonrpc: '2.0', id: 1, method: 'logging/setLevel', params: { level: 'error' } }).reply;
    await with_.clock.advance(0);
    expect(copy!.session.state.logLevel).toBe('error');
    expect([here.dispatcher.changed, there.dispatcher.changed]).toEqual([[], [['s', { logLevel: 'error' }]]]);
    await here.sessions.end('s', 'deleted');
    for (const { sessions } of [here, there]) await sessions.shutdown();
  });
});

describe('shutdown', () => {
  it('shutdown does not wait for a session that is being rebuilt, and leaves nothing of it', async () => {
    const { eventStore, sessions, begin, left } = node();
    await begin('s');
    await sessions.release('s');
    const hold = deferred();
    holdingBack(eventStore, 'open', hold.promise);
    const acquired = sessions.acquire('s');
    await turn();
    await sessions.shutdown();
    hold.resolve();
    expect(await acquired).toBeUndefined();
    expect(await left()).toEqual(NOTHING);
  });

  it('E13: shutdown makes no session live from its record any more', async () => {
    const with_ = shared();
    const sessionStore = asShared(with_.sessionStore);
    const { sessions, dispatcher, begin } = node('a', { ...with_, sessionStore });
    await begin('s');
    await sessions.shutdown();
    await expect(sessions.acquire('s')).rejects.toMatchObject({ code: 'UNAVAILABLE', status: 503 });
    expect([sessions.size, dispatcher.rebuilt]).toEqual([0, []]);
  });

  it('shutdown ends a session that becomes live during the shutdown', async () => {
    const { sessions, newborn, begin, closed, left } = node();
    await begin('s');
    await sessions.shutdown();
    const late = await newborn('late');
    expect([sessions.closing, sessions.add(late), sessions.size]).toEqual([true, false, 0]);
    await sessions.discard('late', late);
    expect([closed(), await left()]).toEqual([['s shutdown'], NOTHING]);
  });

  it('S2: shutdown leaves nothing of a session that is being initialized, in a shared store either', async () => {
    const with_ = shared();
    const alone = node();
    const one = node('a', { ...with_, sessionStore: asShared(with_.sessionStore) });
    for (const { newborn, sessions, closed, left } of [alone, one]) {
      const session = await newborn('s');
      await sessions.shutdown();
      expect([session.over, closed(), await left()]).toEqual([true, [], NOTHING]);
    }
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

/** The next call of a method is carried out when `hold` settles. */
function holdingBack(store: InMemoryEventStore, method: 'open', hold: Promise<void>): void {
  const original = store[method].bind(store) as (...args: unknown[]) => Promise<never>;
  vi.spyOn(store, method).mockImplementationOnce((...args: unknown[]) => hold.then(() => original(...args)));
}

const turn = () => new Promise((resolve) => void setImmediate(resolve));

async function settled(promise: Promise<unknown>): Promise<boolean> {
  let done = false;
  void promise.finally(() => (done = true));
  await turn();
  return done;
}
