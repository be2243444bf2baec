import { type ChildProcess, fork } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { bundle, ROOT } from '../support/bundle.js';
import { ModernClient } from '../support/modern-client.js';
import { describeRedis, ended } from '../support/redis.js';
import { RedisRoom } from '../support/redis-room.js';
import { LONG } from '../support/share.js';

const PROGRAM = join(ROOT, `build/once-${process.pid}`);
/** `npm run test:long` repeats as often as a promise says. */
const REPEATS = LONG ? 1_000 : 120;

interface Node {
  readonly id: string;
  readonly child: ChildProcess;
  /** Calls a tool. @returns the text of its result */
  call(name: string, requestId: string): Promise<string>;
}

describeRedis('idempotent tools of nodes that are processes', () => {
  let room: RedisRoom;
  const nodes: Node[] = [];
  const effects: string[] = [];
  beforeAll(() => bundle({ node: 'test/redis/once-node.ts' }, PROGRAM));
  afterAll(() => rmSync(PROGRAM, { recursive: true, force: true }));
  afterEach(async () => {
    for (const { child } of nodes.splice(0))
      if (child.exitCode === null && !child.signalCode) await ended(child, 'SIGTERM');
    effects.length = 0;
    await room.close();
  });

  const start = (): Promise<Node> => {
    const { url } = room.redis;
    const env = { ...process.env, REDIS_URL: url, PREFIX: room.prefix };
    const child = fork(join(PROGRAM, 'node.js'), { env, stdio: 'inherit' });
    return new Promise((resolve, reject) => {
      child.once('exit', () => reject(new Error('The node did not start.')));
      child.on('message', (message: { effect?: string; url?: string; id: string }) => {
        if (message.effect !== undefined) effects.push(message.effect);
        if (message.url === undefined) return;
        const client = new ModernClient(`${message.url}/mcp`, { 'x-user': 'anna' });
        const call = async (name: string, requestId: string): Promise<string> => {
          const { result, error } = await client.ask('tools/call', { name, arguments: { requestId } });
          return result?.content[0].text ?? JSON.stringify(error);
        };
        const node = { id: message.id, child, call };
        nodes.push(node);
        resolve(node);
      });
    });
  };

  it('repeats at the same moment, spread over three processes, have one effect for each of 20 keys', async () => {
    room = await RedisRoom.open();
    const three = await Promise.all([start(), start(), start()]);
    const calls = Array.from({ length: REPEATS }, (_, n) => three[n % 3]!.call('pay', `r${n % 20}`));
    const texts = await Promise.all(calls);
    expect(effects.toSorted()).toEqual(Array.from({ length: 20 }, (_, key) => `r${key}`).toSorted());
    for (let key = 0; key < 20; key++) {
      const [text, ...others] = new Set(texts.filter((_, n) => n % 20 === key));
      expect([text, others]).toEqual([expect.stringContaining('paid by'), []]);
    }
    expect(await room.immortal()).toEqual([]);
  });

  it('the call of a killed process is unknown to those who repeat it, and then the key is free', async () => {
    room = await RedisRoom.open();
    const [killed, one, other] = await Promise.all([start(), start(), start()]);
    const lost = killed.call('slow', 'r').catch((error: unknown) => error);
    await expect.poll(() => effects).toEqual(['r']);
    const repeats = [one, other, one].map((node) => node.call('slow', 'r'));
    await ended(killed.child, 'SIGKILL');
    await room.dies(killed.id);
    for (const text of await Promise.all(repeats)) expect(text).toContain('whether it had an effect is not known');
    expect(effects).toEqual(['r']);
    expect(await lost).toBeInstanceOf(Error);
    const again = [one.call('slow', 'r'), other.call('slow', 'r')];
    await expect.poll(() => effects).toEqual(['r', 'r']);
    for (const { child } of [one, other]) child.send('go on');
    const [first, second] = await Promise.all(again);
    expect(first).toContain('slowly paid by');
    expect(second).toBe(first);
    expect(effects).toEqual(['r', 'r']);
  });

  it('a process that paused and counted as dead may still answer, and its key is not lost', async () => {
    room = await RedisRoom.open();
    const [paused, alive] = await Promise.all([start(), start()]);
    const first = paused.call('slow', 'r');
    await expect.poll(() => effects).toEqual(['r']);
    paused.child.kill('SIGSTOP');
    await room.dies(paused.id);
    expect(await alive.call('slow', 'r')).toContain('whether it had an effect is not known');
    paused.child.kill('SIGCONT');
    paused.child.send('go on');
    expect(await first).toContain('slowly paid by');
    expect(await alive.call('slow', 'r')).toBe(await first);
    expect(effects).toEqual(['r']);
  });
});
