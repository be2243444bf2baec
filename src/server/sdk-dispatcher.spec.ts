import { Server } from '@modelcontextprotocol/server';
import { NEVER } from 'rxjs';
import { BusNodes } from '../core/nodes/bus-nodes.js';
import { InMemoryMessageBus } from '../core/nodes/in-memory-message-bus.js';
import { describe, expect, it } from 'vitest';
import { resolveOptions } from '../core/common/options.js';
import { deferred } from '../core/common/promises.js';
import { type CallingClient, currentMcpCall, McpCall, type McpHttpCall, runInCall } from '../core/calls/mcp-call.js';
import type { McpSessionSettings } from '../core/calls/mcp-dispatcher.js';
import { CallObserver } from '../core/calls/call-observer.js';
import { InMemorySessionStore } from '../core/sessions/store/in-memory-session-store.js';
import { McpSession } from '../core/sessions/running/mcp-session.js';
import type { McpSessionEvent } from '../core/sessions/session-events.js';
import { SessionRuntime } from '../core/sessions/session-runtime.js';
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
  const sessions: McpSession[] = [];
  const dispatcher = new SdkDispatcher({
    make: async (context) => {
      contexts.push(context);
      const server = new Server({ name: 'spec', version: '1' }, CAPABILITIES);
      servers.push(server);
      return ((await make(server, servers.length)) ?? server) as Server;
    },
    report: (error) => reports.push(error),
    onLegacyServer: () => {},
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
    end: async () => true,
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
  return { dispatcher, servers, sessions, contexts, reports, events, begin, rebuild };
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
  it('D41: the server of a session gets a URI as its client has spelled it', async () => {
    const said: unknown[] = [];
    const { begin } = setup((server) => hearing(server, said));
    const { session } = await begin('one');
    const subscribe = { jsonrpc: '2.0' as const, id: 1, method: 'resources/subscribe', params: { uri: 'DOC:%61' } };
    expect(await answerTo(session, subscribe)).toMatchObject({ result: {} });
    expect(said).toContainEqual(['+DOC:%61', 'one']);
    await session.end('deleted');
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
});

const ping = (id: RequestId): JsonRpcRequest => ({ jsonrpc: '2.0', id, method: 'ping' });
const pong = (id: RequestId) => ({ jsonrpc: '2.0', id, result: {} });

describe('a session that is rebuilt', () => {
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

  it('a session that is rebuilt cannot be served when the application fails: that is reported once, and the next request tries again', async () => {
    const said: unknown[] = [];
    const { reports, dispatcher, rebuild } = setup((server, count) => {
      if (count === 1) throw new Error('no server today');
      hearing(server, said);
    });
    const session = await rebuild({ logLevel: 'error' });
    dispatcher.sessionChanged(session, { subscribe: ['doc:a'] });
    const replies = await Promise.all([1, 2].map(async (id) => post(session, ping(id)).reply));
    for (const [index, reply] of replies.entries()) {
      expect([reply, bodyOf(reply)]).toMatchObject([{ status: 500 }, { id: index + 1, error: { code: -32603 } }]);
      expect(JSON.stringify(reply)).not.toContain('no server today');
    }
    expect(reports).toEqual([expect.objectContaining({ message: 'no server today' })]);
    // Also what would have been told the first one.
    expect(await answerTo(session, ping(3))).toEqual(pong(3));
    expect(said.map((what) => (what as unknown[])[0])).toEqual(['initialized', 'error', '+doc:a']);
    await session.end('deleted');
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

it('D3: the server of a modern request gives HTTP a status for what was refused before a handler ran, and for nothing else', async () => {
  const { dispatcher } = setup(() => {
    const supportedProtocolVersions = ['2025-11-25', '2026-07-28'];
    const capabilities = { prompts: {} };
    const made = new Server({ name: 'spec', version: '1' }, { capabilities, supportedProtocolVersions });
    made.setRequestHandler('prompts/get', () => Promise.reject(Object.assign(new Error('mine'), { code: -32601 })));
    return made;
  });
  const refusalOf = async (method: string, params: object): Promise<unknown> => {
    const call = modernCall(method, params);
    return runInCall(call, async () => dispatcher.request(call)).catch((error: unknown) => error);
  };
  expect(await refusalOf('resources/list', {})).toMatchObject({ code: -32601, status: 404, headers: {} });
  const own = await refusalOf('prompts/get', { name: 'x' });
  expect(own).toMatchObject({ code: -32601, message: 'mine' });
  expect(own).not.toHaveProperty('status');
});

function modernCall(method: string, params: object): McpCall {
  const client: CallingClient = {
    identity: () => ({ protocolVersion: '2026-07-28', ...CLIENT }),
    wantsLog: () => false,
    notify: () => Promise.resolve(),
    request: () => Promise.reject(new Error('not in this era')),
  };
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': CLIENT.clientInfo,
    'io.modelcontextprotocol/clientCapabilities': CLIENT.capabilities,
  };
  const message = { jsonrpc: '2.0', id: 7, method, params: { ...params, _meta } } as const;
  return new McpCall({ era: 'modern', principal: 'ann', request: undefined }, message, client);
}
