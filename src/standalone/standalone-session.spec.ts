import { Server, type ServerContext } from '@modelcontextprotocol/server';
import type { Subscription } from 'rxjs';
import { NEVER } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { currentMcpCall, type McpHttpCall } from '../core/calls/mcp-call.js';
import type { McpReply, PendingReply } from '../core/calls/mcp-exchange.js';
import { InMemoryEventStore } from '../core/log/in-memory-event-store.js';
import { ManualClock } from '../testing/index.js';
import { FaultyEventStore, type EventStoreFaults } from '../../test/support/faulty-event-store.js';
import type { JsonRpcMessage, RequestId } from '../core/protocol/json-rpc.js';
import type { McpSession } from '../core/sessions/live/mcp-session.js';
import type { McpSessionEvent } from '../core/sessions/session-events.js';
import { McpServerRequestError } from '../core/calls/server-request.error.js';
import { createMcpSession, type McpStandaloneSessionOptions } from './standalone-session.js';

const HTTP: McpHttpCall = { era: 'legacy', principal: undefined, request: undefined };
const FLOWING = { paused: false, resumed$: NEVER };

type Tool = (ctx: ServerContext, server: Server) => Promise<string | undefined> | string | undefined;

interface Setup extends McpStandaloneSessionOptions {
  tools?: Record<string, Tool>;
  capabilities?: object;
  faults?: EventStoreFaults;
  scope?: 'node' | 'shared';
}

/** A session with a server behind it, initialized, without HTTP and without the module. */
async function setup({ tools = {}, capabilities = {}, faults = {}, scope = 'node', ...options }: Setup = {}) {
  const clock = new ManualClock();
  const log = new InMemoryEventStore({}, new ManualClock(), scope);
  const store = new FaultyEventStore(log, clock, faults);
  const events: McpSessionEvent[] = [];
  const server = new Server({ name: 'spec', version: '1' }, { capabilities: { tools: {}, logging: {} } });
  server.setRequestHandler('tools/call', async ({ params }, ctx) => {
    const text = await tools[params.name]!(ctx, server);
    return { content: [{ type: 'text', text: text ?? 'done' }] };
  });
  const session = await createMcpSession(server, {
    clock,
    eventStore: store,
    onEvent: (event) => events.push(event),
    ...options,
  });
  const answer = await bodyOf(session.receive(HTTP, { batch: false, messages: [initialize(capabilities)] }));
  expect(answer).toMatchObject({ result: { protocolVersion: '2025-11-25' } });
  const post = (...messages: JsonRpcMessage[]) => session.receive(HTTP, { batch: messages.length > 1, messages });
  void post({ jsonrpc: '2.0', method: 'notifications/initialized' });
  /** Nothing runs, waits, or is kept. */
  const expectRest = async (): Promise<void> => {
    await clock.advance(0);
    expect({ ...session.counts, timers: clock.pending }).toEqual({ ...REST, timers: 0 });
  };
  return { clock, log, store, events, session, server, post, expectRest };
}

const REST = { inFlight: 0, streams: 0, readers: 0, outbound: 0 };

function initialize(capabilities: object = {}): JsonRpcMessage {
  const params = { protocolVersion: '2025-11-25', capabilities, clientInfo: { name: 'spec', version: '1' } };
  return { jsonrpc: '2.0', id: 'init', method: 'initialize', params };
}

function call(name: string, id: RequestId = 1): JsonRpcMessage {
  return { jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: {} } };
}

function cancel(requestId: RequestId, reason?: unknown): JsonRpcMessage {
  return { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId, reason } };
}

async function bodyOf(serving: PendingReply): Promise<unknown> {
  const reply = await serving.reply;
  if (reply.kind !== 'json') throw new Error(`The reply is ${reply.kind}.`);
  return JSON.parse(reply.body);
}

interface Reading {
  /** `result`, `error` or the method of each message. */
  messages: Record<string, unknown>[];
  ended: boolean;
  leave(): void;
}

/** Reads a reply as a response does. */
function read(reply: McpReply): Reading {
  if (reply.kind !== 'events') throw new Error(`The reply is ${reply.kind}.`);
  const reading: Reading = { messages: [], ended: false, leave: () => subscription.unsubscribe() };
  const subscription: Subscription = reply.open(FLOWING).subscribe({
    next: ({ data }) => {
      if (data) reading.messages.push(JSON.parse(data) as Record<string, unknown>);
    },
    error: () => (reading.ended = true),
    complete: () => (reading.ended = true),
  });
  return reading;
}

const forms = ({ messages }: Reading) =>
  messages.map((message) => message['method'] ?? Object.keys(message).find((key) => key !== 'jsonrpc' && key !== 'id'));
const log = (text: string) => ({ method: 'notifications/message', params: { level: 'info', data: text } }) as const;
const elicitation = {
  method: 'elicitation/create',
  params: { message: 'sure?', requestedSchema: { type: 'object' as const, properties: {} } },
} as const;
const until = (signal: AbortSignal) =>
  new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));

describe('a session without the module', () => {
  it('a session without the module serves a server: initialize, then requests, each answered as JSON', async () => {
    const { session, post, expectRest } = await setup({ tools: { quick: () => 'quick' } });
    expect(session.info).toMatchObject({ protocolVersion: '2025-11-25', clientInfo: { name: 'spec' } });
    expect(await bodyOf(post(call('quick')))).toMatchObject({ id: 1, result: { content: [{ text: 'quick' }] } });
    expect(await post({ jsonrpc: '2.0', method: 'notifications/x' }).reply).toEqual({ kind: 'accepted' });
    await expectRest();
  });

  it('a session without the module takes all messages of a POST or none', async () => {
    const { post, expectRest } = await setup({ tools: { quick: () => 'quick' } });
    expect(() => post(initialize())).toThrow(expect.objectContaining({ code: 'INVALID_REQUEST', requestId: 'init' }));
    expect(() => post(call('quick', 1), call('quick', 2))).toThrow('batches');
    await expectRest();
  });

  it('a session without the module knows nothing but initialize before that', async () => {
    const session = await createMcpSession(new Server({ name: 'spec', version: '1' }), { clock: new ManualClock() });
    expect(() => session.receive(HTTP, { batch: false, messages: [call('quick')] })).toThrow('before "initialize"');
  });

  it('S11: a session without the module refuses an id that is in flight, and leaves its request alone', async () => {
    const { session, post } = await setup({ tools: { waits: (ctx) => until(ctx.mcpReq.signal).then(() => 'x') } });
    const serving = post(call('waits'));
    expect(() => post(call('waits'))).toThrow(expect.objectContaining({ code: 'INVALID_REQUEST', requestId: 1 }));
    expect(session.counts.inFlight).toBe(1);
    post(call('waits', '1'));
    expect(session.counts.inFlight).toBe(2);
    await session.end('terminated');
    expect(await bodyOf(serving)).toMatchObject({ id: 1, error: { code: -32000 } });
  });

  it('P6: what a handler sends goes to the stream of its own request, by id or by async context', async () => {
    const tools: Record<string, Tool> = {
      says: async (ctx, server) => {
        await ctx.mcpReq.notify(log('by id'));
        await server.notification(log('by context'));
        return 'said';
      },
    };
    const { post, log: store, expectRest } = await setup({ tools });
    const reading = read(await post(call('says')).reply);
    await new Promise(setImmediate);
    expect(forms(reading)).toEqual(['notifications/message', 'notifications/message', 'result']);
    expect(reading.ended).toBe(true);
    expect((await store.stats()).streams).toBe(1);
    await expectRest();
  });

  it('a context of another session does not count', async () => {
    const other = await setup();
    const tools: Record<string, Tool> = {
      crosses: async () => {
        expect(currentMcpCall()).toBeDefined();
        await other.server.notification(log('to the other'));
        return 'crossed';
      },
    };
    const { post } = await setup({ tools });
    expect(await bodyOf(post(call('crosses')))).toMatchObject({ result: {} });
    const reading = read(await other.session.open());
    await other.clock.advance(0);
    expect(forms(reading)).toEqual(['notifications/message']);
    reading.leave();
  });

  it('a session without the module takes a new server of the SDK, and nothing else', async () => {
    await expect(createMcpSession({} as never)).rejects.toThrow('must return a new McpServer or Server');
    const { server } = await setup();
    await expect(createMcpSession(server)).rejects.toThrow('is already connected');
  });

  it('an answer that JSON has no words for is an error, not silence', async () => {
    const { events, server, post, expectRest } = await setup();
    server.fallbackRequestHandler = async () => ({ big: 5n });
    const answer = await bodyOf(post({ jsonrpc: '2.0', id: 1, method: 'x.example/big' }));
    expect(answer).toMatchObject({ id: 1, error: { code: -32603 } });
    expect(events.map(({ type }) => type)).toContain('protocol-error');
    await expectRest();
  });

  it('a server that throws at a message answers it with an error', async () => {
    const { server, post, events, expectRest } = await setup();
    server.transport!.onmessage = () => {
      throw new Error('stumbled');
    };
    expect(await bodyOf(post(call('x')))).toMatchObject({ id: 1, error: { code: -32603 } });
    expect(await post({ jsonrpc: '2.0', method: 'notifications/x' }).reply).toEqual({ kind: 'accepted' });
    expect(events).toMatchObject([1, 2].map(() => ({ type: 'protocol-error', error: { message: 'stumbled' } })));
    await expectRest();
  });

  it('D12: what hears of progress and throws is told of, and the client is not', async () => {
    const { session, post, events, expectRest } = await setup({ capabilities: { elicitation: {} } });
    const reading = read(await session.open());
    const onprogress = (): never => {
      throw new Error('stumbled');
    };
    const asked = session.request(elicitation, { onprogress });
    await new Promise(setImmediate);
    const { id } = reading.messages[0] as { id: string };
    const progress = { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: id, progress: 1 } };
    expect(await post(progress as JsonRpcMessage).reply).toEqual({ kind: 'accepted' });
    expect(events).toContainEqual(expect.objectContaining({ type: 'protocol-error', error: new Error('stumbled') }));
    void post({ jsonrpc: '2.0', id, result: { action: 'accept' } });
    expect(await asked).toEqual({ action: 'accept' });
    reading.leave();
    await expectRest();
  });
});

describe('a request that ends without its answer', () => {
  const tools: Record<string, Tool> = {
    waits: async (ctx) => {
      await until(ctx.mcpReq.signal);
      return String(ctx.mcpReq.signal.reason);
    },
  };

  it.each([['enough'], [undefined], [42], [{ toString: 1 }]])('P9: cancelled because of %j', async (reason) => {
    const { session, post, expectRest } = await setup({ tools });
    const serving = post(call('waits'));
    await Promise.resolve();
    expect(session.busy).toBe(true);
    void post(cancel(1, reason));
    const reading = read(await serving.reply);
    expect([reading.messages, reading.ended, session.busy]).toEqual([[], true, false]);
    await expectRest();
  });

  it('initialize cannot be cancelled, nor what nobody knows', async () => {
    const { post, expectRest } = await setup();
    void post(cancel('init'));
    void post(cancel('unknown'));
    void post({ jsonrpc: '2.0', method: 'notifications/cancelled' });
    await expectRest();
  });

  it('a request that ends without its answer is over after requestTimeoutMs, with an error', async () => {
    const { clock, post, expectRest } = await setup({ tools, requestTimeoutMs: 100, sseAfterMs: 1_000 });
    const serving = post(call('waits'));
    await clock.advance(100);
    expect(await bodyOf(serving)).toMatchObject({ id: 1, error: { code: -32001 } });
    await expectRest();
  });

  it('a request that ends without its answer is over when the log refuses its stream', async () => {
    const aborted: boolean[] = [];
    const { clock, post, store, expectRest } = await setup({
      tools: {
        says: async (ctx) => {
          await ctx.mcpReq.notify(log('1')).catch(() => {});
          aborted.push(ctx.mcpReq.signal.aborted);
          return 'x';
        },
      },
    });
    store.faults = { failBefore: () => true };
    post(call('says'));
    await clock.advance(60_000);
    expect(aborted).toEqual([true]);
    store.faults = {};
    await clock.advance(60_000);
    await expectRest();
  });
});

describe('a request to the client', () => {
  const asks: Record<string, Tool> = {
    asks: async (ctx) => JSON.stringify(await ctx.mcpReq.send(elicitation)),
    fails: async (ctx) => {
      const failure = await ctx.mcpReq.send(elicitation).then(
        () => 'none',
        (error: unknown) => error,
      );
      return failure instanceof McpServerRequestError ? failure.code : String(failure);
    },
  };
  const able = { elicitation: {} };

  it('P7: a request to the client goes out on the stream of its call under an id of its own, and its answer comes back', async () => {
    const { session, post, events, expectRest } = await setup({ tools: asks, capabilities: able });
    const reading = read(await post(call('asks')).reply);
    await new Promise(setImmediate);
    const [{ id, method }] = reading.messages as [{ id: string; method: string }];
    expect([method, session.counts.outbound]).toEqual(['elicitation/create', 1]);
    expect(id).not.toBe('0');
    void post({ jsonrpc: '2.0', id: 0, result: { action: 'accept' } });
    void post({ jsonrpc: '2.0', id, result: { action: 'decline' } });
    void post({ jsonrpc: '2.0', id, result: { action: 'accept' } });
    await new Promise(setImmediate);
    expect(JSON.stringify(reading.messages.at(-1))).toContain('decline');
    expect(events.filter(({ type }) => type === 'unknown-response')).toHaveLength(2);
    await expectRest();
  });

  it.each([
    ['CLIENT_LACKS_CAPABILITY', {}, 'auto'],
    ['CLIENT_LACKS_CAPABILITY', { elicitation: { url: {} } }, 'auto'],
    ['NO_STREAM', able, 'json'],
  ] as const)(
    'P7, D20: a request to the client fails at once with %s for %j, and nothing is sent',
    async (code, capabilities, responseMode) => {
      const { post, expectRest } = await setup({ tools: asks, capabilities, responseMode });
      expect(await bodyOf(post(call('fails')))).toMatchObject({ result: { content: [{ text: code }] } });
      await expectRest();
    },
  );

  it('P7: outside of any call needs somebody who listens', async () => {
    const { session, server, clock, expectRest } = await setup({ capabilities: able });
    await expect(server.request(elicitation)).rejects.toMatchObject({ code: 'NO_STREAM' });
    const reading = read(await session.open());
    const asked = server.request(elicitation);
    await clock.advance(0);
    expect(forms(reading)).toEqual(['elicitation/create']);
    const closed = asked.then(
      () => 'answered',
      () => 'failed',
    );
    await session.end('deleted');
    expect([await closed, reading.ended]).toEqual(['failed', true]);
    await expectRest();
  });

  it('a request to the client says that the log is away when it cannot tell whether a client listens', async () => {
    const { events, server, store } = await setup({ scope: 'shared' });
    store.faults = { refuse: ({ method }) => (method === 'read' ? new Error('away') : undefined) };
    const cause = expect.objectContaining({ message: 'away' }) as Error;
    await expect(server.ping()).rejects.toMatchObject({
      name: 'McpServerRequestError',
      code: 'STORE_UNAVAILABLE',
      cause,
    });
    expect(events).toContainEqual(expect.objectContaining({ type: 'store-fault', fatal: false }));
  });

  it('P8: a request to the client after its call was answered is refused', async () => {
    const late: Promise<unknown>[] = [];
    const tools: Record<string, Tool> = {
      leaves: (ctx) => {
        late.push(new Promise(setImmediate).then(() => ctx.mcpReq.send(elicitation)));
        return 'left';
      },
    };
    const { post, events, expectRest } = await setup({ tools, capabilities: able });
    await bodyOf(post(call('leaves')));
    await expect(late[0]).rejects.toMatchObject({ code: 'CALL_OVER' });
    expect(events).toContainEqual(expect.objectContaining({ type: 'late-message', disposition: 'refused' }));
    await expectRest();
  });

  it('a request to the client leaves nothing when its call is cancelled in the same breath', async () => {
    const asked: Promise<PromiseSettledResult<unknown>[]>[] = [];
    const { session, server, post, expectRest } = await setup({ capabilities: able });
    server.transport!.onmessage = (message) => {
      if ('method' in message && 'id' in message)
        asked.push(Promise.allSettled([session.request(elicitation, {}, message.id)]));
    };
    post(call('x'));
    void post(cancel(1));
    await new Promise(setImmediate);
    expect(await Promise.all(asked)).toMatchObject([[{ status: 'rejected', reason: { code: 'CALL_OVER' } }]]);
    await expectRest();
  });

  it('a request to the client leaves nothing when the session ends while it is looked for readers', async () => {
    const slowly: EventStoreFaults = { delayAnswer: ({ method }) => (method === 'read' ? 10 : 0) };
    const { clock, session, log: store, faults, expectRest } = await setupListened(able, slowly);
    faults();
    const outcome = session.request(elicitation).then(
      () => 'sent',
      (error: unknown) => error,
    );
    await clock.advance(5);
    const ended = session.end('deleted');
    await clock.advance(100);
    await ended;
    expect(await outcome).toMatchObject({ code: 'SESSION_OVER' });
    expect(await store.stats()).toMatchObject({ sessions: 0, events: 0 });
    await expectRest();
  });

  it('D24: a request to the client that is given up while it is looked for readers is not sent', async () => {
    const slowly: EventStoreFaults = { delayAnswer: ({ method }) => (method === 'read' ? 10 : 0) };
    const { clock, session, log: store, faults, expectRest } = await setupListened(able, slowly);
    faults();
    const abort = new AbortController();
    const outcome = session.request(elicitation, { signal: abort.signal }).then(
      () => 'sent',
      (error: unknown) => error,
    );
    await clock.advance(5);
    abort.abort(new Error('enough'));
    await clock.advance(100);
    expect(await outcome).toMatchObject({ code: 'CANCELLED', message: 'enough' });
    expect(await store.stats()).toMatchObject({ events: 0 });
    await expectRest();
  });

  /** A client listens on another node. */
  async function setupListened(capabilities: object, slowly: EventStoreFaults) {
    const made = await setup({ capabilities, scope: 'shared' });
    await made.log.claim(made.session.sessionId, '0', { node: 'other', reader: 'r' });
    return { ...made, faults: () => (made.store.faults = slowly) };
  }
});

describe('the end of a session', () => {
  it('S12: the end of a session answers every open call, aborts its handler, ends every response, and says so once', async () => {
    const aborted: unknown[] = [];
    const waits: Tool = async (ctx) => {
      await ctx.mcpReq.notify(log('waiting'));
      await until(ctx.mcpReq.signal);
      aborted.push(ctx.mcpReq.signal.aborted);
      return 'x';
    };
    const { session, post, log: store, clock, events } = await setup({ tools: { waits } });
    const readings = [read(await post(call('waits', 1)).reply), read(await post(call('waits', 2)).reply)];
    readings.push(read(await session.open()));
    await clock.advance(0);
    const reasons: string[] = [];
    session.closed$.subscribe((reason) => reasons.push(reason));
    const ends = [session.end('deleted'), session.end('idle')];
    await Promise.all(ends);
    session.closed$.subscribe({ next: (reason) => reasons.push(reason), complete: () => reasons.push('complete') });
    expect(reasons).toEqual(['deleted', 'deleted', 'complete']);
    expect(readings.map(forms)).toEqual([['notifications/message', 'error'], ['notifications/message', 'error'], []]);
    expect(readings.every(({ ended }) => ended)).toBe(true);
    await clock.advance(0);
    expect(aborted).toEqual([true, true]);
    expect(events.filter(({ type }) => type === 'closed')).toHaveLength(1);
    expect(await store.stats()).toEqual({ sessions: 0, streams: 0, events: 0, bytes: 0 });
    expect({ ...session.counts, timers: clock.pending }).toEqual({ ...REST, timers: 0 });
  });

  it('the end of a session is final: nothing is taken, opened or sent any more', async () => {
    const { session, server, post, events } = await setup();
    const { transport } = server;
    await session.end('terminated');
    expect(() => post(call('x'))).toThrow(expect.objectContaining({ code: 'SESSION_NOT_FOUND', status: 404 }));
    await expect(session.open()).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' });
    await expect(session.request({ method: 'ping' })).rejects.toMatchObject({ code: 'SESSION_OVER' });
    await session.notify(log('too late'));
    await transport!.send({ jsonrpc: '2.0', ...log('too late') });
    await transport!.send({ jsonrpc: '2.0', id: 1, result: {} });
    expect(events.filter(({ type }) => type === 'late-message')).toHaveLength(3);
    expect(session.counts).toEqual(REST);
  });

  it('S14: the end of a session comes with server.close(), also from within a handler that is being aborted', async () => {
    const tools: Record<string, Tool> = {
      closes: async (ctx, server) => {
        ctx.mcpReq.signal.addEventListener('abort', () => void server.close());
        await until(ctx.mcpReq.signal);
        return 'x';
      },
    };
    const { session, server, post, events } = await setup({ tools });
    const serving = post(call('closes'));
    await Promise.resolve();
    await server.close();
    expect(await bodyOf(serving)).toMatchObject({ error: { code: -32000 } });
    await session.end('deleted');
    expect(events.filter(({ type }) => type === 'closed')).toEqual([
      { type: 'closed', sessionId: session.sessionId, reason: 'terminated' },
    ]);
  });

  it('the end of a session is bounded in time, also when the log answers nobody', async () => {
    const waits: Tool = async (ctx) => {
      await ctx.mcpReq.notify(log('waiting'));
      return 'x';
    };
    const { clock, session, post, store } = await setup({ tools: { waits } });
    store.faults = { delay: () => 1e9 };
    const reading = read(await post(call('waits')).reply);
    let over = false;
    void session.end('deleted').then(() => (over = true));
    await clock.advance(999);
    expect(over).toBe(false);
    await clock.advance(1);
    expect([over, reading.ended]).toEqual([true, true]);
  });
});

it('notes when it last heard of its client', async () => {
  const { clock, session, post } = await setup();
  const begun: McpSession['lastSeenAt'] = session.lastSeenAt;
  await clock.advance(50);
  void post({ jsonrpc: '2.0', method: 'notifications/x' });
  expect(session.lastSeenAt).toBe(begun + 50);
  await clock.advance(50);
  read(await session.open()).leave();
  expect(session.lastSeenAt).toBe(begun + 100);
});
