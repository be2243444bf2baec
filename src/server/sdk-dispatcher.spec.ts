import { McpServer, Server } from '@modelcontextprotocol/server';
import { NEVER } from 'rxjs';
import { BusNodes } from '../core/nodes/bus-nodes.js';
import { InMemoryMessageBus } from '../core/nodes/in-memory-message-bus.js';
import { describe, expect, it } from 'vitest';
import { resolveOptions } from '../core/common/options.js';
import { deferred } from '../core/common/promises.js';
import {
  type CallingClient,
  currentMcpCall,
  McpCall,
  type McpHttpCall,
  type OutboundMessage,
  runInCall,
} from '../core/calls/mcp-call.js';
import type { McpSessionSettings } from '../core/calls/mcp-dispatcher.js';
import { CallObserver } from '../core/calls/call-observer.js';
import { InMemorySessionStore } from '../core/sessions/store/in-memory-session-store.js';
import { McpSession } from '../core/sessions/live/mcp-session.js';
import type { McpSessionEvent } from '../core/sessions/session-events.js';
import { SessionRuntime } from '../core/sessions/live/session-runtime.js';
import { SESSION_TABLE } from '../core/sessions/session.options.js';
import type { McpSessionRecord } from '../core/sessions/store/session-store.js';
import { InMemoryEventStore } from '../core/log/in-memory-event-store.js';
import { ManualClock } from '../testing/index.js';
import type { JsonRpcMessage, JsonRpcRequest, RequestId } from '../core/protocol/json-rpc.js';
import { SdkDispatcher, type SdkDispatcherParts } from './sdk-dispatcher.js';

const HTTP: McpHttpCall = { era: 'legacy', principal: undefined, request: { of: 'initialize' } };
const CLIENT = { capabilities: { roots: {} }, clientInfo: { name: 'spec', version: '1' } };
const INITIALIZE = { protocolVersion: '2025-11-25', ...CLIENT };
const CAPABILITIES = { capabilities: { logging: {}, resources: { subscribe: true }, tools: {} } };

type Make = (server: Server, count: number) => unknown;
type Context = Parameters<SdkDispatcherParts['make']>[0];

/** A dispatcher over servers that `make` has made, or replaced; and the sessions that it serves. */
function setup(make: Make = () => {}) {
  const clock = new ManualClock();
  const store = new InMemoryEventStore({}, clock);
  const servers: Server[] = [];
  const contexts: Context[] = [];
  const reports: unknown[] = [];
  const events: McpSessionEvent[] = [];
  const ended: string[] = [];
  const sessions: McpSession[] = [];
  let legacyServers = 0;
  const dispatcher = new SdkDispatcher({
    make: async (context) => {
      contexts.push(context);
      const server = new Server({ name: 'spec', version: '1' }, CAPABILITIES);
      servers.push(server);
      return ((await make(server, servers.length)) ?? server) as Server;
    },
    report: (error) => reports.push(error),
    onLegacyServer: () => legacyServers++,
  });
  const [options, records, observer] = [
    resolveOptions(SESSION_TABLE, {}),
    new InMemorySessionStore(clock),
    new CallObserver(),
  ];
  const runtime = new SessionRuntime(
    options,
    clock,
    records,
    store,
    BusNodes.over(new InMemoryMessageBus('n')),
    dispatcher,
    observer,
  );
  runtime.events$.subscribe((event) => events.push(event));
  runtime.serve({
    suspect: () => {},
    end: async (id, reason) => ended.push(`${id} ${reason}`) > 0,
  });
  /** A session, and the answer to its `initialize`. */
  const begin = async (id = 's', params = INITIALIZE) => {
    await store.open(id);
    const session = new McpSession({ id }, runtime);
    sessions.push(session);
    const reply = await post(session, { jsonrpc: '2.0', id: 'init', method: 'initialize', params }).reply;
    return { session, status: (reply as { status?: number }).status, answer: bodyOf(reply) };
  };
  /** A session as it is rebuilt from its record. */
  const rebuild = async (said: Partial<McpSessionSettings> = {}) => {
    await store.open('s');
    const { logLevel, subscribe = [] } = said;
    const record: McpSessionRecord = {
      id: 's',
      protocolVersion: '2025-11-25',
      initialize: JSON.stringify(INITIALIZE),
      used: true,
      createdAt: 0,
      lastSeenAt: 0,
      ...(logLevel !== undefined && { logLevel }),
      subscriptions: [...subscribe],
    };
    const session = McpSession.rebuilt(record, runtime);
    dispatcher.sessionRebuilt(session, { initialize: INITIALIZE, ...said });
    return session;
  };
  const heard = { reports, events, ended, legacyServers: () => legacyServers };
  return { store, dispatcher, servers, sessions, contexts, ...heard, begin, rebuild };
}

function post(session: McpSession, ...messages: JsonRpcMessage[]) {
  return session.receive(HTTP, { batch: false, messages });
}

function bodyOf(reply: unknown): unknown {
  const { kind, body } = reply as { kind: string; body: string };
  if (kind !== 'json') throw new Error(`The reply is ${kind}.`);
  return JSON.parse(body);
}

const answerTo = async (session: McpSession, message: JsonRpcMessage) => bodyOf(await post(session, message).reply);
const call = (id: RequestId, name = 'x'): JsonRpcRequest => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: {} },
});
const turn = () => new Promise((resolve) => void setImmediate(resolve));

/** Opens the standalone stream, and keeps what comes. */
async function listen(session: McpSession) {
  const reply = await session.open();
  if (reply.kind !== 'events') throw new Error(`The reply is ${reply.kind}.`);
  const messages: Record<string, unknown>[] = [];
  reply.open({ paused: false, resumed$: NEVER }).subscribe(({ data }) => {
    if (data) messages.push(JSON.parse(data) as Record<string, unknown>);
  });
  return messages;
}

/** Notes what a server is told of its client. */
function hearing(server: Server, said: unknown[]) {
  server.oninitialized = () => said.push(['initialized', server.getClientCapabilities()]);
  server.setRequestHandler('logging/setLevel', ({ params }) => note(said, params.level));
  server.setRequestHandler('resources/subscribe', ({ params }) => note(said, `+${params.uri}`));
  server.setRequestHandler('resources/unsubscribe', ({ params }) => note(said, `-${params.uri}`));
}
function note(said: unknown[], what: string) {
  said.push([what, currentMcpCall()?.session?.id]);
  return {};
}

describe('the server of a session', () => {
  it('the server of a session is made for its initialize, with what is known of it, and serves it until it ends', async () => {
    const { contexts, servers, begin } = setup((server, count) => {
      server.setRequestHandler('tools/call', () => ({ content: [{ type: 'text', text: `of ${count}` }] }));
    });
    const [one, two] = [await begin('one'), await begin('two')];
    expect(one.answer).toMatchObject({ id: 'init', result: { protocolVersion: '2025-11-25' } });
    for (const { session } of [one, two, one]) {
      const text = session === one.session ? 'of 1' : 'of 2';
      expect(await answerTo(session, call(1))).toMatchObject({ result: { content: [{ text }] } });
    }
    expect(contexts).toEqual(
      ['one', 'two'].map((id) => ({
        era: 'legacy',
        principal: undefined,
        request: HTTP.request,
        session: { id, principal: undefined, protocolVersion: '2025-11-25', ...clientOf(INITIALIZE) },
      })),
    );
    const closed: string[] = [];
    for (const [index, server] of servers.entries()) server.onclose = () => closed.push(`${index}`);
    await one.session.end('deleted');
    expect(closed).toEqual(['0']);
    await two.session.end('deleted');
  });

  it('D41: the server of a session gets a URI as its client has spelled it', async () => {
    const said: unknown[] = [];
    const { begin } = setup((server) => hearing(server, said));
    const { session } = await begin('one');
    const subscribe = { jsonrpc: '2.0' as const, id: 1, method: 'resources/subscribe', params: { uri: 'DOC:%61' } };
    expect(await answerTo(session, subscribe)).toMatchObject({ result: {} });
    expect(said).toContainEqual(['+DOC:%61', 'one']);
    await session.end('deleted');
  });

  it('the server of a session may be an McpServer', async () => {
    const { begin } = setup(() => new McpServer({ name: 'spec', version: '2' }));
    expect((await begin()).answer).toMatchObject({ result: { serverInfo: { version: '2' } } });
  });

  it('S1: the server of a session is only asked for revisions that have this transport', async () => {
    const { begin } = setup();
    const { session, answer } = await begin('s', { ...INITIALIZE, protocolVersion: '2024-11-05' });
    expect(answer).toMatchObject({ result: { protocolVersion: '2025-11-25' } });
    expect(session.info.protocolVersion).toBe('2025-11-25');
  });

  const failures: [string, Make, string | RegExp][] = [
    ['the application fails', () => Promise.reject(new Error('no server today')), 'no server today'],
    ['there is none', () => 'a server', 'must return a new McpServer or Server'],
    ['it is already connected', (server) => server.connect(deadTransport), 'is already connected'],
  ];
  it.each(failures)(
    'when %s, initialize is answered with an error, and the operator is told why',
    async (_, fail, why) => {
      const { reports, begin } = setup((server, count) => (count === 1 ? fail(server, count) : undefined));
      const { session, status, answer } = await begin();
      expect([status, answer]).toMatchObject([500, { id: 'init', error: { code: -32603 } }]);
      expect(JSON.stringify(answer)).not.toMatch(why);
      expect(reports).toEqual([expect.objectContaining({ message: expect.stringMatching(why) })]);
      expect(session.initialized).toBe(false);
      expect((await begin('again')).session.initialized).toBe(true);
    },
  );

  it('the server of a session that answers initialize with an error of its own has no session', async () => {
    const { reports, begin } = setup((server) => {
      server.setRequestHandler('initialize', () =>
        Promise.reject(Object.assign(new Error('not you'), { code: -32050 })),
      );
    });
    const { session, answer } = await begin();
    expect(answer).toMatchObject({ error: { code: -32050, message: 'not you' } });
    expect([session.initialized, reports]).toEqual([false, []]);
  });

  it('the server of a session that is made too late, when its session has ended, serves nothing', async () => {
    const hold = deferred();
    const { servers, reports, begin, sessions } = setup(() => hold.promise);
    const begun = begin();
    await turn();
    await sessions[0]!.end('initialize-failed');
    expect((await begun).answer).toMatchObject({ error: { code: -32000 } });
    hold.resolve();
    await turn();
    expect([servers[0]!.transport, reports]).toEqual([undefined, []]);
  });

  it('the server of a session knows its calls by their ids: one that is used again is that of the later request', async () => {
    const holds = [deferred(), deferred()];
    let calls = 0;
    const { begin } = setup((server) => {
      server.setRequestHandler('tools/call', async () => {
        const number = calls++;
        // Deaf to its signal.
        await holds[number]!.promise;
        return { content: [{ type: 'text', text: `call ${number}` }] };
      });
    });
    const { session } = await begin();
    const cancelled = post(session, call(1));
    await turn();
    post(session, { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } });
    await turn();
    const again = post(session, call(1));
    await turn();
    holds[0]!.resolve();
    await turn();
    expect(session.counts.inFlight).toBe(1);
    holds[1]!.resolve();
    expect(bodyOf(await again.reply)).toMatchObject({ id: 1, result: { content: [{ text: 'call 1' }] } });
    expect((await cancelled.reply).kind).toBe('events');
    expect(session.counts.inFlight).toBe(0);
  });

  it('D8: the server of a session hears that a call is cancelled, and why', async () => {
    const reasons: unknown[] = [];
    const { begin } = setup((server) => {
      server.setRequestHandler('tools/call', async (_, { mcpReq: { signal } }) => {
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        reasons.push(signal.reason);
        return { content: [] };
      });
    });
    const { session } = await begin();
    for (const [id, reason] of [
      [1, 'enough'],
      [2, undefined],
    ] as const) {
      post(session, call(id));
      await turn();
      post(session, { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id, reason } });
      await turn();
    }
    expect(reasons.map((reason) => (reason instanceof Error ? reason.name : reason))).toEqual(['enough', 'AbortError']);
  });

  it('P8: the server of a session whose answer comes to a request that is over is an event, and nothing more', async () => {
    const { servers, events, begin } = setup();
    const { session } = await begin();
    await servers[0]!.transport!.send({ jsonrpc: '2.0', id: 'over', result: {} });
    expect(events).toContainEqual({
      type: 'late-message',
      sessionId: session.sessionId,
      method: undefined,
      requestId: 'over',
      disposition: 'dropped',
    });
  });

  it('S14: the server of a session ends its session by being closed', async () => {
    const { servers, ended, begin } = setup();
    const { session } = await begin();
    await servers[0]!.close();
    expect([session.over, ended]).toEqual([true, ['s terminated']]);
  });
});

describe('a request of a server', () => {
  it('a request of a server goes out under an id of the session, with its progress token, and both are mapped back', async () => {
    const { servers, begin } = setup();
    const { session } = await begin();
    const stream = await listen(session);
    const heard: unknown[] = [];
    const answers = [
      servers[0]!.request({ method: 'roots/list' }, { onprogress: (report) => heard.push(report) }),
      servers[0]!.request({ method: 'roots/list' }),
    ];
    await turn();
    const [first, second] = stream as unknown as [JsonRpcRequest, JsonRpcRequest];
    expect([first.id, second.id]).toEqual([expect.stringMatching(/^n-\w+-1$/), expect.stringMatching(/^n-\w+-2$/)]);
    expect(first.params).toEqual({ _meta: { progressToken: first.id } });
    const token = { progressToken: first.id };
    post(session, { jsonrpc: '2.0', method: 'notifications/progress', params: { ...token, progress: 1, total: 2 } });
    post(session, { jsonrpc: '2.0', id: second.id, result: { roots: [] } });
    post(session, { jsonrpc: '2.0', id: first.id, result: { roots: [{ uri: 'file:///a' }] } });
    expect(await Promise.all(answers)).toEqual([{ roots: [{ uri: 'file:///a' }] }, { roots: [] }]);
    expect([heard, session.counts.outbound]).toEqual([[{ progress: 1, total: 2 }], 0]);
    await session.end('deleted');
  });

  it('D24: a request of a server whose answer is an error fails with it', async () => {
    const { servers, begin } = setup();
    const { session } = await begin();
    const stream = await listen(session);
    const asked = servers[0]!.request({ method: 'roots/list' });
    await turn();
    const error = { code: -7, message: 'no roots', data: { a: 1 } };
    post(session, { jsonrpc: '2.0', id: stream[0]!['id'] as RequestId, error });
    await expect(asked).rejects.toMatchObject(error);
    await session.end('deleted');
  });

  it('D24: a request of a server is given up by its signal, and the client is told; a late answer is ignored', async () => {
    const { servers, events, begin } = setup();
    const { session } = await begin();
    const stream = await listen(session);
    const abort = new AbortController();
    const asked = servers[0]!.request({ method: 'roots/list' }, { signal: abort.signal });
    await turn();
    abort.abort('enough');
    await expect(asked).rejects.toThrow('enough');
    await turn();
    const { id } = stream[0] as unknown as JsonRpcRequest;
    expect(stream[1]).toMatchObject({ method: 'notifications/cancelled', params: { requestId: id, reason: 'enough' } });
    post(session, { jsonrpc: '2.0', id, result: { roots: [] } });
    expect(events.map(({ type }) => type)).toContain('unknown-response');
    expect(session.counts.outbound).toBe(0);
    await session.end('deleted');
  });

  it('P7: a request of a server that cannot be sent fails with the reason', async () => {
    const { servers, begin } = setup();
    const { session } = await begin();
    await expect(servers[0]!.request({ method: 'roots/list' })).rejects.toMatchObject({ code: 'NO_STREAM' });
    expect(session.counts.outbound).toBe(0);
    await session.end('deleted');
  });

  it('a request of a server ends with the session', async () => {
    const { servers, begin } = setup();
    const { session } = await begin();
    await listen(session);
    const outcome = servers[0]!.request({ method: 'roots/list' }).then(
      () => 'answered',
      (error: unknown) => (error as { code?: unknown }).code,
    );
    await turn();
    await session.end('deleted');
    expect(await outcome).toBe('CONNECTION_CLOSED');
  });
});

const ping = (id: RequestId): JsonRpcRequest => ({ jsonrpc: '2.0', id, method: 'ping' });
const pong = (id: RequestId) => ({ jsonrpc: '2.0', id, result: {} });

describe('a session that is rebuilt', () => {
  it('a session that is rebuilt has a new server, which is told what the client has said: in calls of the session, and no client hears of it', async () => {
    const said: unknown[] = [];
    const { contexts, reports, store, rebuild } = setup((server) => hearing(server, said));
    const session = await rebuild({ logLevel: 'error', subscribe: ['doc:a', 'doc:b'] });
    // Requests wait for it.
    expect([said, await answerTo(session, ping(1))]).toEqual([
      [['initialized', { roots: {} }], ...['error', '+doc:a', '+doc:b'].map((what) => [what, 's'])],
      pong(1),
    ]);
    expect(contexts).toEqual([
      { era: 'legacy', principal: undefined, request: undefined, session: expect.objectContaining({ id: 's' }) },
    ]);
    expect(await answerTo(session, ping(2))).toEqual(pong(2));
    expect([contexts.length, reports, session.counts.inFlight, (await store.stats()).events]).toEqual([1, [], 0, 0]);
    await session.end('deleted');
  });

  it('a session that is rebuilt has it before it is asked for, since it may have something to say', async () => {
    const said: unknown[] = [];
    const { rebuild } = setup((server) => hearing(server, said));
    const session = await rebuild();
    await turn();
    expect(said).toEqual([['initialized', { roots: {} }]]);
    await session.end('deleted');
  });

  it('a session that is rebuilt has one, however much comes meanwhile, which that finds in its order', async () => {
    const hold = deferred();
    const said: unknown[] = [];
    const { contexts, rebuild } = setup(async (server) => {
      await hold.promise;
      server.setNotificationHandler('notifications/roots/list_changed', () => void said.push('notification'));
      server.setRequestHandler('tools/call', ({ params }) => {
        said.push(params.name);
        return { content: [] };
      });
    });
    const session = await rebuild();
    const first = post(session, call(1, 'one'));
    post(session, { jsonrpc: '2.0', method: 'notifications/roots/list_changed' });
    const second = post(session, call(2, 'two'));
    await turn();
    expect([said, session.counts.inFlight]).toEqual([[], 2]);
    hold.resolve();
    expect([bodyOf(await first.reply), bodyOf(await second.reply)]).toMatchObject([{ id: 1 }, { id: 2 }]);
    expect([said, contexts.length]).toEqual([['one', 'notification', 'two'], 1]);
    await session.end('deleted');
  });

  it('P9: a session that is rebuilt does not have it serve a request that was cancelled before it was there', async () => {
    const hold = deferred();
    const served: RequestId[] = [];
    const { rebuild } = setup(async (server) => {
      await hold.promise;
      server.setRequestHandler('tools/call', (_, { mcpReq }) => {
        served.push(mcpReq.id);
        return { content: [] };
      });
    });
    const session = await rebuild();
    const cancelled = post(session, call(1));
    const other = post(session, call(2));
    post(session, { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } });
    hold.resolve();
    expect(bodyOf(await other.reply)).toMatchObject({ id: 2, result: {} });
    expect([served, (await cancelled.reply).kind, session.counts.inFlight]).toEqual([[2], 'events', 0]);
    await session.end('deleted');
  });

  it('a session that is rebuilt lets its server speak meanwhile: on the standalone stream, since no response waits for that', async () => {
    const { rebuild } = setup((server) => {
      server.setRequestHandler('logging/setLevel', async (_, { mcpReq }) => {
        await mcpReq.notify({ method: 'notifications/message', params: { level: 'info', data: 'x' } });
        return {};
      });
    });
    const session = await rebuild({ logLevel: 'error' });
    expect(await answerTo(session, ping(1))).toEqual(pong(1));
    const stream = await listen(session);
    await turn();
    expect(stream).toMatchObject([{ method: 'notifications/message' }]);
    await session.end('deleted');
  });

  it('a session that is rebuilt is served though its server refuses a subscription by now, and the operator is told', async () => {
    const said: unknown[] = [];
    const { events, rebuild } = setup((server) => {
      hearing(server, said);
      server.setRequestHandler('resources/subscribe', ({ params }) => {
        if (params.uri === 'doc:a') throw new Error('no more');
        return note(said, params.uri);
      });
    });
    const session = await rebuild({ subscribe: ['doc:a', 'doc:b'] });
    expect(await answerTo(session, ping(1))).toEqual(pong(1));
    expect(said.at(-1)).toEqual(['doc:b', 's']);
    expect(events).toMatchObject([{ type: 'protocol-error', error: { message: 'no more' } }]);
    await session.end('deleted');
  });

  it.each<[string, Make, string]>([
    ['the application fails', () => Promise.reject(new Error('no server today')), 'no server today'],
    [
      'its server refuses what it agreed to once',
      (server) => server.setRequestHandler('initialize', () => Promise.reject(new Error('not you'))),
      'not you',
    ],
    ['its server is already connected', (server) => server.connect(deadTransport), 'is already connected'],
  ])(
    'a session that is rebuilt cannot be served when %s: that is reported once, and the next request tries again',
    async (_, fail, why) => {
      const said: unknown[] = [];
      const { reports, dispatcher, rebuild } = setup((server, count) =>
        count === 1 ? fail(server, count) : hearing(server, said),
      );
      const session = await rebuild({ logLevel: 'error' });
      dispatcher.sessionChanged(session, { subscribe: ['doc:a'] });
      const replies = await Promise.all([1, 2].map((id) => post(session, ping(id)).reply));
      for (const [index, reply] of replies.entries()) {
        expect([reply, bodyOf(reply)]).toMatchObject([{ status: 500 }, { id: index + 1, error: { code: -32603 } }]);
        expect(JSON.stringify(reply)).not.toContain(why);
      }
      expect(reports).toEqual([expect.objectContaining({ message: expect.stringContaining(why) })]);
      expect(session.over).toBe(false);
      // Also what would have been told the first one.
      expect(await answerTo(session, ping(3))).toEqual(pong(3));
      expect(said.map((what) => (what as unknown[])[0])).toEqual(['initialized', 'error', '+doc:a']);
      expect([reports.length, session.counts.inFlight]).toEqual([1, 0]);
      await session.end('deleted');
    },
  );

  it.each<[string, Make]>([
    ['is being made', () => new Promise(() => {})],
    ['does not answer', (server) => server.setRequestHandler('initialize', () => new Promise(() => {}))],
    [
      'does not answer what comes after',
      (server) => server.setRequestHandler('logging/setLevel', () => new Promise(() => {})),
    ],
  ])('a session that is rebuilt does not wait for a server that %s when it ends', async (_, make) => {
    const { rebuild, events, reports } = setup(make);
    const session = await rebuild({ logLevel: 'error', subscribe: ['doc:a', 'doc:b'] });
    const { reply } = post(session, ping(1));
    await turn();
    await session.end('deleted');
    expect(bodyOf(await reply)).toMatchObject({ id: 1, error: { code: -32000 } });
    await turn();
    expect([events, reports, session.counts.inFlight]).toEqual([[], [], 0]);
  });

  it('a session that is rebuilt tells its server of changes that other nodes have taken, until it ends', async () => {
    const said: unknown[] = [];
    const { dispatcher, rebuild } = setup((server) => hearing(server, said));
    const session = await rebuild();
    await answerTo(session, ping(1));
    said.length = 0;
    const changes = [
      ['info', 's'],
      ['-doc:b', 's'],
      ['+doc:a', 's'],
    ];
    dispatcher.sessionChanged(session, { logLevel: 'info', subscribe: ['doc:a'], unsubscribe: ['doc:b'] });
    await turn();
    expect(said).toEqual(changes);
    await session.end('deleted');
    dispatcher.sessionChanged(session, { logLevel: 'debug' });
    await turn();
    expect(said).toEqual(changes);
  });

  it('a session that is rebuilt tells its server of changes that other nodes have taken while it was being made, after what it had said', async () => {
    const [made, told] = [deferred(), deferred()];
    const said: unknown[] = [];
    const { dispatcher, rebuild } = setup(async (server) => {
      await made.promise;
      hearing(server, said);
      server.setRequestHandler('resources/subscribe', async ({ params }) => {
        await told.promise;
        return note(said, `+${params.uri}`);
      });
    });
    const session = await rebuild({ logLevel: 'error', subscribe: ['doc:a'] });
    dispatcher.sessionChanged(session, { logLevel: 'info' });
    made.resolve();
    await turn();
    dispatcher.sessionChanged(session, { unsubscribe: ['doc:a'] });
    await turn();
    expect(said.map((what) => (what as unknown[])[0])).toEqual(['initialized', 'error']);
    told.resolve();
    expect(await answerTo(session, ping(1))).toEqual(pong(1));
    expect(said.map((what) => (what as unknown[])[0])).toEqual(['initialized', 'error', '+doc:a', 'info', '-doc:a']);
    await session.end('deleted');
  });
});

describe('the server of a modern request', () => {
  const supportedProtocolVersions = ['2025-11-25', '2026-07-28'];
  const modern = (_server: Server, count: number) => {
    const capabilities = { ...CAPABILITIES.capabilities, prompts: {} };
    const made = new Server({ name: 'spec', version: `${count}` }, { capabilities, supportedProtocolVersions });
    made.setRequestHandler('tools/call', async ({ params }, { mcpReq }) => {
      if (params.name === 'closes') await made.close();
      if (params.name === 'waits') await new Promise((resolve) => mcpReq.signal.addEventListener('abort', resolve));
      await mcpReq.notify({ method: 'notifications/progress', params: { progressToken: 1, progress: count } });
      return { content: [{ type: 'text', text: `of ${count}` }] };
    });
    return made;
  };
  const serve = (dispatcher: SdkDispatcher, { call }: ModernRequest) => runInCall(call, () => dispatcher.request(call));

  it('the server of a modern request is made for that request, serves it, and hears then that it is closed', async () => {
    let closed = 0;
    const { dispatcher, contexts } = setup((server, count) =>
      Object.assign(modern(server, count), { onclose: () => closed++ }),
    );
    for (const count of [1, 2]) {
      const request = modernRequest('tools/call', { name: 'x', arguments: {} });
      expect(await serve(dispatcher, request)).toMatchObject({
        resultType: 'complete',
        content: [{ text: `of ${count}` }],
      });
      expect(request.said).toMatchObject([{ method: 'notifications/progress', params: { progress: count } }]);
      expect(closed).toBe(count);
    }
    expect(contexts).toEqual(
      [1, 2].map(() => ({ era: 'modern', session: undefined, principal: 'ann', request: { of: 'tools/call' } })),
    );
  });

  it('D3: the server of a modern request gives HTTP a status for what was refused before a handler ran, and for nothing else', async () => {
    const { dispatcher } = setup((server, count) => {
      const made = modern(server, count);
      made.setRequestHandler('prompts/get', () => Promise.reject(Object.assign(new Error('mine'), { code: -32601 })));
      return made;
    });
    const unknown = modernRequest('resources/list');
    await expect(serve(dispatcher, unknown)).rejects.toMatchObject({ code: -32601, status: 404, headers: {} });
    const own = modernRequest('prompts/get', { name: 'x' });
    const refused = await serve(dispatcher, own).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: -32601, message: 'mine' });
    expect(refused).not.toHaveProperty('status');
  });

  it('the server of a modern request ends its request when it is closed meanwhile', async () => {
    const { dispatcher } = setup(modern);
    const request = modernRequest('tools/call', { name: 'closes', arguments: {} });
    await expect(serve(dispatcher, request)).rejects.toMatchObject({ code: -32000 });
  });

  it('D8: the server of a modern request hears that its request was cancelled, and what it says then is dropped', async () => {
    const { dispatcher, servers } = setup(modern);
    const request = modernRequest('tools/call', { name: 'waits', arguments: {} });
    const outcome = serve(dispatcher, request);
    await turn();
    request.call.cancelled(new Error('gone'));
    await expect(outcome).rejects.toThrow('gone');
    await turn();
    expect(servers).toHaveLength(1);
  });

  it('the server of a modern request is not asked when its request was cancelled before it was there', async () => {
    const hold = deferred();
    const { dispatcher } = setup(async (server, count) => {
      await hold.promise;
      return modern(server, count);
    });
    const request = modernRequest('tools/call', { name: 'x', arguments: {} });
    const outcome = serve(dispatcher, request);
    request.call.cancelled(new Error('gone'));
    hold.resolve();
    await expect(outcome).rejects.toThrow('gone');
    expect(request.said).toEqual([]);
  });

  it('the server of a modern request that speaks older revisions only is refused, with those that it has', async () => {
    const { dispatcher, legacyServers } = setup();
    const outcome = serve(dispatcher, modernRequest('tools/list'));
    await expect(outcome).rejects.toMatchObject({
      code: 'UNSUPPORTED_PROTOCOL_VERSION',
      data: { supported: expect.arrayContaining(['2025-11-25']), requested: '2026-07-28' },
    });
    expect(legacyServers()).toBe(1);
  });

  it('the server of a modern request says what its caller may listen to', async () => {
    const { dispatcher } = setup(modern);
    const http: McpHttpCall = { era: 'modern', principal: undefined, request: undefined };
    expect(await dispatcher.capabilities(http)).toMatchObject(CAPABILITIES.capabilities);
  });
});

/** A request of revision 2026-07-28, and what its client hears meanwhile. */
function modernRequest(method: string, params: Record<string, unknown> = {}) {
  const said: OutboundMessage[] = [];
  const client: CallingClient = {
    identity: () => ({ protocolVersion: '2026-07-28', ...CLIENT }),
    wantsLog: () => false,
    notify: async (notification) => void said.push(notification),
    request: () => Promise.reject(new Error('not in this era')),
  };
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': CLIENT.clientInfo,
    'io.modelcontextprotocol/clientCapabilities': CLIENT.capabilities,
  };
  const message = { jsonrpc: '2.0', id: 7, method, params: { ...params, _meta } } as const;
  return { call: new McpCall({ era: 'modern', principal: 'ann', request: { of: method } }, message, client), said };
}
type ModernRequest = ReturnType<typeof modernRequest>;

const deadTransport = { start: async () => {}, send: async () => {}, close: async () => {} };
function clientOf({ clientInfo, capabilities }: typeof INITIALIZE) {
  return { clientInfo, clientCapabilities: capabilities };
}
