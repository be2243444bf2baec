import { describe, expect, it, vi } from 'vitest';
import { BusNodes } from './bus-nodes.js';
import { InMemoryMessageBus } from './in-memory-message-bus.js';
import type { McpDispatcher } from '../calls/mcp-dispatcher.js';
import { CallObserver } from '../calls/call-observer.js';
import { MCP_DROPPED_SESSION_MS } from '../log/event-store.js';
import { McpStreamNotFoundError } from '../log/event-store.errors.js';
import { InMemoryEventStore } from '../log/in-memory-event-store.js';
import type { McpAppendOptions, McpReadResult } from '../log/event-store.js';
import { DEFAULT_RETRY } from '../log/stream.options.js';
import { ManualClock } from '../../testing/index.js';
import type { JsonRpcMessage } from '../protocol/json-rpc.js';
import { addressee, Inbox } from './inbox.js';
import type { McpSessionEvent } from '../sessions/session-events.js';
import { InMemorySessionStore } from '../sessions/store/in-memory-session-store.js';
import { SessionRuntime } from '../sessions/session-runtime.js';
import { resolveOptions } from '../common/options.js';
import { SESSION_TABLE } from '../sessions/session.options.js';

const answer = (id: string) => ({ jsonrpc: '2.0', id, result: {} }) as const;
const note = (method: string, params: object = {}) => ({ jsonrpc: '2.0', method, params }) as JsonRpcMessage;
const ROOTS = note('notifications/roots/list_changed');

/** A log that all nodes share, and that can fail. */
class Log extends InMemoryEventStore {
  fails: 'before' | 'after' | undefined;
  #appended = 0;
  #lost = { after: 0, upTo: 0 };

  /** Its inbox has lost what was appended after an index, and goes on with other indices. */
  failOver(after: number): void {
    this.#lost = { after, upTo: this.#appended };
  }

  override async append(session: string, stream: string, events: readonly string[], options: McpAppendOptions) {
    if (this.fails === 'before') throw new Error('away');
    const result = await super.append(session, stream, events, options);
    this.#appended += events.length;
    if (this.fails === 'after') throw new Error('away');
    return result;
  }

  override async read(session: string, stream: string, after: number, limit: number): Promise<McpReadResult> {
    if (this.fails) throw new Error('away');
    const { after: kept, upTo } = this.#lost;
    if (kept === 0 && upTo === this.#appended && upTo > 0) throw new McpStreamNotFoundError(stream);
    const { events, ...rest } = await super.read(session, stream, after, limit);
    return { ...rest, events: events.filter(({ index }) => index <= kept || index > upTo) };
  }
}

/** The inbox never calls it. */
const dispatcher: McpDispatcher = {
  request: () => ({}),
  notification: () => {},
  sessionEnded: () => {},
  capabilities: () => ({}),
};

const isRunning = (id: unknown): boolean => id === 'mine';

async function setup() {
  const clock = new ManualClock();
  const log = new Log({}, clock, 'shared');
  await log.open('s');
  const told: string[] = [];
  const events: McpSessionEvent[] = [];
  const node = (nodeId: string, take?: (message: unknown) => void) => {
    const taken: unknown[] = [];
    const [options, records, nodes] = [
      resolveOptions(SESSION_TABLE, {}),
      new InMemorySessionStore(clock),
      BusNodes.over(new InMemoryMessageBus(nodeId)),
    ];
    const runtime = new SessionRuntime(options, clock, records, log, nodes, dispatcher, new CallObserver());
    runtime.events$.subscribe((event) => events.push(event));
    const session = { sessionId: 's', isRunning, take: take ?? ((message: unknown) => void taken.push(message)) };
    return { taken, inbox: new Inbox(session, runtime, (to) => told.push(to)) };
  };
  return { clock, log, told, events, node };
}

describe('an inbox', () => {
  it('an inbox hands over the messages for this node, once and in their order', async () => {
    const { clock, told, node } = await setup();
    const [a, b, c] = [node('a'), node('b'), node('c')];
    await b.inbox.put([answer('a-x-1'), answer('c-x-1'), ROOTS, answer('b-x-1'), note('notifications/initialized')]);
    await c.inbox.put([answer('a-x-2')]);
    expect(told).toEqual(['a', 'c', '*', 'a']);
    for (const { inbox } of [a, b, c]) {
      inbox.look();
      inbox.look();
    }
    await clock.advance(0);
    expect(a.taken).toEqual([answer('a-x-1'), ROOTS, answer('a-x-2')]);
    expect(b.taken).toEqual([]);
    expect(c.taken).toEqual([answer('c-x-1'), ROOTS]);
    a.inbox.look();
    await clock.advance(0);
    expect(a.taken).toHaveLength(3);
  });

  it('an inbox is empty for a live copy that was made after the messages', async () => {
    const { clock, node } = await setup();
    const [a, b] = [node('a'), node('b')];
    await b.inbox.put([answer('a-x-1')]);
    a.inbox.skip();
    a.inbox.look();
    await clock.advance(0);
    expect(a.taken).toEqual([]);
    await b.inbox.put([answer('a-x-2')]);
    a.inbox.look();
    await clock.advance(0);
    expect(a.taken).toEqual([answer('a-x-2')]);
  });

  it('an inbox refuses a message that it cannot log, signals no node, and accepts the next', async () => {
    const { log, told, node, clock } = await setup();
    const [a, b] = [node('a'), node('b')];
    for (const fails of ['before', 'after'] as const) {
      log.fails = fails;
      await expect(b.inbox.put([answer(`a-${fails}-1`)])).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    }
    expect(told).toEqual([]);
    log.fails = undefined;
    // The one whose outcome was unknown came through, and its number is not used for another.
    await Promise.all([b.inbox.put([answer('a-x-1')]), b.inbox.put([answer('a-x-2')])]);
    a.inbox.look();
    await clock.advance(0);
    expect(a.taken).toEqual([answer('a-after-1'), answer('a-x-1'), answer('a-x-2')]);
  });

  it('an inbox refuses at once while the log is unavailable, without a queue', async () => {
    const { log, node, clock } = await setup();
    const [a, b] = [node('a'), node('b')];
    log.fails = 'before';
    const put = [1, 2, 3].map((n) => b.inbox.put([answer(`a-x-${n}`)]));
    const outcomes = Promise.allSettled(put);
    await put[0]!.catch(() => {});
    log.fails = undefined;
    expect((await outcomes).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    await b.inbox.put([answer('a-x-4')]);
    a.inbox.look();
    await clock.advance(0);
    expect(a.taken).toEqual([answer('a-x-4')]);
  });

  it('an inbox reads again at each signal of a further message', async () => {
    const { clock, log, node } = await setup();
    const { inbox, taken } = node('a');
    for (let moment = 0; moment < 30; moment++) {
      inbox.look();
      for (let passed = 0; passed < moment; passed++) await Promise.resolve();
      const entry = { key: `${moment}`, from: 'b', to: 'a', message: answer(`a-x-${moment}`) };
      void log.append('s', 'inbox', [JSON.stringify(entry)], { writer: `${moment}`, seq: 1 });
      inbox.look();
      await clock.advance(0);
      expect(taken).toHaveLength(moment + 1);
    }
  });

  it('an inbox reads on when the log is back: for a while by itself, then at a signal, until it is closed', async () => {
    const { clock, log, node } = await setup();
    const [a, b] = [node('a'), node('b')];
    await b.inbox.put([answer('a-x-1')]);
    log.fails = 'before';
    a.inbox.look();
    await clock.advance(20_000);
    expect([a.taken, clock.pending]).toEqual([[], 1]);
    log.fails = undefined;
    await clock.advance(DEFAULT_RETRY.maxDelayMs);
    expect([a.taken, clock.pending]).toEqual([[answer('a-x-1')], 0]);
    await b.inbox.put([answer('a-x-2')]);
    log.fails = 'before';
    a.inbox.look();
    await clock.advance(60_000);
    await a.inbox.lookOnce();
    await clock.advance(0);
    expect([a.taken.length, clock.pending]).toEqual([1, 0]);
    log.fails = undefined;
    await a.inbox.lookOnce();
    await clock.advance(0);
    expect([a.taken.length, clock.pending]).toEqual([2, 0]);
    log.fails = 'before';
    a.inbox.look();
    await clock.advance(0);
    a.inbox.end();
    expect(clock.pending).toBe(0);
  });

  it('an inbox skips no message that is put there while an unavailable log was asked for the first position', async () => {
    const { clock, log, node } = await setup();
    const [a, b] = [node('a'), node('b')];
    log.fails = 'before';
    a.inbox.skip();
    log.fails = undefined;
    await b.inbox.put([answer('a-x-1')]);
    await clock.advance(60_000);
    a.inbox.look();
    await clock.advance(0);
    expect(a.taken).toEqual([answer('a-x-1')]);
  });

  it('an inbox refuses messages while it is full, and reports that a session is gone', async () => {
    const { clock, log, events, node } = await setup();
    const b = node('b');
    const many = Array.from({ length: 1_000 }, (_, n) => `${n}`);
    void log.append('s', 'inbox', many, { writer: 'w', seq: 1 });
    await expect(b.inbox.put([answer('a-x-1')])).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(events.splice(0)).toMatchObject([{ type: 'store-fault', error: { code: 'EVENT_LOG_FULL' } }]);
    await log.drop('s');
    await expect(b.inbox.put([ROOTS])).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' });
    await clock.advance(MCP_DROPPED_SESSION_MS);
    b.inbox.look();
    await clock.advance(0);
    expect(events).toEqual([]);
  });

  it('G12: an inbox puts messages again that the log has lost, and signals their nodes', async () => {
    const { clock, log, told, node } = await setup();
    const [a, b] = [node('a'), node('b')];
    await b.inbox.put([answer('a-x-1')]);
    await b.inbox.put([answer('a-x-2')]);
    await b.inbox.put([ROOTS]);
    log.failOver(1);
    b.inbox.confirm(true);
    await clock.advance(0);
    expect(told).toEqual(['a', 'a', '*', 'a', '*']);
    a.inbox.look();
    await clock.advance(0);
    expect(a.taken).toEqual([answer('a-x-1'), answer('a-x-2'), ROOTS]);
  });

  it('G12: an inbox puts a message again when the log is back, or has lost all messages', async () => {
    const { clock, log, node } = await setup();
    const [a, b] = [node('a'), node('b')];
    await b.inbox.put([answer('a-x-1')]);
    log.failOver(0);
    log.fails = 'before';
    b.inbox.confirm(true);
    await clock.advance(5_000);
    log.fails = undefined;
    await clock.advance(1_000);
    a.inbox.look();
    await clock.advance(0);
    expect(a.taken).toEqual([answer('a-x-1')]);
  });

  it('G12: an inbox looks for each message once more when replicas should have it, without a failover', async () => {
    const { clock, log, node } = await setup();
    const [a, b] = [node('a'), node('b')];
    const reads = vi.spyOn(log, 'read');
    /** A keep-alive tick, after so many milliseconds. @returns how often the log was read */
    const tick = async (ms: number): Promise<number> => {
      reads.mockClear();
      await clock.advance(ms);
      b.inbox.confirm(false);
      await clock.advance(0);
      return reads.mock.calls.length;
    };
    await b.inbox.put([answer('a-x-1')]);
    await b.inbox.put([note('notifications/progress', { progressToken: 'a-x-2', progress: 1 })]);
    expect(await tick(9_000)).toBe(0);
    log.failOver(0);
    expect(await tick(1_000)).toBe(1);
    expect(await tick(10_000)).toBe(0);
    a.inbox.look();
    await clock.advance(0);
    expect(a.taken).toEqual([answer('a-x-1')]);
  });

  it('G12: an inbox waits behind indices that the log has skipped', async () => {
    const { clock, log, node } = await setup();
    const a = node('a');
    await log.append('s', 'inbox', [], { writer: 'w', seq: 1, newest: 5 });
    const whole = log.read.bind(log);
    const reads = vi.spyOn(log, 'read').mockImplementation(async (...args) => {
      if (reads.mock.calls.length > 50) throw new Error('asked too often');
      return whole(...args);
    });
    a.inbox.look();
    await clock.advance(0);
    expect(reads).toHaveBeenCalledTimes(1);
    await node('b').inbox.put([answer('a-x-1')]);
    a.inbox.look();
    await clock.advance(0);
    expect(a.taken).toEqual([answer('a-x-1')]);
  });

  it('an inbox goes on when a server throws on a message', async () => {
    const { clock, events, node } = await setup();
    const a = node('a', () => {
      throw new TypeError('no');
    });
    await node('b').inbox.put([answer('a-x-1'), answer('a-x-2')]);
    a.inbox.look();
    await clock.advance(0);
    expect(events.map(({ type }) => type)).toEqual(['protocol-error', 'protocol-error']);
  });
});

describe('a message of the client', () => {
  it.each([
    ['other', answer('other-x-1')],
    [undefined, answer('me-x-1')],
    [undefined, { jsonrpc: '2.0', id: 7, result: {} } as const],
    ['other', note('notifications/progress', { progressToken: 'other-x-1' })],
    [undefined, note('notifications/progress', { progressToken: 'me-x-1' })],
    ['*', note('notifications/cancelled', { requestId: 'theirs' })],
    [undefined, note('notifications/cancelled', { requestId: 'mine' })],
    [undefined, note('notifications/cancelled', { requestId: { not: 'an id' } })],
    [undefined, note('notifications/cancelled')],
    ['*', ROOTS],
    [undefined, note('notifications/initialized')],
    [undefined, { jsonrpc: '2.0', id: 1, method: 'ping' } as const],
  ])('a message of the client concerns %s: %j', (expected, message) => {
    expect(addressee(message, 'me', { isRunning })).toBe(expected);
  });
});
