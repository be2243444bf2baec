import { describe, expect, it } from 'vitest';
import { deferred } from '../common/promises.js';
import { ManualClock } from '../testing/manual-clock.js';
import { Sweeper } from './sweeper.js';

function setup(left: () => Promise<number>) {
  const clock = new ManualClock();
  let sweeps = 0;
  const sweeper = new Sweeper(clock, 10, () => void sweeps++, left);
  return { clock, sweeper, sweeps: () => sweeps };
}

describe('the sweeper', () => {
  it('sweeps from the first start until it is stopped, with one timer', async () => {
    const { clock, sweeper, sweeps } = setup(async () => 0);
    sweeper.start();
    sweeper.start();
    await clock.advance(30);
    expect([sweeps(), clock.pending]).toEqual([3, 1]);
    sweeper.stop();
    sweeper.stop();
    await clock.advance(30);
    expect([sweeps(), clock.pending]).toEqual([3, 0]);
  });

  it.each([
    ['nothing is left', async () => 0, 0],
    ['something is left', async () => 1, 1],
    ['nobody can say what is left', () => Promise.reject(new Error('away')), 1],
  ])('looks on or rests when %s', async (_, left, timers) => {
    const { clock, sweeper } = setup(left);
    sweeper.start();
    await sweeper.stopIfNothingLeft();
    expect(clock.pending).toBe(timers);
    sweeper.stop();
  });

  it('looks on when something came while it was being counted', async () => {
    const counted = deferred<number>();
    const { clock, sweeper } = setup(() => counted.promise);
    sweeper.start();
    const looked = sweeper.stopIfNothingLeft();
    sweeper.start();
    counted.resolve(0);
    await looked;
    expect(clock.pending).toBe(1);
    sweeper.stop();
  });
});
