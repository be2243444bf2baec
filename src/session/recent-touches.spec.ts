import { describe, expect, it } from 'vitest';
import { ManualClock } from '../testing/index.js';
import { RecentTouches } from './recent-touches.js';

describe('RecentTouches', () => {
  it('is due once per interval', async () => {
    const clock = new ManualClock();
    const touches = new RecentTouches(clock, 100);
    expect(touches.due('a')).toBe(true);
    touches.note('a');
    await clock.advance(99);
    expect(touches.due('a')).toBe(false);
    await clock.advance(1);
    expect(touches.due('a')).toBe(true);
  });

  it('keeps what was noted within an interval, and nothing else', async () => {
    const clock = new ManualClock();
    const touches = new RecentTouches(clock, 100);
    for (let n = 0; n < 1_000; n++) {
      touches.note(`${n}`);
      await clock.advance(10);
      touches.due('another');
    }
    expect(touches.size).toBe(9);
    touches.note('995');
    touches.forget('999');
    await clock.advance(60);
    expect(touches.due('995')).toBe(false);
    expect([touches.size, clock.pending]).toEqual([3, 0]);
  });

  it('keeps nothing where nothing expires', () => {
    const touches = new RecentTouches(new ManualClock(), Infinity);
    touches.note('a');
    expect([touches.due('a'), touches.due('b'), touches.size]).toEqual([false, false, 0]);
  });
});
