import { getEventListeners } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import type { Transport, TransportSendOptions } from '@modelcontextprotocol/server';
import { McpTaskTransport } from 'nestjs-mcp-streamable/client';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { modernMeta } from '../support/modern-client.js';

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever was sent
type Message = any;
/** What becomes of a request: its result, an error of JSON-RPC, one of the network, or `undefined`: no answer. */
type Fate = { result: object } | { error: object } | Error | undefined;

/** A server that says what it is told to, and a transport that leads to it. */
class Script implements Transport {
  onmessage?: Transport['onmessage'];
  onerror?: Transport['onerror'];
  onclose?: Transport['onclose'];
  readonly sent: { message: Message; options: TransportSendOptions }[] = [];
  get: (times: number) => Fate = () => ({ result: { ...TASK, status: 'working' } });
  call: () => Fate = () => ({ result: { ...TASK, resultType: 'task', status: 'working' } });

  async start(): Promise<void> {}
  async close(): Promise<void> {
    this.onclose?.();
  }

  async send(message: Message, options: TransportSendOptions = {}): Promise<void> {
    this.sent.push({ message, options });
    if (message.id === undefined) return;
    const fate =
      message.method === 'tools/call'
        ? this.call()
        : message.method === 'tasks/get'
          ? this.get(this.methods('tasks/get').length)
          : { result: { resultType: 'complete' } };
    if (fate instanceof Error) throw fate;
    if (fate) this.onmessage?.({ jsonrpc: '2.0', id: message.id, ...fate } as never);
  }

  methods(name: string): Message[] {
    return this.sent.map(({ message }) => message).filter(({ method }) => method === name);
  }
}

const TASK = { taskId: 't1', createdAt: '', lastUpdatedAt: '', ttlMs: 60_000, pollIntervalMs: 100 };
const CALL = {
  jsonrpc: '2.0',
  id: 7,
  method: 'tools/call',
  params: { name: 'slow', _meta: { ...modernMeta(), progressToken: 7 } },
} as const;
const DONE = { result: { ...TASK, status: 'completed', result: { content: [] } } };

const clocks: ManualClock[] = [];
afterEach(() => {
  for (const clock of clocks.splice(0)) expect(clock.pending).toBe(0);
});

const opened = async (script = new Script()) => {
  const clock = new ManualClock();
  clocks.push(clock);
  const transport = new McpTaskTransport(script, clock);
  const heard: Message[] = [];
  transport.onmessage = (message) => heard.push(message);
  await transport.start();
  /** The answer that the client got, one turn behind the last progress. */
  const answer = async (): Promise<Message> => {
    await setImmediate();
    return heard.find(({ id }) => id === CALL.id);
  };
  return { script, clock, transport, heard, answer };
};

describe('our client transport polls a task', () => {
  it.each([
    [undefined, 1_000],
    [null, 1_000],
    ['5', 1_000],
    [Number.NaN, 1_000],
    [0, 1_000],
    [-1, 1_000],
    [1e-9, 20],
    [1, 20],
    [300, 300],
    [1e12, 60_000],
    [Infinity, 60_000],
  ])(
    'our client transport polls a task at a bounded pace, also when the server sets pollInterval %s',
    async (pollIntervalMs, ms) => {
      const { script, clock, transport, answer } = await opened();
      const task = { ...TASK, pollIntervalMs, status: 'working' };
      script.call = () => ({ result: { ...task, resultType: 'task' } });
      script.get = (times) => (times < 3 ? { result: task } : DONE);
      await transport.send(CALL);
      for (let n = 1; n <= 3; n++) {
        await clock.advance(ms - 1);
        expect(script.methods('tasks/get')).toHaveLength(n - 1);
        await clock.advance(1);
        expect(script.methods('tasks/get')).toHaveLength(n);
      }
      expect((await answer()).result).toEqual({ content: [], resultType: 'complete' });
    },
  );

  it.each<[string, Fate]>([
    ['could not be sent', new Error('broken')],
    // As a node that cannot reach its store says it on a stream that has begun.
    ['failed at the server', { error: { code: -32000, message: 'The storage of tasks is away.' } }],
    ['took the server too long', { error: { code: -32001, message: 'Too late.' } }],
    ['met a fault of the server', { error: { code: -32603, message: 'A fault.' } }],
  ])('again when a poll %s, after a second at least', async (_, fate) => {
    const { script, clock, transport, answer } = await opened();
    script.get = (times) => (times < 5 ? fate : DONE);
    await transport.send(CALL);
    await clock.advance(100);
    for (let n = 1; n < 5; n++) {
      expect(script.methods('tasks/get')).toHaveLength(n);
      await clock.advance(999);
      expect(script.methods('tasks/get')).toHaveLength(n);
      await clock.advance(1);
    }
    expect((await answer()).result).toEqual({ content: [], resultType: 'complete' });
  });

  it('again when a response ended without an answer', async () => {
    const { script, clock, transport, answer } = await opened();
    script.get = (times) => (times === 1 ? undefined : DONE);
    await transport.send(CALL);
    await clock.advance(100);
    expect(script.methods('tasks/get')).toHaveLength(1);
    script.sent.at(-1)!.options.onRequestStreamEnd?.();
    await clock.advance(1_000);
    expect((await answer()).result).toEqual({ content: [], resultType: 'complete' });
  });

  it('until five failures in a row, which are an error', async () => {
    const { script, clock, transport, answer } = await opened();
    script.get = () => new Error('broken');
    await transport.send(CALL);
    await clock.advance(10_000);
    expect(script.methods('tasks/get')).toHaveLength(5);
    expect((await answer()).error).toMatchObject({ code: -32000, message: expect.stringContaining('broken') });
  });

  it('until the server reports that it is unknown, as after a restart', async () => {
    const { script, clock, transport, answer } = await opened();
    script.get = () => ({ error: { code: -32602, message: 'There is no task.' } });
    await transport.send(CALL);
    await clock.advance(10_000);
    expect(script.methods('tasks/get')).toHaveLength(1);
    expect((await answer()).error).toMatchObject({
      code: -32602,
      message: expect.stringContaining('There is no task.'),
    });
  });

  it('our client transport polls a task without piling up listeners, however often', async () => {
    const { script, clock, transport } = await opened();
    const warnings: Error[] = [];
    const warned = (warning: Error): void => void warnings.push(warning);
    process.on('warning', warned);
    const leaving = new AbortController();
    await transport.send(CALL, { requestSignal: leaving.signal });
    await clock.advance(10_000);
    const signal = script.sent.at(-1)!.options.requestSignal!;
    expect(script.methods('tasks/get').length).toBeGreaterThan(50);
    expect(getEventListeners(signal, 'abort').length).toBeLessThan(5);
    // As of responses that stay open for a while after their answer.
    for (let n = 0; n < 20; n++) signal.addEventListener('abort', () => n);
    leaving.abort();
    await clock.advance(0);
    await setImmediate();
    process.off('warning', warned);
    expect(warnings).toEqual([]);
  });
});

describe('a call that its caller cancels', () => {
  const cancelled = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: CALL.id } } as const;

  it.each(['signal', 'notification'])('a call that its caller cancels has its task cancelled, by %s', async (by) => {
    const { script, clock, transport, answer } = await opened();
    const leaving = new AbortController();
    await transport.send(CALL, by === 'signal' ? { requestSignal: leaving.signal } : {});
    await clock.advance(250);
    if (by === 'signal') leaving.abort();
    else await transport.send(cancelled);
    await clock.advance(1_000);
    expect(script.methods('tasks/cancel')).toMatchObject([{ params: { taskId: 't1' } }]);
    expect(script.methods('notifications/cancelled')).toEqual([]);
    expect([script.methods('tasks/get').length, await answer()]).toEqual([2, undefined]);
  });

  it.each(['signal', 'notification'])(
    'before it is known to be a task: the same, when it becomes one (%s)',
    async (by) => {
      const { script, clock, transport, answer } = await opened();
      script.call = () => undefined;
      const leaving = new AbortController();
      await transport.send(CALL, by === 'signal' ? { requestSignal: leaving.signal } : {});
      if (by === 'signal') leaving.abort();
      else await transport.send(cancelled);
      // The answer was under way.
      script.onmessage!({ jsonrpc: '2.0', id: CALL.id, result: { ...TASK, resultType: 'task', status: 'working' } });
      await clock.advance(1_000);
      expect(script.methods('notifications/cancelled')).toHaveLength(by === 'signal' ? 0 : 1);
      expect(script.methods('tasks/cancel')).toMatchObject([{ params: { taskId: 't1' } }]);
      expect([script.methods('tasks/get'), await answer()]).toEqual([[], undefined]);
    },
  );

  it('a call that its caller cancels leaves nothing behind while a poll hangs', async () => {
    const { script, clock, transport } = await opened();
    script.get = () => undefined;
    const leaving = new AbortController();
    await transport.send(CALL, { requestSignal: leaving.signal });
    await clock.advance(100);
    leaving.abort();
    await clock.advance(0);
    expect(script.methods('tasks/cancel')).toHaveLength(1);
  });
});

it('closing the transport ends all polls, and cancels no task', async () => {
  const { script, clock, transport, answer } = await opened();
  await transport.send(CALL);
  await clock.advance(150);
  await transport.close();
  await clock.advance(1_000);
  expect(script.methods('tasks/cancel')).toEqual([]);
  expect([script.methods('tasks/get').length, await answer()]).toEqual([1, undefined]);
});

it.each([
  ['completed without a result', { status: 'completed' }, { result: { resultType: 'complete' } }],
  ['failed without an error', { status: 'failed' }, { error: { code: -32000 } }],
  ['cancelled', { status: 'cancelled' }, { error: { code: -32000 } }],
])('a task that is %s is answered', async (_, state, expected) => {
  const { script, clock, transport, answer } = await opened();
  script.get = () => ({ result: { ...TASK, ...state } });
  await transport.send(CALL);
  await clock.advance(100);
  expect(await answer()).toMatchObject(expected);
});

it('calls of other revisions, and other requests, are passed on as they are', async () => {
  const { script, transport } = await opened();
  const others: Message[] = [
    { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'slow' } },
    { jsonrpc: '2.0', id: 2, method: 'tools/list', params: { _meta: modernMeta() } },
  ];
  for (const other of others) await transport.send(other);
  expect(script.sent.map(({ message }) => message)).toEqual(others);
});
