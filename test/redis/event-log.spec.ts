import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { AppendOptions, ReaderRef } from '../../src/stream/event-store.js';
import { EventLogFullError } from '../../src/stream/event-store.errors.js';
import { seededRandom } from '../../src/testing/index.js';
import { describeRedis } from '../support/redis.js';
import { RedisRoom } from '../support/redis-room.js';

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

describeRedis('the event log in Redis', () => {
  let room: RedisRoom;
  beforeEach(async () => {
    room = await RedisRoom.open();
  });
  afterEach(() => room.close());

  const initialize = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'c', version: '1' } };
  /** Appends as the one writer of each stream. */
  const setup = async (eventLog: Parameters<RedisRoom['node']>[0] = {}) => {
    const node = room.node(eventLog);
    const { eventStore: store } = node;
    const seqs = new Map<string, number>();
    await store.open('s');
    const append = async (stream: string, events: string[], more: Partial<AppendOptions> = {}) => {
      const seq = (seqs.get(stream) ?? 0) + 1;
      const { first } = await store.append('s', stream, events, { writer: stream, seq, ...more });
      seqs.set(stream, seq);
      return first;
    };
    return { ...node, store, append };
  };

  it('tells the node of the newest reader in the same step, unless that is the node that appends', async () => {
    const [here, there] = [await setup(), room.node()];
    await Promise.all([here.messageBus.connected(), there.messageBus.connected()]);
    const heard: Record<string, unknown[]> = { here: [], there: [] };
    here.messageBus.messages$.subscribe((message) => heard['here']!.push(message));
    there.messageBus.messages$.subscribe((message) => heard['there']!.push(message));
    const [mine, theirs] = [here, there].map(({ messageBus }) => ({ node: messageBus.nodeId, reader: 'r' }));
    const options = { writer: 'w', seq: 1 };
    await here.store.attach('s', '0', { ...theirs!, reader: 'theirs' });
    expect(await here.store.append('s', '0', ['1'], options)).toEqual({ first: 1 });
    await here.store.append('s', '0', [], { ...options, seq: 2 });
    await here.store.attach('s', '0', { ...mine!, reader: 'mine' });
    await here.store.append('s', '0', ['2'], { ...options, seq: 3 });
    await here.store.detachNode(mine!.node);
    await here.store.append('s', '0', [], { ...options, seq: 4, end: true });
    here.messageBus.broadcast('marker');
    await vi.waitFor(() => expect(heard['there']).toContain('marker'));
    const appended = { type: 'appended', session: 's', stream: '0' };
    expect(heard).toEqual({ here: ['marker'], there: [appended, appended, 'marker'] });
  });

  it('leaves nothing behind after drop, whatever was in it', async () => {
    const { store, append } = await setup({ eventLog: { maxEvents: 5 } });
    const opens = { node: 'n', requests: [1, 2] };
    await append('open', ['1', '2'], { opens });
    await append('answered', ['1'], { opens, settles: [{ id: 1, answer: 0 }] });
    await append('ended', ['1'], { opens, end: true });
    for (let n = 0; n < 10; n++) await append('0', ['1']);
    for (const stream of ['0', 'open', 'ended']) await store.attach('s', stream, { node: 'n', reader: `of ${stream}` });
    expect((await room.keys()).length).toBeGreaterThan(5);
    expect(await room.immortal()).toEqual([]);
    await store.drop('s');
    await vi.waitFor(async () => expect(await room.keys()).toEqual([]));
    await store.detach('s', '0', { node: 'n', reader: 'of 0' });
    await expect(append('open', ['3'])).rejects.toThrow('has ended');
    expect(await room.keys()).toEqual([]);
  });

  it('forgets which node runs a call when the call is over, and who reads when the reader leaves', async () => {
    const { store, append } = await setup();
    await append('call', [], { opens: { node: 'n', requests: [1, 2] } });
    await store.attach('s', 'call', { node: 'n', reader: 'r' });
    expect(await room.keys()).toContain('{:node:n}:calls');
    await append('call', ['1'], { settles: [{ id: 1, answer: 0 }] });
    expect(await room.keys()).toContain('{:node:n}:calls');
    await append('call', ['2'], { settles: [{ id: 2, answer: 0 }], end: true });
    await store.detach('s', 'call', { node: 'n', reader: 'r' });
    expect((await room.keys()).filter((key) => key.startsWith('{:node'))).toEqual([]);
  });

  it('lets no reader come back that has left, when its attach arrives late, or once more', async () => {
    const { store } = await setup();
    const [left, reader] = ['left', 'reader'].map((reader) => ({ node: 'n', reader })) as [ReaderRef, ReaderRef];
    await store.detach('s', '0', left);
    await store.attach('s', '0', left);
    expect(await store.describe('s', '0')).toMatchObject({ readers: 0 });
    await store.attach('s', '0', reader);
    await store.detach('s', '0', reader);
    await store.attach('s', '0', reader);
    expect(await store.describe('s', '0')).toMatchObject({ readers: 0 });
  });

  it('takes back what was noted of a node and is over, when somebody looks', async () => {
    const { store, append } = await setup();
    await append('over', ['1'], { opens: { node: 'n', requests: [1] }, end: true });
    // As if the node had died before it could take it back, and before it could begin.
    const note = `${room.prefix}:{:node:n}:calls`;
    await room.redis.admin.sadd(note, 's over', 's not-begun', 'gone call');
    expect(await store.openRequests({ node: 'n' })).toEqual([]);
    expect(await room.redis.admin.smembers(note)).toEqual(['s not-begun']);
  });

  it('lives as long as anything is heard of the session, and not for ever', async () => {
    const { store, sessionStore, append } = await setup();
    await sessionStore.create({ id: 's', protocolVersion: '2025-11-25', initialize });
    await append('0', ['1']);
    await append('call', ['1']);
    for (let n = 0; n < 5; n++) {
      await room.advance(DAY_MS / 2);
      expect(await sessionStore.touch('s')).toBe(true);
    }
    expect((await store.read('s', 'call', 0, 9)).events).toHaveLength(1);
    await room.advance(DAY_MS / 2);
    await append('0', ['2']);
    await room.advance(DAY_MS * 0.75);
    expect((await store.read('s', 'call', 0, 9)).events).toHaveLength(1);
    expect(await sessionStore.get('s')).toBeUndefined();
    await room.advance(DAY_MS);
    expect(await room.keys()).toEqual([]);
  });

  it('has a few minutes left when the session is deleted and nobody drops it, whatever is appended meanwhile', async () => {
    const { sessionStore, append } = await setup();
    await sessionStore.create({ id: 's', protocolVersion: '2025-11-25', initialize });
    await append('0', ['1']);
    await append('call', ['1']);
    await sessionStore.delete('s');
    for (let n = 0; n < 4; n++) {
      await append('0', ['2']);
      await append(`another ${n}`, ['2']);
      await room.advance(MINUTE_MS);
    }
    await room.advance(MINUTE_MS);
    expect((await room.keys()).filter((key) => key.startsWith('{s}'))).toEqual([]);
  });

  it('frees the events of a finished stream in time, though nothing more is heard of the session', async () => {
    const { store, append } = await setup({ eventLog: { finishedStreamMs: MINUTE_MS } });
    await append('call', ['1'], { end: true });
    expect(await room.keys()).toContain('{s}:events:call');
    await room.advance(MINUTE_MS + 1_000);
    expect(await room.keys()).not.toContain('{s}:events:call');
    expect(await store.stats()).toEqual({ sessions: 1, streams: 0, events: 0, bytes: 0 });
  });

  it('forgets finished streams before their time, when all their events are gone and there are too many', async () => {
    const { store, append } = await setup({ eventLog: { maxEvents: 10 } });
    await append('0', ['1'], { end: true });
    for (let n = 0; n < 50; n++) await append(`call ${n}`, ['1', '2'], { end: true });
    for (let n = 0; n < 50; n++) await append(`without events ${n}`, [], { end: true });
    expect(await store.stats()).toMatchObject({ streams: 1 + 5 + 10, events: 10 });
    expect(await store.describe('s', 'call 49')).toMatchObject({ last: 2, oldest: 1 });
    expect(await store.describe('s', 'without events 39')).toBeUndefined();
    expect(await store.describe('s', '0')).toMatchObject({ last: 1, oldest: 2 });
  });

  it('goes on when Redis has lost part of it, as after a failover', async () => {
    const { store, append } = await setup({ eventLog: { maxEvents: 5 } });
    for (let n = 0; n < 3; n++) await append('0', ['1']);
    await append('call', ['1', '2']);
    await room.redis.admin.del(`${room.prefix}:{s}:events:0`);
    for (let n = 0; n < 20; n++) await append(n % 2 ? '0' : 'call', ['3']);
    expect((await store.stats()).events).toBeLessThanOrEqual(5);
    await store.drop('s');
    await vi.waitFor(async () => expect(await room.keys()).toEqual([]));
  });

  it.each([1, 2, 3])('keeps what must be kept, and no more than is allowed (seed %i)', async (seed) => {
    const random = seededRandom(seed);
    const pick = (count: number) => Math.floor(random() * count);
    const { store, append } = await setup({ eventLog: { maxEvents: 12, maxBytes: 600 } });
    const streams = Array.from({ length: 6 }, () => new ModelStream());
    const pinned = () => pinnedOf(streams);
    for (let step = 0; step < 400; step++) {
      const position = pick(streams.length);
      const model = streams[position]!;
      const id = `${position} ${model.generation}`;
      if (model.ended || random() < 0.3) {
        const index = pick(model.events.length + 2);
        await store.delivered('s', id, index);
        model.deliver(index);
      } else {
        const events = Array.from({ length: pick(4) }, (_, n) => `"${step}.${n}${'x'.repeat(pick(40))}"`);
        const answer = random() < 0.3 && events.length > 0 ? pick(events.length) : undefined;
        const end = random() < 0.1;
        const full = pinned().events >= 12 || pinned().bytes >= 600;
        const settles = answer === undefined ? [] : [{ id: 1, answer }];
        const appended = append(id, events, { end, settles });
        if (full && events.length > 0) await expect(appended).rejects.toThrow(EventLogFullError);
        else {
          expect(await appended).toBe(model.events.length + 1);
          model.append(events, answer, end);
        }
      }
      const stats = await store.stats();
      expect(stats.events <= 12 || stats.events === pinned().events).toBe(true);
      expect(stats.bytes <= 600 || stats.bytes === pinned().bytes).toBe(true);
      for (const [at, stream] of streams.entries()) {
        for (const index of stream.pinned()) {
          const { events } = await store.read('s', `${at} ${stream.generation}`, index - 1, 1);
          expect(events).toEqual([{ index, data: stream.events[index - 1] }]);
        }
      }
      if (model.ended && model.pinned().length === 0) streams[position] = new ModelStream(model.generation + 1);
    }
  });
});

/** A stream as the contract describes it. */
class ModelStream {
  readonly events: string[] = [];
  readonly #answers = new Set<number>();
  #delivered = 0;
  ended = false;

  constructor(readonly generation = 0) {}

  append(events: readonly string[], answer: number | undefined, end: boolean) {
    if (answer !== undefined) this.#answers.add(this.events.length + 1 + answer);
    this.events.push(...events);
    this.ended ||= end;
  }

  deliver(index: number) {
    this.#delivered = Math.max(this.#delivered, Math.min(index, this.events.length));
  }

  pinned(): number[] {
    const newest = this.ended || this.events.length === 0 ? [] : [this.events.length];
    return [...new Set([...[...this.#answers].filter((index) => index > this.#delivered), ...newest])];
  }
}

function pinnedOf(streams: readonly ModelStream[]) {
  const texts = streams.flatMap((stream) => stream.pinned().map((index) => stream.events[index - 1]!));
  return { events: texts.length, bytes: texts.reduce((sum, text) => sum + text.length * 2, 0) };
}
