import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { bundle, ROOT } from '../support/bundle.js';
import { ModernClient } from '../support/modern-client.js';
import { describeRedis, ended, RedisServer } from '../support/redis.js';
import { RedisRoom } from '../support/redis-room.js';
import { LONG } from '../support/share.js';
import type { Switching } from './once-node.js';

const PROGRAM = join(ROOT, `build/once-${process.pid}`);
/** `npm run test:long` repeats as often as a promise says. */
const REPEATS = LONG ? 1_000 : 300;
const KEYS = 100;
const QUESTIONS = 40;
const capabilities = { elicitation: {} };

interface Result {
  readonly content?: readonly { readonly text: string }[];
  readonly inputRequests?: Readonly<Record<string, object>>;
  readonly requestState?: string;
}

interface Node {
  readonly id: string;
  readonly child: ChildProcess;
  /** Calls a tool, `more` with answers to its questions. */
  ask(name: string, requestId: string, more?: object): Promise<Result>;
  /** Calls a tool. @returns the text of its result */
  call(name: string, requestId: string, more?: object): Promise<string>;
  /** Switches a tool. @returns settles when the node has done it */
  turn(switching: Switching): Promise<void>;
}

describeRedis('tools with effects of nodes that are processes', () => {
  let room: RedisRoom;
  let own: { readonly server: RedisServer; readonly admin: Redis } | undefined;
  const nodes: Node[] = [];
  const effects: string[] = [];
  beforeAll(() => bundle({ node: 'test/redis/once-node.ts' }, PROGRAM));
  afterAll(() => rmSync(PROGRAM, { recursive: true, force: true }));
  afterEach(async () => {
    for (const { child } of nodes.splice(0))
      if (child.exitCode === null && !child.signalCode) await ended(child, 'SIGTERM');
    effects.length = 0;
    await room.close();
    own?.admin.disconnect();
    await own?.server.stop();
    own = undefined;
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
        const ask = async (name: string, requestId: string, more: object = {}): Promise<Result> => {
          const params = { name, arguments: { requestId }, ...more };
          const { result, error } = await client.ask('tools/call', params, { capabilities });
          return (result ?? { content: [{ text: JSON.stringify(error) }] }) as Result;
        };
        const call = async (...of: Parameters<typeof ask>): Promise<string> => {
          const { content, ...others } = await ask(...of);
          return content?.[0]?.text ?? JSON.stringify(others);
        };
        const turn = async (switching: Switching): Promise<void> => {
          const switched = once(child, 'message');
          child.send(switching);
          await switched;
        };
        const node = { id: message.id, child, ask, call, turn };
        nodes.push(node);
        resolve(node);
      });
    });
  };

  /** A room in a Redis of its own, which may be killed, and keeps what it had. */
  const mortalRoom = async (): Promise<RedisServer> => {
    const server = await RedisServer.start('--appendonly', 'yes', '--appendfsync', 'always');
    const admin = new Redis(server.url);
    admin.on('error', () => {});
    own = { server, admin };
    room = await RedisRoom.open({ url: server.url, admin });
    return server;
  };

  it('repeats at the same moment, spread over three processes, have one effect for each key', async () => {
    room = await RedisRoom.open();
    const three = await Promise.all([start(), start(), start()]);
    const keyOf = (n: number): number => Math.floor(n / 3) % KEYS;
    const calls = Array.from({ length: REPEATS }, (_, n) => three[n % 3]!.call('pay', `r${keyOf(n)}`));
    const texts = await Promise.all(calls);
    expect(effects.toSorted()).toEqual(Array.from({ length: KEYS }, (_, key) => `r${key}`).toSorted());
    for (let key = 0; key < KEYS; key++) {
      const [text, ...others] = new Set(texts.filter((_, n) => keyOf(n) === key));
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

  it('a result whose store is killed before it is recorded is that of all repeats, on each node when the store is back', async () => {
    const server = await mortalRoom();
    const [one, two, three] = await Promise.all([start(), start(), start()]);
    const first = one.call('slow', 'r');
    await expect.poll(() => effects).toEqual(['r']);
    await server.kill();
    one.child.send('go on');
    const text = await first;
    expect(text).toContain('slowly paid by');
    expect(await one.call('slow', 'r')).toBe(text);
    expect(await two.call('slow', 'r')).toContain('storage of this server is unavailable');
    await server.start();
    for (const node of [two, three, one]) await expect.poll(() => node.call('slow', 'r')).toBe(text);
    expect(effects).toEqual(['r']);
  });

  it('an answer to a question that is sent to three processes at the same moment confirms one call', async () => {
    room = await RedisRoom.open();
    const three = await Promise.all([start(), start(), start()]);
    const asked = await Promise.all(Array.from({ length: QUESTIONS }, (_, n) => three[n % 3]!.ask('remove', `r${n}`)));
    expect(effects).toEqual([]);
    const answers = asked.map(({ inputRequests = {}, requestState }) => ({
      requestState,
      inputResponses: Object.fromEntries(Object.keys(inputRequests).map((key) => [key, { action: 'accept' }])),
    }));
    const texts = await Promise.all(
      answers.map((answer, n) => Promise.all(three.map((node) => node.call('remove', `r${n}`, answer)))),
    );
    for (const [n, [first, ...others]] of texts.map((each) => each.toSorted().toReversed()).entries()) {
      expect(first).toBe(`removed r${n}`);
      for (const other of others) expect(other).toContain('used already');
    }
    expect(effects.toSorted()).toEqual(answers.map((_, n) => `r${n}`).toSorted());
    expect(await room.immortal()).toEqual([]);
  });

  it('a tool that one process switches off runs on none, also not for repeats and for answers to questions', async () => {
    room = await RedisRoom.open();
    const three = await Promise.all([start(), start(), start()]);
    const [one, two] = three;
    await one.call('pay', 'r');
    const { inputRequests = {}, requestState } = await one.ask('remove', 'r');
    const inputResponses = Object.fromEntries(Object.keys(inputRequests).map((key) => [key, { action: 'accept' }]));
    const answer = { requestState, inputResponses };
    for (const tool of ['pay', 'remove']) await two.turn({ tool, off: true });
    const late = await start();
    const off = (tool: string): string => `The tool "${tool}" is switched off: Not now.`;
    for (const node of [...three, late]) {
      await expect.poll(() => node.call('remove', 'r', answer)).toBe(off('remove'));
      const texts = await Promise.all(Array.from({ length: 10 }, (_, n) => node.call('pay', n === 0 ? 'r' : `r${n}`)));
      expect(new Set(texts)).toEqual(new Set([off('pay')]));
    }
    expect(effects).toEqual(['r']);
    for (const tool of ['pay', 'remove']) await one.turn({ tool, off: false });
    for (const node of [...three, late]) await expect.poll(() => node.call('pay', 'r')).toContain('paid by');
    await expect.poll(() => late.call('remove', 'r', answer)).toBe('removed r');
    expect(effects).toEqual(['r', 'r']);
  });
});
