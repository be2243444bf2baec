import { Logger } from '@nestjs/common';
import type { Subscription } from 'rxjs';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { McpLostNode } from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describeRedis } from '../support/redis.js';
import { ALIVE, LOST, RedisRoom, testBackend } from '../support/redis-room.js';
import { eventually } from '../support/eventually.js';

/** Nodes die when a test says so (`room.dies`), not when a busy machine holds them up. */
const QUICK = { heartbeatMs: 20, deadAfterMs: 600_000 };
const NO_LIMITS = { total: Infinity, perPrincipal: Infinity };
const task = (id: string, node: string) => ({
  id,
  node,
  principal: undefined,
  tool: 'tool',
  createdAt: 0,
  ttlMs: 60_000,
  pollIntervalMs: 1_000,
});

describeRedis('nodes that live and die', () => {
  let room: RedisRoom;
  const subscriptions: Subscription[] = [];

  beforeEach(async () => {
    room = await RedisRoom.open();
    vi.spyOn(Logger.prototype, 'warn').mockImplementation(() => {});
  });
  afterEach(async () => {
    for (const subscription of subscriptions.splice(0)) subscription.unsubscribe();
    await room.close();
    vi.restoreAllMocks();
  });

  /** A node, and the dead that it was told of. */
  const living = async () => {
    const { messageBus, eventStore, taskStore } = room.node(QUICK);
    const lost: McpLostNode[] = [];
    subscriptions.push(messageBus.lost$.subscribe((node) => lost.push(node)));
    await messageBus.connected();
    return { messageBus, eventStore, taskStore, lost };
  };
  /** A node that beats only when its clock is turned. */
  const pausable = async (life = QUICK) => {
    const clock = new ManualClock();
    const internals = { clock, time: room.time };
    const backend = testBackend(room.redis.url, { prefix: room.prefix, ...life }, internals);
    await backend.messageBus.connected();
    return { ...backend, clock, wake: () => clock.advance(life.heartbeatMs) };
  };
  const beats = async (node: string) => Number(await room.redis.admin.zscore(`${room.prefix}:${ALIVE}`, node));
  const registered = () => room.redis.admin.zrange(`${room.prefix}:${ALIVE}`, '0', '-1');

  it('one node is notified when another one has died', async () => {
    const [dead, ...others] = [await pausable(), await living(), await living(), await living()];
    const told = () => others.flatMap(({ lost }) => lost);
    await room.dies(dead.messageBus.nodeId);
    await eventually(() => expect(told().length).toBe(1));
    expect(told()[0]!.node).toBe(dead.messageBus.nodeId);
    await told()[0]!.done();
    expect(await room.redis.admin.zcard(`${room.prefix}:${LOST}`)).toBe(0);
    expect(await registered()).toHaveLength(3);
  });

  it('another node is notified when the notified one dies too, and completing the work twice has no effect', async () => {
    const dead = await pausable();
    const first = await living();
    await room.dies(dead.messageBus.nodeId);
    await eventually(() => expect(first.lost).toHaveLength(1));
    const second = await living();
    await first.messageBus.close();
    // Its claim ends.
    await room.advance(QUICK.deadAfterMs);
    await eventually(() => expect(second.lost).toHaveLength(1));
    expect(second.lost[0]!.node).toBe(dead.messageBus.nodeId);
    await second.lost[0]!.done();
    await second.lost[0]!.done();
  });

  it('a node that was paused and considered dead registers again, and catches up', async () => {
    const paused = await pausable();
    const other = await living();
    let missed = 0;
    subscriptions.push(paused.messageBus.reconnected$.subscribe(() => missed++));
    await room.dies(paused.messageBus.nodeId);
    await eventually(() => expect(other.lost).toHaveLength(1));
    expect(await registered()).not.toContain(paused.messageBus.nodeId);
    await paused.wake();
    await eventually(() => expect(missed).toBe(1));
    expect(await registered()).toContain(paused.messageBus.nodeId);
    const heard: unknown[] = [];
    subscriptions.push(paused.messageBus.messages$.subscribe((message) => heard.push(message)));
    other.messageBus.send(paused.messageBus.nodeId, 'welcome back');
    await eventually(() => expect(heard).toEqual(['welcome back']));
    expect(Logger.prototype.warn).toHaveBeenCalledOnce();
    await Promise.all([paused.close(), paused.clock.advance(10_000)]);
  });

  it('a node that died before an outage of Redis is found as soon as without the outage', async () => {
    const life = { heartbeatMs: 10_000, deadAfterMs: 60_000 };
    const dead = await pausable(life);
    const [one, other] = [await pausable(life), await pausable(life)];
    const lost: string[] = [];
    for (const { messageBus } of [one, other]) {
      subscriptions.push(messageBus.lost$.subscribe(({ node }) => lost.push(node)));
    }
    const beaten = async (ms: number): Promise<void> => {
      await room.advance(ms);
      const before = await sum();
      for (const { wake } of [one, other]) await wake();
      await eventually(async () => expect(await sum()).toBeGreaterThan(before));
    };
    /** The sum of the times at which the two have beaten last. */
    const sum = async (): Promise<number> => {
      const scores = await room.redis.admin.zmscore(
        `${room.prefix}:${ALIVE}`,
        one.messageBus.nodeId,
        other.messageBus.nodeId,
      );
      return scores.reduce((sum, score) => sum + Number(score), 0);
    };
    await beaten(25_000);
    await beaten(3_000_000);
    await beaten(20_000);
    expect(lost).toEqual([]);
    await beaten(20_000);
    await eventually(() => expect(lost).toEqual([dead.messageBus.nodeId]));
    await Promise.all([dead, one, other].map(({ close, clock }) => Promise.all([close(), clock.advance(10_000)])));
  });

  it.each([
    ['before formats had numbers', ''],
    ['with another number', ':99'],
  ])('dead nodes of a version %s are left to its living nodes, and found when it has none', async (_, list) => {
    const { admin } = room.redis;
    const [nodes, lost] = [`${room.prefix}:{:bus}:nodes${list}`, `${room.prefix}:{:bus}:lost${list}`];
    if (list !== '') await admin.sadd(`${room.prefix}:{:bus}:formats`, list.slice(1));
    const beatOf = (node: string, at: number) => admin.zadd(nodes, at, node);
    const [now] = await admin.time();
    await beatOf('dead', Number(now) * 1_000 - 3_600_000);
    await beatOf('alive', Number(now) * 1_000 + 3_600_000);
    const heir = await living();
    expect((await heir.messageBus.nodes()).toSorted()).toEqual(['alive', 'dead', heir.messageBus.nodeId].toSorted());
    const before = await beats(heir.messageBus.nodeId);
    await eventually(async () =>
      expect(await beats(heir.messageBus.nodeId)).toBeGreaterThan(before + 3 * QUICK.heartbeatMs),
    );
    expect([heir.lost, await admin.zcard(nodes), await admin.exists(lost)]).toEqual([[], 2, 0]);
    await beatOf('alive', Number(now) * 1_000 - 3_600_000);
    await eventually(() => expect(heir.lost.map(({ node }) => node).toSorted()).toEqual(['alive', 'dead']));
    await Promise.all(heir.lost.map(({ done }) => done()));
    expect([await admin.exists(nodes, lost), await registered()]).toEqual([0, [heir.messageBus.nodeId]]);
  });

  it('one node is notified of a dead node after the lease of a claim that reached no node', async () => {
    const heir = await living();
    const lost = `${room.prefix}:${LOST}`;
    const [now] = await room.redis.admin.time();
    await room.redis.admin.zadd(lost, Number(now) * 1_000 + QUICK.deadAfterMs, 'dead');
    await room.advance(QUICK.deadAfterMs);
    await eventually(() => expect(heir.lost).toHaveLength(1));
    await heir.lost[0]!.done();
    expect(await room.redis.admin.exists(lost)).toBe(0);
  });

  it('a call begins its stream when other nodes would notice that its node has died, not before', async () => {
    const clock = new ManualClock();
    const { messageBus, eventStore, close } = testBackend(room.redis.url, { prefix: room.prefix, ...QUICK }, { clock });
    subscriptions.push(messageBus.messages$.subscribe());
    const { nodeId: node } = messageBus;
    await eventStore.open('s');
    await eventStore.append('s', 'call', [], { writer: 'w', seq: 1, opens: { node, requests: [1] } });
    expect(await registered()).toContain(node);
    await Promise.all([close(), clock.advance(10_000)]);
  });

  it('no task is created before other nodes would notice that its node has died', async () => {
    const nodes = `${room.prefix}:${ALIVE}`;
    await room.redis.admin.set(nodes, 'a beat fails');
    const { messageBus, taskStore } = room.node({ heartbeatMs: 60_000, deadAfterMs: 600_000 });
    subscriptions.push(messageBus.messages$.subscribe());
    await expect(taskStore.create(task('a', messageBus.nodeId), NO_LIMITS)).rejects.toThrow('beat');
    expect(await taskStore.list()).toEqual([]);
    await room.redis.admin.del(nodes);
    await taskStore.create(task('a', messageBus.nodeId), NO_LIMITS);
    expect(await registered()).toContain(messageBus.nodeId);
  });

  it('a node that closes and could not end a task counts as dead later; one whose tasks have ended does not', async () => {
    const [one, two, other] = [await living(), await living(), await living()];
    await one.taskStore.create(task('a', one.messageBus.nodeId), NO_LIMITS);
    await two.taskStore.create(task('b', two.messageBus.nodeId), NO_LIMITS);
    await two.taskStore.patch('b', ['working'], { status: 'completed', result: {}, lastUpdatedAt: 1 });
    await one.messageBus.close();
    await two.messageBus.close();
    await room.dies(one.messageBus.nodeId);
    await eventually(() => expect(other.lost).toHaveLength(1));
    expect(other.lost[0]!.node).toBe(one.messageBus.nodeId);
    expect(await other.taskStore.active(one.messageBus.nodeId)).toEqual(['a']);
    await other.lost[0]!.done();
    expect(await registered()).toEqual([other.messageBus.nodeId]);
  });

  it('a node that has closed is not reported as dead', async () => {
    const [one, other] = [await living(), await living()];
    await one.messageBus.close();
    expect(await registered()).toEqual([other.messageBus.nodeId]);
  });

  it('a node claims dead nodes only while it has a subscriber', async () => {
    const dead = await pausable();
    const deaf = room.node(QUICK).messageBus;
    await deaf.connected();
    await room.dies(dead.messageBus.nodeId);
    expect(await registered()).toEqual([deaf.nodeId]);
    const listening = await living();
    await eventually(() => expect(listening.lost).toHaveLength(1));
    expect(listening.lost[0]!.node).toBe(dead.messageBus.nodeId);
  });

  it('the calls of a dead node are found, also by a node that started later', async () => {
    const dead = await pausable();
    const node = dead.messageBus.nodeId;
    await dead.eventStore.open('s');
    await dead.eventStore.append('s', 'call', ['1'], { writer: 'w', seq: 1, opens: { node, requests: [1] } });
    const heir = await living();
    await room.dies(node);
    await eventually(() => expect(heir.lost).toHaveLength(1));
    expect(await heir.eventStore.unfinished(node)).toEqual([{ session: 's', stream: 'call', requests: [1] }]);
    const end = { writer: 'reaper', seq: 1, settles: [1], end: true };
    await heir.eventStore.append('s', 'call', ['"error"'], end);
    expect(await heir.eventStore.unfinished(node)).toEqual([]);
    await heir.lost[0]!.done();
    // It was only paused: what it goes on to say comes too late.
    await expect(dead.eventStore.append('s', 'call', ['2'], { writer: 'w', seq: 2 })).rejects.toThrow('has ended');
    await heir.eventStore.drop('s');
    await room.advance(31_000);
    await eventually(async () => expect(await room.keys()).toEqual(['{:bus}:formats', ALIVE]));
  });
});
