import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { McpMessageBus } from 'nestjs-mcp-streamable/stores';
import { InMemoryTaskStore, type McpTaskStore } from 'nestjs-mcp-streamable/tasks';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { LossyBus, NodeBackend } from '../support/node-backend.js';
import { busesOfOneHub } from '../support/nodes.js';
import { describeRedis } from '../support/redis.js';
import { RedisRoom } from '../support/redis-room.js';
import { TaskTools } from './task-tools.js';
import { accept, type TaskCaller, tasksApps, until } from './tasks-app.js';

/** Milliseconds between two ticks, at which a node reads its tasks. */
const TICK_MS = 5_000;

/** What the nodes of one deployment share, below a clock that all of them, and the store, go by. */
interface Shared {
  readonly clock: ManualClock;
  /** The store and the bus of one more node. */
  part(): { store: McpTaskStore; bus: McpMessageBus; backend?: object };
  advance(ms: number): Promise<void>;
  close(): Promise<void>;
}

function inMemory(): Shared {
  const clock = new ManualClock();
  const bus = busesOfOneHub();
  const store = new InMemoryTaskStore(clock);
  return {
    clock,
    part: () => ({ store, bus: bus() }),
    advance: (ms) => clock.advance(ms),
    close: async () => {},
  };
}

async function onRedis(): Promise<Shared> {
  const clock = new ManualClock();
  const room = await RedisRoom.open();
  const calls = new NodeBackend();
  return {
    clock,
    part: () => {
      const backend = room.node({ heartbeatMs: 600_000, deadAfterMs: 2_000_000, commandTimeoutMs: 15_000 });
      return { store: calls.over(backend.taskStore), bus: backend.messageBus, backend };
    },
    // In steps, as time passes: a tick finds the answers to the one before it.
    advance: async (ms) => {
      for (let left = ms; left > 0; left -= 1_000) {
        await room.advance(Math.min(left, 1_000));
        await clock.advance(Math.min(left, 1_000));
        // The calls of this second are answered before the next one begins.
        do await nextTurn();
        while (calls.running > 0);
      }
    },
    close: () => room.close(),
  };
}

function nodesTests(open: () => Shared | Promise<Shared>): void {
  let shared: Shared;
  const links: { backend: NodeBackend; bus: LossyBus }[] = [];
  beforeEach(async () => {
    shared = await open();
  });
  afterEach(async () => {
    await shared.close();
  });
  const start = tasksApps();
  afterEach(() => {
    for (const { backend, bus } of links.splice(0)) {
      backend.back();
      bus.heal();
    }
  });

  /** A node, and what lies between it and the others. */
  const node = async () => {
    const { store, bus: direct, backend } = shared.part();
    const link = { backend: new NodeBackend(), bus: new LossyBus(direct) };
    links.push(link);
    const started = await start({
      clock: shared.clock,
      providers: [TaskTools],
      endpoint: {
        requestStateKeys: ['a secret that all nodes of a deployment know'],
        ...(backend && { backend: { ...backend, messageBus: link.bus } as never }),
        ...(!backend && { messageBus: link.bus }),
      },
      tasks: { store: link.backend.over(store) },
    });
    return { ...started, ...link, tools: started.app.get(TaskTools), caller: await started.as() };
  };
  const three = async () => [await node(), await node(), await node()] as const;
  /** Its process is gone, it writes nothing, and hears nothing; the bus of each of the others emits it as a dead node. */
  const kill = ({ backend, bus }: (typeof links)[number], ...others: (typeof links)[number][]): void => {
    backend.away();
    bus.fate = () => 'lost';
    for (const other of others) other.bus.mourn(bus.nodeId);
  };
  const status = async (caller: TaskCaller, id: string): Promise<string> => (await caller.get(id)).status;

  it('T3: a task that A runs is asked for at B, answered at C, and completes', async () => {
    const [a, b, c] = await three();
    const id = await a.caller.begin('asks');
    await until(async () => (await b.caller.get(id)).status === 'input_required');
    expect(Object.keys((await c.caller.get(id)).inputRequests).toSorted()).toEqual(['a', 'b']);
    await c.caller.update(id, { a: accept({ yes: true }) });
    await b.caller.update(id, { b: accept({ yes: false }) });
    await until(async () => (await c.caller.get(id)).inputRequests?.c);
    await c.caller.update(id, { c: { action: 'cancel' } });
    await until(async () => (await status(b.caller, id)) === 'completed');
    expect((await b.caller.get(id)).result.content[0].text).toBe('[{"yes":true},{"yes":false},null]');
  });

  it('T4: a task that A runs is cancelled at B, and its handler is aborted', async () => {
    const [a, b] = await three();
    const id = await a.caller.begin('slow', { label: 'x' });
    await until(() => a.tools.seen.length === 1);
    await b.caller.cancel(id);
    await until(() => a.tools.seen.length === 2);
    expect(a.tools.seen[1]).toBe(`aborted: The task ${id} was cancelled.`);
    expect(await status(a.caller, id)).toBe('cancelled');
  });

  it('a task whose signals are lost gets answers and cancellation at the next tick', async () => {
    const [a, b] = await three();
    a.bus.fate = () => 'lost';
    const [asks, slow] = [await a.caller.begin('asks'), await a.caller.begin('slow', { label: 'x' })];
    await until(async () => (await b.caller.get(asks)).status === 'input_required');
    await b.caller.update(asks, { a: accept({ yes: true }), b: accept({ yes: true }) });
    await b.caller.cancel(slow);
    await shared.advance(TICK_MS);
    await until(async () => (await b.caller.get(asks)).inputRequests?.c);
    await until(() => a.tools.seen.length === 2);
  });

  it('a caller that subscribes at B is notified of the task that A runs', async () => {
    const [a, b] = await three();
    const id = await a.caller.begin('slow', { label: 'x' });
    const heard = await b.caller.listen([id]);
    a.tools.door.open();
    await until(() => heard().length === 2);
    expect(heard()[1]).toMatchObject({ method: 'notifications/tasks', params: { status: 'completed' } });
    await heard.close();
  });

  it('T6: the tasks of the dead node A fail, on every node, and it completes none of them when it comes back', async () => {
    const [a, b, c] = await three();
    const [id, asks, bs] = [
      await a.caller.begin('slow', { label: 'x' }),
      await a.caller.begin('asks'),
      await b.caller.begin('slow', { label: 'y' }),
    ];
    await until(async () => (await b.caller.get(asks)).status === 'input_required');
    kill(a, b);
    await until(async () => (await status(c.caller, id)) === 'failed' && (await status(c.caller, asks)) === 'failed');
    const failed = await c.caller.get(id);
    expect(failed).toMatchObject({ error: { code: -32603, message: expect.stringContaining('failed before') } });
    expect(await status(c.caller, bs)).toBe('working');
    // Its result comes too late.
    a.backend.back();
    a.tools.door.open();
    await shared.advance(TICK_MS);
    await until(() => a.service.running === 0);
    expect(await b.caller.get(id)).toEqual(failed);
  });

  it('T6: a node that only seemed dead aborts its failed tasks at the next tick, and serves new ones', async () => {
    const [a, b] = await three();
    const id = await a.caller.begin('slow', { label: 'x' });
    a.bus.fate = () => 'lost';
    b.bus.mourn(a.bus.nodeId);
    await until(async () => (await status(b.caller, id)) === 'failed');
    await shared.advance(TICK_MS);
    await until(() => a.tools.seen.length === 2);
    expect(a.tools.seen[1]).toBe(`aborted: The task ${id} was failed.`);
    a.tools.door.open();
    const next = await a.caller.begin('slow', { label: 'z' });
    await until(async () => (await status(b.caller, next)) === 'completed');
  });

  it('T6: a task of the dead node A has one end when two nodes find A dead at a time', async () => {
    const [a, b, c] = await three();
    const id = await a.caller.begin('slow', { label: 'x' });
    const heard = await b.caller.listen([id]);
    kill(a, b, c);
    await until(() => heard().length === 2);
    const failed = await b.caller.get(id);
    expect(failed.status).toBe('failed');
    await shared.advance(3 * TICK_MS);
    expect(await c.caller.get(id)).toEqual(failed);
    expect(heard()).toHaveLength(2);
    await heard.close();
  });

  it('T6: the tasks of A fail once the store is back, which was away when A died', async () => {
    const [a, b, c] = await three();
    const id = await a.caller.begin('slow', { label: 'x' });
    b.backend.refuse('active', 'patch');
    kill(a, b);
    await shared.advance(60_000);
    expect(await status(c.caller, id)).toBe('working');
    b.backend.back();
    await shared.advance(10_000);
    await until(async () => (await status(c.caller, id)) === 'failed');
  });

  it('T6, T7: a subscriber at B is notified of the failed task of the dead node A', async () => {
    const [a, b, c] = await three();
    const id = await a.caller.begin('slow', { label: 'x' });
    const heard = await b.caller.listen([id]);
    kill(a, c);
    await until(() => heard().length === 2);
    expect(heard()[1]).toMatchObject({ params: { taskId: id, status: 'failed' } });
    await heard.close();
  });

  it('the tasks of A fail when A stops, and a subscriber at B is notified at once', async () => {
    const [a, b] = await three();
    const id = await a.caller.begin('slow', { label: 'x' });
    await until(() => a.tools.seen.length === 1);
    const heard = await b.caller.listen([id]);
    const closing = a.app.close();
    // With a shared backend calls have a while to end.
    for (let second = 0; second < 12; second++) await shared.advance(1_000);
    await closing;
    expect(await b.caller.get(id)).toMatchObject({
      status: 'failed',
      statusMessage: expect.stringContaining('stopped'),
    });
    await until(() => heard().some(({ params }) => params.status === 'failed'));
    await heard.close();
  });
}

describe('nodes that share a store in memory', () => {
  nodesTests(inMemory);
});
describeRedis('nodes that share a Redis', () => {
  nodesTests(onRedis);
});
