import { Subject } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import type { LostNode } from '../bus/message-bus.js';
import { EventLogFullError, StreamEndedError } from '../stream/event-store.errors.js';
import { InMemoryEventStore } from '../stream/in-memory-event-store.js';
import { EventStoreFault, FaultyEventStore, ManualClock } from '../testing/index.js';
import { ClusterPeers, type ClusterMessage } from './cluster-messages.js';
import type { LiveSessions } from './live-sessions.js';
import { Reaper } from './reaper.js';
import type { McpSessionEvent } from './session-events.js';
import type { SessionEnvironment } from './session.options.js';

const RETRY = { firstDelayMs: 10, maxDelayMs: 100, giveUpAfterMs: 1_000 };

/** What is left of node `dead`: a batch of two on `s`, half answered calls, and readers. */
async function setup() {
  const clock = new ManualClock();
  const log = new InMemoryEventStore({}, new ManualClock());
  const store = new FaultyEventStore(log, clock);
  const sent: [node: string, message: ClusterMessage][] = [];
  const peers = new ClusterPeers({
    nodeId: 'n',
    send: (node, message) => sent.push([node, message]),
    broadcast: () => {},
  });
  const [events, poked, lost$]: [McpSessionEvent[], string[], Subject<LostNode>] = [[], [], new Subject()];
  const environment = {
    store,
    clock,
    nodeId: 'n',
    retry: RETRY,
    peers,
    event: (event: McpSessionEvent) => events.push(event),
  };
  const session = { streams: { poke: (stream: string) => poked.push(stream) } };
  const watch = vi.fn<() => void>();
  const sessions = { watch, peek: (id: string) => (id === 'live' ? { session } : undefined) };
  const reaper = new Reaper(
    { lost$ },
    environment as unknown as SessionEnvironment,
    sessions as unknown as LiveSessions,
    peers,
  );
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
  return { clock, log, store, sent, events, poked, watch, reaper, begin, done, die, texts };
}

describe('what a dead node leaves behind', () => {
  it('its calls are answered, each stream in one step which is its last; those of others are not', async () => {
    const { log, begin, done, die, texts, watch } = await setup();
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
    expect(await log.describe('s', 'one')).toMatchObject({ ended: true });
    expect(await log.describe('s', 'living')).toMatchObject({ last: 0, ended: false });
    expect(await log.openRequests({ node: 'dead' })).toEqual([]);
    await expect(log.append('s', 'one', ['"late"'], { writer: 'dead', seq: 2 })).rejects.toThrow(StreamEndedError);
    expect([watch.mock.calls.length, done.mock.calls.length]).toEqual([1, 1]);
  });

  it('its readers are taken away, and those whose turn it is are told', async () => {
    const { log, begin, die, sent } = await setup();
    await begin('s', 'post', []);
    await log.attach('s', 'post', { node: 'b', reader: 'older' });
    await log.attach('s', 'post', { node: 'dead', reader: 'newest' });
    await log.attach('s', '0', { node: 'dead', reader: 'alone' });
    await die();
    expect(sent).toEqual([
      ['b', { type: 'turned', session: 's', stream: 'post', reader: 'older', turn: { is: 'promoted' } }],
    ]);
    expect((await log.describe('s', '0'))?.readers).toBe(0);
  });

  it('whoever reads a stream hears of its end, on this node or another', async () => {
    const { log, begin, die, sent, poked } = await setup();
    await begin('live', 'here', [1]);
    await begin('s', 'there', [1]);
    await log.attach('live', 'here', { node: 'n', reader: 'mine' });
    await log.attach('s', 'there', { node: 'b', reader: 'theirs' });
    await die();
    expect(poked).toEqual(['here']);
    expect(sent).toEqual([['b', { type: 'appended', session: 's', stream: 'there' }]]);
  });

  it('a stream without room for an error is ended all the same', async () => {
    const { log, store, begin, die, events } = await setup();
    await begin('s', 'full', [1]);
    let refusals = 1;
    const full = new EventLogFullError('full', 'eventLog.maxEvents');
    store.faults = { refuse: ({ method }) => (method === 'append' && refusals-- > 0 ? full : undefined) };
    await die();
    expect(await log.describe('s', 'full')).toMatchObject({ last: 0, ended: true });
    expect(events).toEqual([]);
  });

  it('sessions and streams that have ended meanwhile are nobody’s fault', async () => {
    const { log, begin, die, events, done } = await setup();
    await begin('s', 'gone', [1]);
    await begin('t', 'ended', [1]);
    const openRequests = await log.openRequests({ node: 'dead' });
    vi.spyOn(log, 'openRequests').mockResolvedValue(openRequests);
    await log.drop('s');
    await log.append('t', 'ended', [], { writer: 'dead', seq: 2, end: true });
    await die();
    expect([events, done.mock.calls.length]).toEqual([[], 1]);
  });

  it('while the log is away it is tried again, for as long as it takes; nothing is done twice', async () => {
    const { clock, log, store, begin, die, texts, done } = await setup();
    await begin('s', 'one', [1]);
    await log.attach('s', '0', { node: 'dead', reader: 'r' });
    store.faults = { failBefore: () => true };
    await die();
    await clock.advance(600_000);
    expect(done).not.toHaveBeenCalled();
    store.faults = { failAfter: ({ attempt }) => attempt < 3 };
    await clock.advance(1_000);
    expect(done).toHaveBeenCalledTimes(1);
    expect(await texts('s', 'one')).toHaveLength(1);
    expect((await log.describe('s', '0'))?.readers).toBe(0);
    expect(clock.pending).toBe(0);
  });

  it('a node that stops gives it up, for another one to do', async () => {
    const { clock, store, begin, die, reaper, events, done } = await setup();
    await begin('s', 'one', [1]);
    store.faults = { failBefore: () => true };
    await die();
    reaper.close();
    await clock.advance(0);
    expect([clock.pending, done.mock.calls.length]).toEqual([0, 0]);
    expect(events).toMatchObject([{ type: 'store-fault', error: expect.any(EventStoreFault) as unknown }]);
  });

  it('two nodes that do it at a time answer each call once', async () => {
    const { begin, die, texts } = await setup();
    await begin('s', 'one', [1, 2]);
    await Promise.all([die(), die()]);
    expect((await texts('s', 'one')).map(({ id }) => id)).toEqual([1, 2]);
  });
});
