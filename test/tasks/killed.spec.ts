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
const DEAD_AFTER_MS = 1_500;
/** What a loaded machine may take beside. */
const GRACE_MS = 3_000;

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

  const start = async (): Promise<{ node: ChildProcess; caller: TaskCaller }> => {
    const env = {
      ...process.env,
      REDIS_URL: room.redis.url,
      PREFIX: room.prefix,
      DEAD_AFTER_MS: String(DEAD_AFTER_MS),
    };
    const node = fork(join(PROGRAM, 'node.js'), { env, stdio: 'inherit' });
    nodes.push(node);
    const [url] = (await once(node, 'message')) as [string];
    return { node, caller: new TaskCaller(loneFetch, undefined, `${url}/mcp`) };
  };

  it('T6: the tasks of a killed node fail within deadAfterMs and a beat, and get no later result', async () => {
    room = await RedisRoom.open();
    const [a, b, c] = await Promise.all([start(), start(), start()]);
    const [slow, asks] = [await a.caller.begin('slow', { label: 'x' }), await a.caller.begin('asks')];
    await expect.poll(async () => (await b.caller.get(asks)).status, { timeout: 10_000 }).toBe('input_required');
    const killedAt = performance.now();
    await ended(a.node, 'SIGKILL');
    expect((await c.caller.get(slow)).status).toBe('working');
    await expect
      .poll(async () => (await b.caller.get(slow)).status, { timeout: DEAD_AFTER_MS + GRACE_MS })
      .toBe('failed');
    expect(performance.now() - killedAt).toBeLessThan(DEAD_AFTER_MS + GRACE_MS);
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
    for (const id of ids) {
      const status = async (): Promise<string> => (await caller.get(id)).status;
      await expect.poll(status, { timeout: DEAD_AFTER_MS + GRACE_MS }).toBe('failed');
    }
  });

  it('T6: a node that paused for longer than deadAfterMs completes no task that was failed, and serves new ones', async () => {
    room = await RedisRoom.open();
    const [a, b] = await Promise.all([start(), start()]);
    const id = await a.caller.begin('brief');
    a.node.kill('SIGSTOP');
    const status = async (): Promise<string> => (await b.caller.get(id)).status;
    await expect.poll(status, { timeout: DEAD_AFTER_MS + GRACE_MS }).toBe('failed');
    const failed = await b.caller.get(id);
    a.node.kill('SIGCONT');
    const next = await a.caller.begin('brief');
    await expect.poll(async () => (await b.caller.get(next)).status, { timeout: 10_000 }).toBe('completed');
    expect(await a.caller.get(id)).toEqual(failed);
  });
});
