import { describe, expect, it } from 'vitest';
import { ManualClock } from './manual-clock.js';

describe('ManualClock', () => {
  it('ManualClock runs timers in order of their time, then of their arming, at their time', async () => {
    const clock = new ManualClock(1_000);
    const ran: string[] = [];
    const note = (name: string) => () => void ran.push(`${name} ${clock.now()}`);
    clock.setTimeout(note('late'), 30);
    clock.setTimeout(note('early'), 10);
    clock.setTimeout(note('early too'), 10);
    await clock.advance(9);
    expect(ran).toEqual([]);
    await clock.advance(1);
    expect(ran).toEqual(['early 1010', 'early too 1010']);
    await clock.advance(100);
    expect(ran.at(-1)).toBe('late 1030');
    expect([clock.now(), clock.pending]).toEqual([1_110, 0]);
  });

  it('ManualClock lets promises run in between, and the timers that they arm', async () => {
    const clock = new ManualClock(0);
    const ran: number[] = [];
    const sleep = (ms: number) => new Promise<void>((resolve) => clock.setTimeout(resolve, ms));
    const work = async () => {
      for (let n = 0; n < 5; n++) {
        await sleep(10);
        for (let hop = 0; hop < 20; hop++) await Promise.resolve();
        ran.push(clock.now());
      }
    };
    void work();
    await clock.advance(35);
    expect(ran).toEqual([10, 20, 30]);
    await clock.advance(15);
    expect(ran).toEqual([10, 20, 30, 40, 50]);
  });

  it('ManualClock repeats intervals until they are cleared', async () => {
    const clock = new ManualClock(0);
    const ran: number[] = [];
    const timer = clock.setInterval(() => {
      ran.push(clock.now());
      if (ran.length === 3) clock.clear(timer);
    }, 10);
    await clock.advance(25);
    expect([ran, clock.pending]).toEqual([[10, 20], 1]);
    await clock.advance(25);
    expect([ran, clock.pending]).toEqual([[10, 20, 30], 0]);
  });

  it('ManualClock clears timers, also twice, after they ran, or none at all', async () => {
    const clock = new ManualClock();
    let ran = 0;
    const timer = clock.setTimeout(() => ran++, 10);
    clock.clear(timer);
    clock.clear(timer);
    clock.clear(undefined);
    await clock.advance(10);
    const other = clock.setTimeout(() => ran++, 0);
    await clock.advance(0);
    clock.clear(other);
    expect([ran, clock.pending]).toEqual([1, 0]);
  });

  it('ManualClock rejects with what a task throws', async () => {
    const clock = new ManualClock();
    clock.setTimeout(() => {
      throw new Error('of the task');
    }, 1);
    await expect(clock.advance(1)).rejects.toThrow('of the task');
  });
});
