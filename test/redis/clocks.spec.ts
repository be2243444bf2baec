import { afterEach, beforeEach, expect, it } from 'vitest';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describeRedis } from '../support/redis.js';
import { RedisRoom, testBackend } from '../support/redis-room.js';

const DAY_MS = 86_400_000;
const IDLE_MS = 60_000;
const CAPS = { total: 100, perPrincipal: 100 };

describeRedis('nodes whose clocks are days apart', () => {
  let room: RedisRoom;
  let nodes: ReturnType<typeof testBackend>[];

  beforeEach(async () => {
    room = await RedisRoom.open();
    const beginnings = [-10, 0, 10].map((days) => Date.now() + days * DAY_MS);
    nodes = beginnings.map((startAt) =>
      testBackend(room.redis.url, { prefix: room.prefix }, { clock: new ManualClock(startAt) }),
    );
    await Promise.all(nodes.map(({ messageBus }) => messageBus.connected()));
  });
  afterEach(async () => {
    await Promise.all(nodes.map(({ close }) => close()));
    expect(await room.keys()).toEqual([]);
    await room.close();
  });

  it('nodes whose clocks are days apart agree on which sessions are idle, on every node', async () => {
    const initialize = JSON.stringify({ capabilities: {}, clientInfo: { name: 'c', version: '1' } });
    for (const [at, { sessionStore }] of nodes.entries()) {
      const record = { id: `session-${at}`, protocolVersion: '2025-11-25', initialize };
      expect(await sessionStore.create(record, CAPS)).toBe('created');
    }
    for (const { sessionStore } of nodes) expect(await sessionStore.claimExpired(IDLE_MS, 10)).toEqual([]);
    for (const { sessionStore } of nodes) {
      expect(await sessionStore.touch('session-0')).toBe(true);
      expect(await sessionStore.count()).toBe(3);
    }
    await Promise.all([0, 1, 2].map((at) => nodes[2 - at]!.sessionStore.delete(`session-${at}`)));
  });

  it('nodes whose clocks are days apart agree on the log, and consider no other node dead', async () => {
    const lost: unknown[] = [];
    const heard = nodes.map(({ messageBus }) => messageBus.lost$.subscribe((node) => lost.push(node)));
    const [early, now, late] = nodes.map(({ eventStore }) => eventStore);
    await early!.open('s');
    await early!.append('s', 'stream', ['1'], { writer: 'early', seq: 1 });
    await late!.append('s', 'stream', ['2'], { writer: 'late', seq: 1 });
    await now!.append('s', 'stream', ['3'], { writer: 'now', seq: 1, end: true });
    for (const { eventStore } of nodes) {
      const { events, ended } = await eventStore.read('s', 'stream', 0, 10);
      expect([events.map(({ data }) => data), ended]).toEqual([['1', '2', '3'], true]);
    }
    expect(lost).toEqual([]);
    for (const subscription of heard) subscription.unsubscribe();
    await late!.drop('s');
    await room.advance(31_000);
  });
});
