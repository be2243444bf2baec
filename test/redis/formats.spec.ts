import { readFileSync } from 'node:fs';
import { Logger } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import type { RedisBackendOptions } from 'nestjs-mcp-streamable/redis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  Caller,
  type FormatsApp,
  readUntil,
  type RecordedKey,
  type Recording,
  SessionCaller,
  startApp,
} from '../../scripts/record-formats.mjs';
import { describeRedis } from '../support/redis.js';
import { RedisRoom } from '../support/redis-room.js';
import { LONG } from '../support/share.js';

/** `npm run x -- record:formats FOLDER` writes it. */
const RECORDING = new URL('formats.json', import.meta.url);
/** A machine with much to do is no outage. */
const PATIENT = { commandTimeoutMs: 15_000 };
const QUICK = { ...PATIENT, heartbeatMs: 200, deadAfterMs: 600 };
const LASTING = ['signals', 'once', 'switches', 'states', 'tasks', 'requestState'] as const;

type Formats = Readonly<Record<string, unknown>>;

/** Starts a node of a build whose formats have other numbers: the whole package is loaded anew. */
async function startBuild(
  formats: Formats,
  room: RedisRoom,
  options: RedisBackendOptions = PATIENT,
): Promise<FormatsApp> {
  vi.resetModules();
  const { FORMATS } = await import('../../src/core/common/formats.js');
  Object.assign(FORMATS, formats);
  const [main, tasks, { makeRedisBackend }] = await Promise.all([
    import('nestjs-mcp-streamable'),
    import('nestjs-mcp-streamable/tasks'),
    import('../../src/redis/redis-backend.js'),
  ]);
  const backend = makeRedisBackend(room.redis.url, { prefix: room.prefix, ...options }, { time: room.time });
  return startApp({ main, tasks, NestFactory, FastifyAdapter }, backend);
}

const same = (writes: number, reads = [1, 2]): Formats =>
  Object.fromEntries(LASTING.map((kind) => [kind, { writes, reads }]));

describeRedis('the formats of what nodes share', () => {
  let room: RedisRoom;
  const errors = vi.fn<(text: string) => void>();
  beforeEach(() => {
    vi.spyOn(Logger.prototype, 'error').mockImplementation(errors);
  });
  afterEach(() => {
    vi.restoreAllMocks();
    errors.mockClear();
  });

  describe('data that the version before has left', () => {
    const recording = JSON.parse(readFileSync(RECORDING, 'utf8')) as Recording;
    const { at, held, keys } = recording;
    let node: FormatsApp;
    let anna: Caller;

    beforeAll(async () => {
      room = await RedisRoom.open();
      // It is then for Redis and for the node.
      await room.advance(at - Date.now());
      vi.useFakeTimers({ toFake: ['Date'], now: at });
      await restore(keys);
      node = await startBuild({}, room, QUICK);
      anna = new Caller(node.url, 'anna');
    });
    afterAll(async () => {
      await node.app.close();
      vi.useRealTimers();
      await room.close();
    });
    afterEach(() => expect(errors.mock.calls).toEqual([]));

    const nameOf = (key: string): string => key.replace(/^mcp:/, `${room.prefix}:`);
    const dump = (key: string): Promise<string | null> => room.redis.admin.dump(nameOf(key));
    async function restore(recorded: readonly RecordedKey[]): Promise<void> {
      const { admin } = room.redis;
      for (const { key, type, ttl, value } of recorded) {
        const name = nameOf(key);
        const flat = [value].flat(1) as string[];
        const pairs = flat.flatMap((_, n) => (n % 2 === 0 ? [flat[n + 1]!, flat[n]!] : []));
        if (type === 'string') await admin.set(name, value as string);
        else if (type === 'hash') await admin.hset(name, value as object);
        else if (type === 'set') await admin.sadd(name, flat);
        else if (type === 'zset') await admin.zadd(name, ...pairs);
        else if (type === 'list') await admin.rpush(name, ...flat);
        else for (const [id, fields] of value as [string, string[]][]) await admin.xadd(name, id, ...fields);
        if (ttl >= 0) await admin.pexpire(name, ttl);
      }
    }

    it('data that the version before has left have each kind that outlives an upgrade, and a session', () => {
      const parts = [':i.', '.c}', '.pages}', 'switches}', ':{:state:path.mcp', ':{:tasks}:task:', ':session'];
      expect(parts.filter((part) => !keys.some(({ key }) => key.includes(part)))).toEqual([]);
    });

    it('a call that was paid then is not paid again: its repeat gets the first result', async () => {
      const more = { list: [1, 'ü', null], text: 'a\u2028' };
      expect(await anna.text('pay', { id: 'p1', more })).toBe(held.paid);
      expect(await anna.text('pay', { id: 'p1' })).toContain('was used before, with other arguments');
      expect(node.effects).toEqual([]);
    });

    it('a call whose node died before the upgrade has an end that is not known, and does not run', async () => {
      expect(await anna.text('pay slowly', { id: 'p2' })).toContain('whether it had an effect is not known');
      expect(node.effects).toEqual([]);
    });

    it('a confirmation that was used then stays used', async () => {
      const { text: _, ...round } = held.removal;
      expect(await anna.text('remove', { id: 'r1' }, round)).toContain('used already');
      expect(node.effects).toEqual([]);
    });

    it('a question that was asked then can be answered, and what ran before it does not run again', async () => {
      expect(await anna.text('charge', { id: 'c1' }, held.charge)).toMatch(/^charged c1 \(\d\) to Anna$/);
      expect(node.effects).toEqual([]);
    });

    it('a page that was opened then can be decided, and its call runs once', async () => {
      const { McpConfirmations } = await import('nestjs-mcp-streamable');
      expect(await node.app.get(McpConfirmations, { strict: false }).answer(held.page, 'anna', 'accept')).toBe(true);
      expect(await anna.text('archive', { id: 'a1' }, {}, {})).toContain('archived a1');
      expect(await anna.text('archive', { id: 'a1' }, {}, {})).toContain('must confirm this call on this page');
      expect(node.effects.splice(0)).toEqual(['archived a1']);
    });

    it('states have their data, by handle and by principal', async () => {
      expect(await anna.text('note', { id: 'two', more: held.handle })).toBe(`${held.handle} one,two`);
      expect(await anna.text('remember', { id: 'two' })).toBe('one,two');
    });

    it('a tool that was switched off then is off', async () => {
      expect(await anna.text('greet', { id: 'you' })).toBe('The tool "greet" is switched off: Not now.');
    });

    it('a task that had ended has its result, and one of a node that died fails', async () => {
      expect((await anna.task(held.report)).result.content[0].text).toBe('report t1');
      expect((await anna.taskThat('failed', held.interview.taskId)).error.message).toContain(
        'failed before the task had ended',
      );
    });

    it('S18: a session is unknown, so that its client begins anew, and nothing of it is read or changed', async () => {
      const ofSessions = keys.map(({ key }) => key).filter((key) => /^mcp:\{[^:]|\{:sessions\}|\{:node:/.test(key));
      expect(ofSessions.length).toBeGreaterThan(5);
      const before = await Promise.all(ofSessions.map(dump));
      const client = new SessionCaller(node.url, 'anna', held.session);
      const headers = { 'last-event-id': held.lastEventId };
      for (const response of [
        await client.work('w2'),
        await client.post({ method: 'notifications/initialized' }),
        await client.send('GET'),
        await client.send('GET', { headers }),
        await client.send('DELETE'),
      ]) {
        expect([response.status, await response.text()]).toEqual([404, expect.stringContaining('initialize')]);
      }
      expect(await (await (await client.initialize()).work('w2')).text()).toContain('worked w2');
      expect(await Promise.all(ofSessions.map(dump))).toEqual(before);
    });
  });

  describe('a cluster of two builds', () => {
    const nodes: FormatsApp[] = [];
    const effects = (): string[] => nodes.flatMap((node) => node.effects);
    const start = async (formats: Formats): Promise<FormatsApp> => {
      const node = await startBuild(formats, room);
      nodes.push(node);
      return node;
    };
    beforeAll(async () => {
      room = await RedisRoom.open();
    });
    afterEach(async () => {
      await Promise.all(nodes.splice(0).map(({ app }) => app.close()));
      await forget('');
    });
    afterAll(() => room.close());

    /** Deletes the keys with a part in their names. */
    async function forget(part: string): Promise<void> {
      const names = (await room.keys()).filter((key) => key.includes(part)).map((key) => `${room.prefix}:${key}`);
      if (names.length > 0) await room.redis.admin.del(names);
    }

    /** Keys, confirmations, states, switches and tasks of one node are those of the other. */
    async function shareWhatLasts(from: FormatsApp, to: FormatsApp): Promise<void> {
      const [one, other] = [new Caller(from.url, 'anna'), new Caller(to.url, 'anna')];
      const paid = await one.text('pay', { id: 'p1' });
      expect([await other.text('pay', { id: 'p1' }), await one.text('pay', { id: 'p1' })]).toEqual([paid, paid]);
      const atOnce = await Promise.all([one, other, one, other].map((caller) => caller.text('pay', { id: 'p2' })));
      expect(new Set(atOnce).size).toBe(1);
      const removal = await one.asked('remove', { id: 'r1' });
      expect(await other.text('remove', { id: 'r1' }, removal)).toContain('removed r1');
      for (const caller of [one, other])
        expect(await caller.text('remove', { id: 'r1' }, removal)).toContain('used already');
      expect(await other.text('charge', { id: 'c1' }, await one.asked('charge', { id: 'c1' }))).toContain('to Anna');
      const [handle] = (await one.text('note', { id: 'a' })).split(' ');
      expect(await other.text('note', { id: 'b', more: handle })).toBe(`${handle} a,b`);
      expect(await one.text('note', { id: 'c', more: handle })).toBe(`${handle} a,b,c`);
      expect([await one.text('remember', { id: 'a' }), await other.text('remember', { id: 'b' })]).toEqual([
        'a',
        'a,b',
      ]);
      await from.registry.disable('greet', { reason: 'Not now.' });
      await expect.poll(() => other.text('greet', { id: 'you' })).toContain('switched off: Not now.');
      await to.registry.enable('greet');
      await expect.poll(() => one.text('greet', { id: 'you' })).toBe('hello you');
      const [report, interview] = await Promise.all(['report', 'interview'].map((name) => one.call(name, { id: 't' })));
      expect((await other.taskThat('completed', report.taskId)).result.content[0].text).toBe('report t');
      const { taskId } = interview;
      const [question] = Object.keys((await other.taskThat('input_required', taskId)).inputRequests);
      const inputResponses = { [question!]: { action: 'accept', content: { text: 'you' } } };
      await other.ask('tasks/update', { taskId, inputResponses });
      expect((await other.taskThat('completed', taskId)).result.content[0].text).toBe('heard you');
      expect(effects().toSorted()).toEqual(['charged c1', 'paid p1', 'paid p2', 'removed r1']);
    }

    // One kind at a time in the long tests.
    for (const kinds of LONG ? LASTING.map((kind) => [kind]) : [LASTING]) {
      it(`nodes that read two formats, and write one each, see what the other has stored: ${kinds.join(', ')}`, async () => {
        const format = { writes: 2, reads: [1, 2] };
        const before = await start(same(1));
        const after = await start({ ...same(1), ...Object.fromEntries(kinds.map((kind) => [kind, format])) });
        await shareWhatLasts(before, after);
        for (const node of nodes) node.effects.length = 0;
        await forget('{:state');
        await shareWhatLasts(after, before);
        const session = await new SessionCaller(before.url, 'anna').initialize();
        for (const { url } of [after, before]) {
          session.url = url;
          expect(await (await session.work('w')).text()).toContain('worked w');
        }
        expect(errors.mock.calls).toEqual([]);
      });
    }

    it('S18: nodes with two formats of sessions answer 404 to the clients of the other, and share all else', async () => {
      const [before, after] = [await start({}), await start({ sessions: 99 })];
      const statuses: number[] = [];
      const client = await new SessionCaller(before.url, 'anna').initialize();
      for (const { url } of [before, after, after, before, after, before]) {
        client.url = url;
        let response = await client.work('w');
        statuses.push(response.status);
        if (response.status === 404) {
          await response.text();
          response = await (await client.initialize()).work('w');
        }
        expect(await response.text()).toContain('worked w');
      }
      expect(statuses).toEqual([200, 404, 200, 404, 404, 404]);
      const begun = await new SessionCaller(before.url, 'anna').initialize();
      const [, lastEventId] = /id: (\S+)\ndata: \{/.exec(
        await readUntil(await begun.work('never'), 'notifications/progress'),
      )!;
      begun.url = after.url;
      for (const response of [
        await begun.send('GET', { headers: { 'last-event-id': lastEventId! } }),
        await begun.send('DELETE'),
      ]) {
        expect([response.status, await response.text()]).toEqual([404, expect.anything()]);
      }
      await shareWhatLasts(before, after);
      expect(errors.mock.calls).toEqual([]);
    });

    it('a node refuses what has a format that it does not read, and neither runs nor overwrites it', async () => {
      const later = await start(same(2));
      const [anna, { registry }] = [new Caller(later.url, 'anna'), later];
      await anna.text('pay', { id: 'p1' });
      await anna.text('remember', { id: 'a' });
      const charge = await anna.asked('charge', { id: 'c1' });
      const { taskId } = await anna.call('report', { id: 't' });
      await anna.taskThat('completed', taskId);
      const earlier = await start(same(1, [1]));
      const other = new Caller(earlier.url, 'anna');
      expect(await other.text('pay', { id: 'p1' })).toContain('it is not known whether this call has run before');
      expect(await other.text('remember', { id: 'b' })).toContain('storage of this server is unavailable');
      expect(await other.text('charge', { id: 'c1' }, charge)).toContain('Invalid or expired requestState');
      expect(await other.task(taskId)).toMatchObject({ message: expect.stringContaining('unavailable') });
      expect(await anna.text('remember', { id: 'b' })).toBe('a,b');
      await registry.disable('greet');
      const late = new Caller((await start(same(1, [1]))).url, 'anna');
      expect(await late.text('greet', { id: 'you' })).toContain('Try again soon');
      expect(errors.mock.calls.join('\n')).toContain(
        'has the format 2, and this version of nestjs-mcp-streamable reads 1',
      );
      await registry.enable('greet');
      expect(effects()).toEqual(['paid p1', 'charged c1']);
    });
  });
});
