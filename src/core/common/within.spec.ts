import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../testing/index.js';
import { deferred, within } from './promises.js';

describe('within', () => {
  it('within says yes when the task is done in time, and clears its timer', async () => {
    const clock = new ManualClock();
    const task = deferred();
    const inTime = within(task.promise, 100, clock);
    await clock.advance(99);
    task.resolve();
    expect(await inTime).toBe(true);
    expect(clock.pending).toBe(0);
  });

  it('within says no when time is over, whatever becomes of the task', async () => {
    const clock = new ManualClock();
    const task = deferred();
    const inTime = within(task.promise, 100, clock);
    await clock.advance(100);
    expect(await inTime).toBe(false);
    expect(clock.pending).toBe(0);
    task.reject(new Error('too late to matter'));
  });

  it('within passes on the failure of a task, and clears its timer', async () => {
    const clock = new ManualClock();
    await expect(within(Promise.reject(new Error('of the task')), 100, clock)).rejects.toThrow('of the task');
    expect(clock.pending).toBe(0);
  });
});
