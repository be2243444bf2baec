import { Server } from '@modelcontextprotocol/server';
import { NEVER } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import { type McpHttpCall } from '../core/calls/mcp-call.js';
import type { PendingReply } from '../core/calls/reply.js';
import { InMemoryEventStore } from '../core/log/in-memory-event-store.js';
import { ManualClock } from '../testing/index.js';
import { FaultyEventStore } from '../../test/support/faulty-event-store.js';
import type { JsonRpcMessage } from '../core/protocol/json-rpc.js';
import type { McpSession } from '../core/sessions/running/mcp-session.js';
import type { McpSessionEvent } from '../core/sessions/session-events.js';
import { createMcpSession } from './standalone-session.js';

const HTTP: McpHttpCall = { era: 'legacy', principal: undefined, request: undefined };
const CALL = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'x', arguments: {} } } as const;

/** A session with a server behind it, initialized, without HTTP and without the module. */
async function setup(scope: 'node' | 'shared' = 'node') {
  const clock = new ManualClock();
  const log = new InMemoryEventStore({}, new ManualClock(), scope);
  const store = new FaultyEventStore(log, clock);
  const events: McpSessionEvent[] = [];
  const server = new Server({ name: 'spec', version: '1' }, { capabilities: { tools: {}, logging: {} } });
  const onEvent = (event: McpSessionEvent): void => void events.push(event);
  const session = await createMcpSession(server, { clock, eventStore: store, onEvent });
  const post = (message: JsonRpcMessage) => session.receive(HTTP, { batch: false, messages: [message] });
  const client = { capabilities: { elicitation: {} }, clientInfo: { name: 'spec', version: '1' } };
  const params = { protocolVersion: '2025-11-25', ...client };
  await post({ jsonrpc: '2.0', id: 'init', method: 'initialize', params }).reply;
  void post({ jsonrpc: '2.0', method: 'notifications/initialized' });
  /** Nothing runs, waits, or is kept. */
  const expectRest = async (): Promise<void> => {
    await clock.advance(0);
    const rest = { inFlight: 0, streams: 0, readers: 0, outbound: 0, timers: 0 };
    expect({ ...session.counts, timers: clock.pending }).toEqual(rest);
  };
  return { clock, log, store, events, session, server, post, expectRest };
}

async function answerOf(serving: PendingReply): Promise<unknown> {
  const reply = await serving.reply;
  if (reply.kind !== 'json') throw new Error(`The reply is ${reply.kind}.`);
  return JSON.parse(reply.body);
}

/** Reads the standalone stream. */
async function listen(session: McpSession) {
  const reply = await session.open();
  if (reply.kind !== 'events') throw new Error(`The reply is ${reply.kind}.`);
  const messages: Record<string, unknown>[] = [];
  const reading = reply.open({ paused: false, resumed$: NEVER }).subscribe(({ data }) => {
    if (data) messages.push(JSON.parse(data) as Record<string, unknown>);
  });
  return { messages, ended: () => reading.closed, leave: () => reading.unsubscribe() };
}

const turn = () => new Promise((resolve) => void setImmediate(resolve));
const elicitation = {
  method: 'elicitation/create',
  params: { message: 'sure?', requestedSchema: { type: 'object' as const, properties: {} } },
} as const;

describe('a session without the module', () => {
  it('a session without the module takes a new server of the SDK, and nothing else', async () => {
    await expect(createMcpSession({} as never)).rejects.toThrow('must return a new McpServer or Server');
    const { server } = await setup();
    await expect(createMcpSession(server)).rejects.toThrow('is already connected');
  });

  it('a session without the module sends what a call of another session says on its standalone stream', async () => {
    const [one, other] = [await setup(), await setup()];
    one.server.setRequestHandler('tools/call', async () => {
      await other.server.notification({ method: 'notifications/message', params: { level: 'info', data: 'x' } });
      return { content: [] };
    });
    expect(await answerOf(one.post(CALL))).toMatchObject({ result: {} });
    const { messages, leave } = await listen(other.session);
    await other.clock.advance(0);
    expect(messages).toMatchObject([{ method: 'notifications/message' }]);
    leave();
  });

  it('a session without the module ends each reader of its standalone stream that a newer one has replaced', async () => {
    const { session, clock } = await setup();
    const readers = [await listen(session), await listen(session)];
    await clock.advance(60_000);
    readers.push(await listen(session));
    await clock.advance(60_000);
    expect(readers.map(({ ended }) => ended())).toEqual([true, true, false]);
    readers[2]!.leave();
  });

  it('a session without the module answers with an error where JSON has no words for the result', async () => {
    const { events, server, post, expectRest } = await setup();
    server.fallbackRequestHandler = async () => ({ big: 5n });
    const answer = await answerOf(post({ jsonrpc: '2.0', id: 1, method: 'x.example/big' }));
    expect(answer).toMatchObject({ id: 1, error: { code: -32603 } });
    expect(events.map(({ type }) => type)).toContain('protocol-error');
    await expectRest();
  });

  it('a session without the module answers with an error when its server throws at a message', async () => {
    const { server, post, events, expectRest } = await setup();
    server.transport!.onmessage = () => {
      throw new Error('stumbled');
    };
    expect(await answerOf(post(CALL))).toMatchObject({ id: 1, error: { code: -32603 } });
    expect(await post({ jsonrpc: '2.0', method: 'notifications/x' }).reply).toEqual({ kind: 'accepted' });
    expect(events).toMatchObject([1, 2].map(() => ({ type: 'protocol-error', error: { message: 'stumbled' } })));
    await expectRest();
  });

  it('D12: a session without the module reports what throws at progress, and the client does not learn of it', async () => {
    const { session, post, events, expectRest } = await setup();
    const { messages, leave } = await listen(session);
    const onprogress = (): never => {
      throw new Error('stumbled');
    };
    const asked = session.request(elicitation, { onprogress });
    await turn();
    const { id } = messages[0] as { id: string };
    const params = { progressToken: id, progress: 1 };
    expect(await post({ jsonrpc: '2.0', method: 'notifications/progress', params }).reply).toEqual({
      kind: 'accepted',
    });
    expect(events).toContainEqual(expect.objectContaining({ type: 'protocol-error', error: new Error('stumbled') }));
    void post({ jsonrpc: '2.0', id, result: { action: 'accept' } });
    expect(await asked).toEqual({ action: 'accept' });
    leave();
    await expectRest();
  });

  it('a session without the module ends a response that is opened after its end', async () => {
    const { session, expectRest } = await setup();
    const reply = await session.open();
    await session.end('deleted');
    const complete = vi.fn();
    if (reply.kind === 'events') reply.open({ paused: false, resumed$: NEVER }).subscribe({ complete });
    expect(complete).toHaveBeenCalledOnce();
    await expectRest();
  });
});

describe('a request to the client', () => {
  /** A client listens on another node, which a slow log says late. */
  async function listenedElsewhere() {
    const made = await setup('shared');
    await made.log.claim(made.session.sessionId, '0', { node: 'other', reader: 'r' });
    made.store.faults = { delayAnswer: ({ method }) => (method === 'read' ? 10 : 0) };
    return made;
  }

  it('a request to the client says that the log is away when it cannot tell whether a client listens', async () => {
    const { events, server, store } = await setup('shared');
    store.faults = { refuse: ({ method }) => (method === 'read' ? new Error('away') : undefined) };
    const cause = expect.objectContaining({ message: 'away' }) as Error;
    const unavailable = { name: 'McpServerRequestError', code: 'STORE_UNAVAILABLE', cause };
    await expect(server.ping()).rejects.toMatchObject(unavailable);
    expect(events).toContainEqual(expect.objectContaining({ type: 'store-fault', fatal: false }));
  });

  it('a request to the client leaves nothing when its call is cancelled in the same breath', async () => {
    const asked: Promise<unknown>[] = [];
    const { session, server, post, expectRest } = await setup();
    server.transport!.onmessage = (message) => {
      if ('method' in message && 'id' in message)
        asked.push(session.request(elicitation, {}, message.id).catch((error: unknown) => error));
    };
    post(CALL);
    expect(session.busy).toBe(true);
    void post({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } });
    await turn();
    expect(await Promise.all(asked)).toMatchObject([{ code: 'CALL_OVER' }]);
    await expectRest();
  });

  it('a request to the client leaves nothing when the session ends while readers are looked for', async () => {
    const { clock, session, log, expectRest } = await listenedElsewhere();
    const outcome = session.request(elicitation).catch((error: unknown) => error);
    await clock.advance(5);
    const ended = session.end('deleted');
    await clock.advance(100);
    await ended;
    expect(await outcome).toMatchObject({ code: 'SESSION_OVER' });
    expect(await log.stats()).toMatchObject({ sessions: 0, events: 0 });
    await expectRest();
  });

  it('D24: a request to the client that is given up while readers are looked for is not sent', async () => {
    const { clock, session, log, expectRest } = await listenedElsewhere();
    const abort = new AbortController();
    const outcome = session.request(elicitation, { signal: abort.signal }).catch((error: unknown) => error);
    await clock.advance(5);
    abort.abort(new Error('enough'));
    await clock.advance(100);
    expect(await outcome).toMatchObject({ code: 'CANCELLED', message: 'enough' });
    expect(await log.stats()).toMatchObject({ events: 0 });
    await expectRest();
  });
});
