import { afterEach, beforeEach, expect, it } from 'vitest';
import type { McpAppendOptions } from 'nestjs-mcp-streamable/stores';
import { describeRedis } from '../support/redis.js';
import { OF_SESSIONS, RedisRoom } from '../support/redis-room.js';
import { seededRandom } from '../support/share.js';
import { eventually } from '../support/eventually.js';

const CAPS = { total: 100, perPrincipal: 100 };

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

describeRedis('the event log in Redis', () => {
  let room: RedisRoom;
  beforeEach(async () => {
    room = await RedisRoom.open();
  });
  afterEach(() => room.close());

  const initialize = JSON.stringify({ capabilities: {}, clientInfo: { name: 'c', version: '1' } });
  /** Appends as the one writer of each stream. */
  const setup = async (eventLog: Parameters<RedisRoom['node']>[0] = {}) => {
    const node = room.node(eventLog);
    const { eventStore: store } = node;
    const seqs = new Map<string, number>();
    await store.open('s');
    const append = async (stream: string, events: string[], more: Partial<McpAppendOptions> = {}) => {
      const seq = (seqs.get(stream) ?? 0) + 1;
      const { first } = await store.append('s', stream, events, { writer: stream, seq, ...more });
      seqs.set(stream, seq);
      return first;
    };
    return { ...node, store, append };
  };

  it('the event log in Redis notifies the node of the newest reader in the same step as the append, unless that node appends', async () => {
    const [here, there] = [await setup(), room.node()];
    await Promise.all([here.messageBus.connected(), there.messageBus.connected()]);
    const heard: Record<string, unknown[]> = { here: [], there: [] };
    here.messageBus.messages$.subscribe((message) => heard['here']!.push(message));
    there.messageBus.messages$.subscribe((message) => heard['there']!.push(message));
    const [mine, theirs] = [here, there].map(({ messageBus }) => ({ node: messageBus.nodeId, reader: 'r' }));
    const options = { writer: 'w', seq: 1 };
    await here.store.claim('s', '0', { ...theirs!, reader: 'theirs' });
    expect(await here.store.append('s', '0', ['1'], options)).toEqual({ first: 1 });
    await here.store.append('s', '0', [], { ...options, seq: 2 });
    await here.store.claim('s', '0', { ...mine!, reader: 'mine' });
    await here.store.append('s', '0', ['2'], { ...options, seq: 3 });
    expect(await here.store.append('s', '0', ['3'], { ...options, seq: 4 })).toMatchObject({
      reader: { reader: 'mine' },
    });
    await here.store.claim('s', '0', { ...theirs!, reader: 'theirs' });
    await here.store.append('s', '0', [], { ...options, seq: 5, end: true });
    here.messageBus.broadcast('marker');
    await eventually(() => expect(heard['there']).toContain('marker'));
    const appended = { type: 'appended', session: 's', stream: '0' };
    expect(heard).toEqual({ here: ['marker'], there: [appended, appended, 'marker'] });
  });

  it('the event log in Redis is deleted half a minute after drop(), whatever was in it', async () => {
    const { store, append } = await setup({ eventLog: { maxEvents: 100 } });
    const opens = { node: 'n', requests: [1, 2] };
    await append('open', ['1', '2'], { opens });
    await append('answered', ['1'], { opens, settles: [1] });
    await append('ended', ['1'], { opens, end: true });
    for (let n = 0; n < 10; n++) await append('0', ['1']);
    for (const stream of ['0', 'open', 'ended']) await store.claim('s', stream, { node: 'n', reader: `of ${stream}` });
    expect((await room.keys()).length).toBeGreaterThan(5);
    expect(await room.immortal()).toEqual([]);
    await store.drop('s');
    expect(await room.immortal()).toEqual([]);
    await expect(append('new', ['1'])).rejects.toThrow('has ended');
    await room.advance(31_000);
    await eventually(async () => expect(await room.keys()).toEqual([]));
    await store.release('s', '0', { node: 'n', reader: 'of 0' });
    await expect(append('open', ['3'])).rejects.toThrow('has ended');
    expect(await room.keys()).toEqual([]);
  });

  it('the event log in Redis forgets which node runs a call when the call is over', async () => {
    const { append } = await setup();
    await append('call', [], { opens: { node: 'n', requests: [1, 2] } });
    expect(await room.keys()).toContain(`${OF_SESSIONS}{:node:n}:calls`);
    await append('call', ['1'], { settles: [1] });
    expect(await room.keys()).toContain(`${OF_SESSIONS}{:node:n}:calls`);
    await append('call', ['2'], { settles: [2], end: true });
    await eventually(async () => expect((await room.keys()).filter((key) => key.includes('{:node'))).toEqual([]));
  });

  it('the event log in Redis removes calls of a node that are over when another node reads', async () => {
    const { store, append } = await setup();
    await append('over', ['1'], { opens: { node: 'n', requests: [1] }, end: true });
    await append('running', ['1'], { opens: { node: 'n', requests: [2] } });
    // As if the node had died before it could take it back.
    const note = `${room.prefix}:${OF_SESSIONS}{:node:n}:calls`;
    await room.redis.admin.sadd(note, 's over', 'gone call');
    expect(await store.unfinished('n')).toEqual([{ session: 's', stream: 'running', requests: [2] }]);
    await eventually(async () => expect(await room.redis.admin.smembers(note)).toEqual(['s running']));
  });

  it('the event log in Redis is kept while the session is used, and expires afterwards', async () => {
    const { store, sessionStore, append } = await setup();
    await sessionStore.create({ id: 's', protocolVersion: '2025-11-25', initialize }, CAPS);
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

  it('the event log in Redis keeps new events as long as the record of a session that may be idle for days', async () => {
    const { store, sessionStore, append } = await setup();
    await sessionStore.claimExpired(3 * DAY_MS, 1, 3 * DAY_MS);
    await sessionStore.create({ id: 's', protocolVersion: '2025-11-25', initialize }, CAPS);
    await append('0', ['1']);
    await sessionStore.touch('s');
    await append('call', ['1']);
    await room.advance(2 * DAY_MS);
    expect(await sessionStore.get('s')).toBeDefined();
    expect((await store.read('s', 'call', 0, 9)).events).toHaveLength(1);
  });

  it('the event log in Redis frees the events of a finished stream in time, though the session is not used any more', async () => {
    const { store, append } = await setup({ eventLog: { finishedStreamMs: MINUTE_MS } });
    await append('call', ['1'], { end: true });
    expect(await room.keys()).toContain(`${OF_SESSIONS}{s}:events:call`);
    await room.advance(MINUTE_MS + 1_000);
    expect(await room.keys()).not.toContain(`${OF_SESSIONS}{s}:events:call`);
    expect(await store.stats!()).toEqual({ sessions: 1, streams: 0, events: 0, bytes: 0 });
  });

  it('the event log in Redis forgets the finished stream that ended first, when there are too many', async () => {
    const { store, append } = await setup({ eventLog: { maxEvents: 100 } });
    await append('0', ['1'], { end: true });
    for (let n = 0; n < 110; n++) await append(`call ${n}`, ['1'], { end: true });
    expect(await store.stats!()).toMatchObject({ streams: 1 + 100, events: 1 + 100 });
    expect(await store.read('s', 'call 109', 0, 0)).toMatchObject({ last: 1, oldest: 1 });
    await expect(store.read('s', 'call 0', 0, 0)).rejects.toThrow('does not exist');
  });

  it('the event log in Redis goes on when Redis has lost part of it, as after a failover', async () => {
    const { store, append } = await setup({ eventLog: { maxEvents: 100, maxBytes: 400 } });
    for (let n = 0; n < 3; n++) await append('0', ['1']);
    await append('call', ['1', '2']);
    await room.redis.admin.del(`${room.prefix}:${OF_SESSIONS}{s}:events:0`);
    for (let n = 0; n < 300; n++) await append(n % 2 ? '0' : 'call', ['"3"']);
    const { last, oldest, events } = await store.read('s', '0', 0, 1_000);
    expect([last, events.length]).toEqual([153, last - oldest + 1]);
    expect((await store.stats!()).bytes).toBeLessThanOrEqual(420);
  });

  it('G12: the event log in Redis goes on behind a gap when another process of Redis has it, from the first event on', async () => {
    const { append } = await setup();
    const log = `${room.prefix}:${OF_SESSIONS}{s}:log`;
    for (const lost of [0, 1]) {
      // As a replica that took over.
      expect(await room.redis.admin.hget(log, 'server')).toBeTruthy();
      await room.redis.admin.hset(log, 'server', 'the process before');
      expect(await append('0', ['1'])).toBe(lost * 1_000_001 + 1_000_001);
    }
  });

  it('the event log in Redis evicts for an append by few commands, however many streams the session has', async () => {
    const { append } = await setup({ eventLog: { maxEvents: 1_000, maxBytes: 100_000 } });
    for (let n = 0; n < 500; n++) await append(`call ${n}`, ['1', '2'], { opens: { node: 'n', requests: [n] } });
    const looked = async () => {
      const info = await room.redis.admin.info('commandstats');
      return Number(/cmdstat_xlen:calls=(\d+)/.exec(info)![1]);
    };
    const before = await looked();
    for (let n = 0; n < 1_000; n++) await append('0', [JSON.stringify('x'.repeat(500))]);
    // Each append looks at its own stream; a few at all of them.
    expect((await looked()) - before).toBeLessThan(100 * 500);
  });

  it.each([1, 2, 3])(
    'the event log in Redis keeps the newest event of each stream, and correct sums (seed %i)',
    async (seed) => {
      const random = seededRandom(seed);
      const pick = (count: number) => Math.floor(random() * count);
      const { store, append } = await setup({ eventLog: { maxEvents: 100, maxBytes: 8_000 } });
      const streams = Array.from({ length: 5 }, () => ({ generation: 0, written: [] as string[], ended: false }));
      for (let step = 0; step < 400; step++) {
        const position = pick(streams.length);
        const model = streams[position]!;
        if (model.ended) {
          Object.assign(model, { generation: model.generation + 1, written: [], ended: false });
          continue;
        }
        const texts = Array.from({ length: pick(8) }, (_, n) => `"${step}.${n}${'x'.repeat(pick(60))}"`);
        const end = random() < 0.02;
        expect(await append(`${position} ${model.generation}`, texts, { end })).toBe(model.written.length + 1);
        model.written.push(...texts);
        model.ended = end;
        if (step % 10 > 0) continue;
        let bytes = 0;
        for (const [at, { generation, written, ended }] of streams.entries()) {
          if (written.length === 0 || ended) continue;
          const { events, last } = await store.read('s', `${at} ${generation}`, 0, 1_000);
          expect([last, events.at(-1)?.index]).toEqual([written.length, written.length]);
          for (const { index, data } of events) expect(data).toBe(written[index - 1]);
          bytes += events.reduce((sum, { data }) => sum + data.length * 2, 0);
        }
        const stats = await store.stats!();
        expect(stats.bytes).toBeLessThanOrEqual(8_000);
        expect(stats.bytes).toBeGreaterThanOrEqual(bytes);
      }
    },
  );
});
