import { describe, expect, it } from 'vitest';
import { deferred, Turns } from './promises.js';

describe('Turns', () => {
  it('Turns runs tasks of one key one after the other, whatever becomes of those before', async () => {
    const turns = new Turns();
    const first = deferred<string>();
    const ran: string[] = [];
    const task = (name: string, result: Promise<string> = Promise.resolve(name)) =>
      turns.run('key', () => {
        ran.push(name);
        return result;
      });
    const results = Promise.allSettled([task('a', first.promise), task('b'), task('c')]);
    await new Promise(setImmediate);
    expect(ran).toEqual(['a']);
    first.reject(new Error('a failed'));
    expect((await results).map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled']);
    expect(ran).toEqual(['a', 'b', 'c']);
  });

  it('Turns keeps no key waiting for another', async () => {
    const turns = new Turns();
    const stuck = deferred<string>();
    const waiting = turns.run('a', () => stuck.promise);
    expect(await turns.run('__proto__', async () => 'b')).toBe('b');
    stuck.resolve('a');
    expect(await waiting).toBe('a');
  });

  it('Turns keeps nothing of what is over', async () => {
    const turns = new Turns();
    const all = [1, 2, 3, 4].map((n) =>
      turns.run(`key ${n % 2}`, async () => {
        if (n === 3) throw new Error('three');
        return n;
      }),
    );
    expect(turns.size).toBe(2);
    await Promise.allSettled(all);
    expect(turns.size).toBe(0);
  });
});
