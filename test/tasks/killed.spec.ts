import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { bundle, ROOT } from '../support/bundle.js';
import { describeRedis, ended } from '../support/redis.js';
import { RedisRoom } from '../support/redis-room.js';
import { TaskCaller } from './tasks-app.js';
import { loneFetch } from '../support/ways.js';

const PROGRAM = join(ROOT, `build/tasks-${process.pid}`);

describeRedis('nodes that are processes', () => {
  let room: RedisRoom;
  const nodes: ChildProcess[] = [];
  beforeAll(() => bundle({ node: 'test/tasks/killed-node.ts' }, PROGRAM));
  afterAll(() => {
    rmSync(PROGRAM, { recursive: true, force: true });
  });
  afterEach(async () => {
    for (const node of nodes.splice(0)) if (node.exitCode === null && !node.signalCode) await ended(node, 'SIGTERM');
    await room.close();
  });

  const start = async (): Promise<{ id: string; node: ChildProcess; caller: TaskCaller }> => {
    const env = { ...process.env, REDIS_URL: room.redis.url, PREFIX: room.prefix };
    const node = fork(join(PROGRAM, 'node.js'), { env, stdio: 'inherit' });
    nodes.push(node);
    const [{ url, id }] = (await once(node, 'message')) as [{ url: string; id: string }];
    return { id, node, caller: new TaskCaller(loneFetch, undefined, `${url}/mcp`) };
  };

  it('T6: the tasks of a killed node fail when it counts as dead, and get no later result', async () => {
    room = await RedisRoom.open();
    const [a, b, c] = await Promise.all([start(), start(), start()]);
    const [slow, asks] = [await a.caller.begin('slow', { label: 'x' }), await a.caller.begin('asks')];
    await expect.poll(async () => (await b.caller.get(asks)).status).toBe('input_required');
    await ended(a.node, 'SIGKILL');
    expect((await c.caller.get(slow)).status).toBe('working');
    await room.dies(a.id);
    await expect.poll(async () => (await b.caller.get(slow)).status).toBe('failed');
    const failed = await c.caller.get(asks);
    expect(failed).toMatchObject({ status: 'failed', error: { code: -32603 } });
    await c.caller.update(asks, { a: { action: 'decline' } });
    await c.caller.cancel(asks);
    expect(await b.caller.get(asks)).toEqual(failed);
  });

  it('T6: the tasks of the last node that was killed fail when a new process has started', async () => {
    room = await RedisRoom.open();
    const [a, b] = await Promise.all([start(), start()]);
    const ids = [await a.caller.begin('slow', { label: 'x' }), await b.caller.begin('slow', { label: 'y' })];
    await Promise.all([a, b].map(({ node }) => ended(node, 'SIGKILL')));
    const { caller } = await start();
    await Promise.all([a, b].map(({ id }) => room.dies(id)));
    for (const id of ids) {
      const status = async (): Promise<string> => (await caller.get(id)).status;
      await expect.poll(status).toBe('failed');
    }
  });

  it('T6: a node that paused and counted as dead completes no task that was failed, and serves new ones', async () => {
    room = await RedisRoom.open();
    const [a, b] = await Promise.all([start(), start()]);
    const id = await a.caller.begin('brief');
    a.node.kill('SIGSTOP');
    await room.dies(a.id);
    const status = async (): Promise<string> => (await b.caller.get(id)).status;
    await expect.poll(status).toBe('failed');
    const failed = await b.caller.get(id);
    a.node.kill('SIGCONT');
    a.node.send('go on');
    const next = await a.caller.begin('brief');
    const goesOn = async (): Promise<string> => {
      a.node.send('go on');
      return (await b.caller.get(next)).status;
    };
    await expect.poll(goesOn).toBe('completed');
    expect(await a.caller.get(id)).toEqual(failed);
  });
});
