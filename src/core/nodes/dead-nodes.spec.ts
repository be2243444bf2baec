import { Subject } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import type { McpLostNode } from './message-bus.js';
import { McpStreamEndedError } from '../log/event-store.errors.js';
import { InMemoryEventStore } from '../log/in-memory-event-store.js';
import { ManualClock } from '../../testing/index.js';
import { EventStoreFault, FaultyEventStore } from '../../../test/support/faulty-event-store.js';
import { BusNodes } from './bus-nodes.js';
import { InMemoryMessageBus } from './in-memory-message-bus.js';
import type { NodeMessage } from './node-messages.js';
import type { LiveSessions } from '../sessions/running/live-sessions.js';
import { DeadNodes } from './dead-nodes.js';
import type { McpSessionEvent } from '../sessions/session-events.js';

const RETRY = { firstDelayMs: 10, maxDelayMs: 100, giveUpAfterMs: 1_000 };

/** What is left of node `dead`: a batch of two on `s`, and half answered calls. */
async function setup(nodeDied: (node: string) => Promise<void> = async () => {}) {
  const clock = new ManualClock();
  const log = new InMemoryEventStore({}, new ManualClock(), 'shared');
  const store = new FaultyEventStore(log, clock);
  const sent: [node: string, message: NodeMessage][] = [];
  const bus = Object.assign(new InMemoryMessageBus('n'), {
    send: (node: string, message: unknown) => void sent.push([node, message as NodeMessage]),
  });
  const [events, looked, lost$]: [McpSessionEvent[], string[], Subject<McpLostNode>] = [[], [], new Subject()];
  const reconnected$ = new Subject<void>();
  const environment = {
    store,
    clock,
    nodeId: 'n',
    retry: RETRY,
    nodes: BusNodes.over(bus),
    storeFault: (sessionId: string, error: unknown) =>
      events.push({ type: 'store-fault', sessionId, streamId: '', fatal: false, error }),
  };
  const session = { streams: { look: (stream: string) => looked.push(stream) } };
  const sessions = { peek: (id: string) => (id === 'live' ? { session } : undefined) };
  const deadNodes = new DeadNodes({ lost$, reconnected$ }, environment, sessions as unknown as LiveSessions, {
    nodeDied,
  });
  const begin = async (of: string, stream: string, requests: (string | number)[], node = 'dead'): Promise<void> => {
    await log.open(of);
    await log.append(of, stream, [], { writer: 'dead', seq: 1, opens: { node, requests } });
  };
  const done = vi.fn<() => Promise<void>>(() => Promise.resolve());
  const die = async (): Promise<void> => {
    lost$.next({ node: 'dead', done });
    await clock.advance(0);
  };
  const texts = async (of: string, stream: string) =>
    (await log.read(of, stream, 0, 10)).events.map(({ data }) => JSON.parse(data) as { id: unknown; error: object });
  return {
    clock,
    log,
    store,
    sent,
    events,
    looked,
    deadNodes,
    stop: () => lost$.complete(),
    begin,
    done,
    die,
    texts,
  };
}

describe('what a dead node leaves behind', () => {
  it('open calls: each stream gets its answers and its end in one append; streams of other nodes are untouched', async () => {
    const { log, begin, done, die, texts } = await setup();
    await begin('s', 'one', [1, 'two']);
    await begin('t', 'other', [1]);
    await begin('s', 'living', [3], 'living');
    const append = vi.spyOn(log, 'append');
    await die();
    expect(append).toHaveBeenCalledTimes(2);
    expect(await texts('s', 'one')).toMatchObject([
      { id: 1, error: { code: -32000 } },
      { id: 'two', error: { code: -32000 } },
    ]);
    expect(await texts('t', 'other')).toMatchObject([{ id: 1 }]);
    expect(await log.read('s', 'one', 0, 0)).toMatchObject({ ended: true });
    expect(await log.read('s', 'living', 0, 0)).toMatchObject({ last: 0, ended: false });
    expect(await log.unfinished('dead')).toEqual([]);
    expect(() => log.append('s', 'one', ['"late"'], { writer: 'dead', seq: 2 })).toThrow(McpStreamEndedError);
    expect(done.mock.calls.length).toBe(1);
  });

  it('readers, who are notified of the end of their stream on this node or another', async () => {
    const { log, begin, die, sent, looked } = await setup();
    await begin('live', 'here', [1]);
    await begin('s', 'there', [1]);
    await log.claim('live', 'here', { node: 'n', reader: 'mine' });
    await log.claim('s', 'there', { node: 'b', reader: 'theirs' });
    await die();
    expect(looked).toEqual(['here']);
    expect(sent).toEqual([['b', { type: 'appended', session: 's', stream: 'there' }]]);
  });

  it('sessions and streams that have ended meanwhile, which is no error', async () => {
    const { log, begin, die, events, done } = await setup();
    await begin('s', 'gone', [1]);
    await begin('t', 'ended', [1]);
    const unfinished = await log.unfinished('dead');
    vi.spyOn(log, 'unfinished').mockResolvedValue(unfinished);
    await log.drop('s');
    await log.append('t', 'ended', [], { writer: 'dead', seq: 2, end: true });
    await die();
    expect([events, done.mock.calls.length]).toEqual([[], 1]);
  });

  it('calls, which are ended by retries while the log is unavailable, and none of them twice', async () => {
    const { clock, store, begin, die, texts, done } = await setup();
    await begin('s', 'one', [1]);
    store.faults = { failBefore: () => true };
    await die();
    await clock.advance(600_000);
    expect(done).not.toHaveBeenCalled();
    store.faults = { failAfter: ({ attempt }) => attempt < 3 };
    await clock.advance(1_000);
    expect(done).toHaveBeenCalledTimes(1);
    expect(await texts('s', 'one')).toHaveLength(1);
    expect(clock.pending).toBe(0);
  });

  it('work, which a stopping node leaves to another one', async () => {
    const { clock, store, begin, die, stop, events, done } = await setup();
    await begin('s', 'one', [1]);
    store.faults = { failBefore: () => true };
    await die();
    stop();
    await clock.advance(0);
    expect([clock.pending, done.mock.calls.length]).toEqual([0, 0]);
    expect(events).toMatchObject([{ type: 'store-fault', error: expect.any(EventStoreFault) as unknown }]);
  });

  it('what plugins have, too: it is tried again until it has ended, and the dead node is done after that', async () => {
    const tries: string[] = [];
    let broken = true;
    const { clock, begin, die, texts, done } = await setup(async (node) => {
      tries.push(node);
      if (broken) throw new Error('away');
    });
    await begin('s', 'one', [1]);
    await die();
    await clock.advance(600_000);
    expect(tries.length).toBeGreaterThan(100);
    expect(new Set(tries)).toEqual(new Set(['dead']));
    expect([await texts('s', 'one'), done.mock.calls]).toMatchObject([[{ id: 1 }], []]);
    broken = false;
    await clock.advance(1_000);
    expect([done.mock.calls.length, clock.pending]).toEqual([1, 0]);
  });

  it('what plugins have, which a stopping node leaves to another one, as the calls', async () => {
    const { clock, store, begin, die, stop, events, done } = await setup(() => Promise.reject(new Error('away')));
    await begin('s', 'one', [1]);
    store.faults = { failBefore: () => true };
    await die();
    stop();
    // A rejection that is not handled would fail the run.
    await clock.advance(0);
    expect([clock.pending, done.mock.calls.length, events.length]).toEqual([0, 0, 1]);
  });

  it('calls, each of which is answered once when two nodes find it at a time', async () => {
    const { begin, die, texts } = await setup();
    await begin('s', 'one', [1, 2]);
    await Promise.all([die(), die()]);
    expect((await texts('s', 'one')).map(({ id }) => id)).toEqual([1, 2]);
  });
});
