import { describe, expect, it } from 'vitest';
import { deferred } from '../common/promises.js';
import { OnceResults } from './run-memory.js';

describe('a step that is done once', () => {
  it('a step that is done once runs once, and calls that come meanwhile share its result', async () => {
    const once = new OnceResults();
    const done = deferred<number>();
    let runs = 0;
    const task = () => {
      runs++;
      return done.promise;
    };
    const both = [once.run('key', task), once.run('key', task)];
    done.resolve(7);
    expect(await Promise.all([...both, once.run('key', task)])).toEqual([7, 7, 7]);
    expect(runs).toBe(1);
  });

  it('a step that is done once is kept apart by key, whatever the key', async () => {
    const once = new OnceResults();
    for (const key of ['', '__proto__', 'constructor', 'a']) expect(await once.run(key, () => key)).toBe(key);
    for (const key of ['', '__proto__', 'constructor', 'a']) expect(await once.run(key, () => 'again')).toBe(key);
  });

  it('a step that is done once is tried again when it failed', async () => {
    const once = new OnceResults();
    const failing = () => {
      throw new Error('not yet');
    };
    const both = await Promise.allSettled([once.run('key', failing), once.run('key', failing)]);
    expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(once.entries()).toEqual([]);
    expect(await once.run('key', () => 'now')).toBe('now');
  });

  it('a step that is done once gives each call a copy of its result', async () => {
    const once = new OnceResults();
    const mine = { list: [1] };
    const first = (await once.run('key', () => mine)) as typeof mine;
    mine.list.push(2);
    first.list.push(3);
    expect(await once.run('key', () => mine)).toEqual({ list: [1] });
  });

  it.each([null, '', 'text', 0, -1.5, true, [], {}, [[{ a: null }]], { a: undefined }, Object.create(null)])(
    'a step that is done once may be %j',
    async (value: unknown) => {
      const once = new OnceResults();
      const first = await once.run('key', () => value);
      const second = await new OnceResults(once.entries()).run('key', () => 'again');
      expect(first).toEqual(structuredClone(value));
      expect(second).toEqual(first);
    },
  );

  it('a step that is done once may have no result', async () => {
    const once = new OnceResults();
    expect(await once.run('key', async () => {})).toBeUndefined();
    expect(await new OnceResults(once.entries()).run('key', () => 'again')).toBeUndefined();
  });

  const circle: unknown[] = [];
  circle.push({ circle });
  it.each<[string, unknown, string]>([
    ['a date', new Date(0), 'it is not JSON'],
    ['a date within', { a: [1, { b: new Date(0) }] }, 'it.a[1].b is not JSON'],
    ['a map', new Map(), 'it is not JSON'],
    ['bytes', { bytes: Buffer.from('x') }, 'it.bytes is not JSON'],
    ['an object of a class', new (class Order {})(), 'it is not JSON'],
    ['a function', { f: () => {} }, 'it.f is not JSON'],
    ['a bigint', [1n], 'it[0] is not JSON'],
    ['a symbol', Symbol('s'), 'it is not JSON'],
    ['NaN', { n: Number.NaN }, 'it.n is not JSON'],
    ['Infinity', Infinity, 'it is not JSON'],
    ['a hole', [undefined], 'it[0] is not JSON'],
    ['what says itself what it is', { toJSON: () => 'x' }, 'it is not JSON'],
    ['a circle', circle, 'it[0].circle is not JSON'],
  ])('a step that is done once cannot be %s', async (_, value, message) => {
    const once = new OnceResults();
    await expect(once.run('key', () => value)).rejects.toThrow(`ctx.once("key") cannot be kept: ${message}`);
    expect(once.entries()).toEqual([]);
  });

  it('a step that is done once may hold the same object twice', async () => {
    const same = { a: 1 };
    expect(await new OnceResults().run('key', () => [same, same])).toEqual([same, same]);
  });

  it('a step that is done once requires a key that is a string', async () => {
    await expect(new OnceResults().run(7 as never, () => 1)).rejects.toThrow('7 cannot be the key of ctx.once()');
  });

  it('a step that is done once settles when all running steps have ended', async () => {
    const once = new OnceResults();
    const [first, second] = [deferred(), deferred()];
    const events: string[] = [];
    once.run('a', () => first.promise).catch(() => events.push('a failed'));
    void once.run('b', () => second.promise);
    const settled = once.settled().then(() => events.push('settled'));
    first.reject(new Error('x'));
    await new Promise((resolve) => void setImmediate(resolve));
    expect(events).toEqual(['a failed']);
    void once.run('c', () => {});
    second.resolve();
    await settled;
    expect(new Map(once.entries())).toEqual(new Map(['b', 'c'].map((key) => [key, ''])));
  });
});
