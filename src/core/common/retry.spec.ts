import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../testing/index.js';
import { Retry, type RetryPolicy } from './retry.js';

class FinalError extends Error {}

const POLICY: RetryPolicy = { firstDelayMs: 10, maxDelayMs: 40, giveUpAfterMs: 150 };

function setup(policy: Partial<RetryPolicy> = {}) {
  const clock = new ManualClock(0);
  const retry = new Retry({ ...POLICY, ...policy }, clock, (error) => error instanceof FinalError);
  /** Times of the attempts; fails so often, then gives its number. */
  const attempts: number[] = [];
  const failing = (times: number, error: () => Error = () => new Error(`fault ${attempts.length}`)) => {
    return async (): Promise<number> => {
      attempts.push(clock.now());
      if (attempts.length <= times) throw error();
      return attempts.length;
    };
  };
  return { clock, retry, attempts, failing };
}

describe('Retry', () => {
  it('Retry makes one attempt if that succeeds, and arms no timer', async () => {
    const { clock, retry, failing } = setup();
    expect(await retry.run(failing(0))).toBe(1);
    expect(clock.pending).toBe(0);
  });

  it('Retry waits longer after each fault, up to the longest delay', async () => {
    const { clock, retry, attempts, failing } = setup();
    const result = retry.run(failing(5));
    await clock.advance(1_000);
    expect(await result).toBe(6);
    expect(attempts).toEqual([0, 10, 30, 70, 110, 150]);
    expect(clock.pending).toBe(0);
  });

  it('Retry takes what throws at once for what fails', async () => {
    const { clock, retry, failing } = setup();
    let first = true;
    const result = retry.run(() => {
      if (!first) return failing(0)();
      first = false;
      throw new Error('not even a promise');
    });
    await clock.advance(1_000);
    expect(await result).toBe(1);
  });

  it('Retry gives up when it has waited long enough, with the last fault', async () => {
    const { clock, retry, attempts, failing } = setup();
    const result = retry.run(failing(Infinity));
    const [, [outcome]] = await Promise.all([clock.advance(1_000), Promise.allSettled([result])]);
    expect(outcome).toMatchObject({ reason: { message: 'fault 6' } });
    expect(attempts).toEqual([0, 10, 30, 70, 110, 150]);
    expect(clock.pending).toBe(0);
  });

  it('Retry does not repeat what was refused for good, first or later', async () => {
    const { clock, retry, attempts, failing } = setup();
    await expect(retry.run(failing(1, () => new FinalError('no')))).rejects.toThrow(FinalError);
    expect(attempts).toHaveLength(1);
    const result = retry.run(failing(3, () => (attempts.length < 3 ? new Error('fault') : new FinalError('no'))));
    const [, [outcome]] = await Promise.all([clock.advance(1_000), Promise.allSettled([result])]);
    expect(outcome).toMatchObject({ reason: expect.any(FinalError) as unknown });
    expect(attempts).toHaveLength(3);
  });

  it('Retry with no time to wait makes a single attempt', async () => {
    const { clock, retry, attempts, failing } = setup({ giveUpAfterMs: 0 });
    await expect(retry.run(failing(Infinity))).rejects.toThrow('fault 1');
    expect([attempts.length, clock.pending]).toEqual([1, 0]);
  });

  it('Retry runs several attempts at a time, each on its own', async () => {
    const { clock, retry } = setup();
    let outage = true;
    const attempt = (name: string) => async (): Promise<string> => {
      if (outage) throw new Error(name);
      return name;
    };
    const results = Promise.all(['a', 'b', 'c'].map((name) => retry.run(attempt(name))));
    await clock.advance(0);
    expect(clock.pending).toBe(3);
    outage = false;
    await clock.advance(10);
    expect(await results).toEqual(['a', 'b', 'c']);
    expect(clock.pending).toBe(0);
  });

  it('Retry hands over what came of it, once: at the first attempt, after faults, or when it has given up', async () => {
    const { clock, retry, failing } = setup();
    const heard: unknown[] = [];
    const note = (value: unknown): void => void heard.push(value);
    const giveUp = (error: unknown): never => {
      heard.push((error as Error).message);
      throw error;
    };
    await retry.runThen(failing(0), note, giveUp);
    expect(heard).toEqual([1]);
    const later = retry.runThen(failing(3), note, giveUp);
    await clock.advance(1_000);
    await later;
    expect(heard).toEqual([1, 4]);
    const never = Promise.allSettled([retry.runThen(failing(Infinity), note, giveUp)]);
    await clock.advance(1_000);
    expect(await never).toMatchObject([{ status: 'rejected', reason: { message: 'fault 10' } }]);
    expect(heard).toEqual([1, 4, 'fault 10']);
    expect(clock.pending).toBe(0);
  });

  it('cancel() ends all waiting at once, with the fault that was being ridden out', async () => {
    const { clock, retry, attempts, failing } = setup();
    const one = retry.run(failing(Infinity));
    const other = retry.run(failing(Infinity));
    const outcomes = Promise.allSettled([one, other]);
    await clock.advance(5);
    expect(clock.pending).toBe(2);
    retry.cancel();
    expect(clock.pending).toBe(0);
    expect(await outcomes).toMatchObject([{ reason: { message: 'fault 1' } }, { reason: { message: 'fault 2' } }]);
    await clock.advance(1_000);
    expect(attempts).toHaveLength(2);
  });

  it('after cancel() the attempt under way decides, and there is no other', async () => {
    const { clock, retry } = setup();
    const outcome = { succeed: (_: string) => {}, fail: (_: Error) => {} };
    const attempt = () =>
      new Promise<string>((resolve, reject) => Object.assign(outcome, { succeed: resolve, fail: reject }));
    const succeeding = retry.run(attempt);
    retry.cancel();
    outcome.succeed('yes');
    expect(await succeeding).toBe('yes');
    const failing = retry.run(attempt);
    outcome.fail(new Error('no'));
    await expect(failing).rejects.toThrow('no');
    expect(clock.pending).toBe(0);
  });
});
