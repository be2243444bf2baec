import { describe, expect, it } from 'vitest';
import { ManualClock } from '../testing/index.js';
import { abortable, delayMs, LONGEST_WAIT_MS, pause, retryAfterMs } from './backoff.js';

const POLICY = { firstDelayMs: 100, maxDelayMs: 1_000, maxAttempts: 5 };
const least = () => 0;
const most = () => 1;

describe('delayMs', () => {
  it('doubles up to the limit, and takes a random part of it', () => {
    expect([0, 1, 2, 3, 4, 50].map((failures) => delayMs(POLICY, failures, undefined, most))).toEqual([
      ...[100, 200, 400, 800, 1_000, 1_000],
    ]);
    expect(delayMs(POLICY, 4, undefined, least)).toBe(0);
    expect(delayMs(POLICY, 0, undefined, () => 0.5)).toBe(50);
  });

  it('C4: what the server asks for is waited exactly after a good connection, and at least afterwards', () => {
    expect(delayMs(POLICY, 0, 30, most)).toBe(30);
    expect(delayMs(POLICY, 0, 0, most)).toBe(10);
    expect(delayMs(POLICY, 1, 5_000, most)).toBe(5_000);
    expect(delayMs(POLICY, 3, 30, most)).toBe(800);
  });

  it('but not for ever', () => {
    expect(delayMs(POLICY, 0, Number.MAX_SAFE_INTEGER, most)).toBe(LONGEST_WAIT_MS);
  });
});

describe('retryAfterMs', () => {
  const now = Date.UTC(2026, 0, 1);
  it.each([
    ['3', 3_000],
    [' 0 ', 0],
    ['Thu, 01 Jan 2026 00:00:05 GMT', 5_000],
    ['Wed, 31 Dec 2025 00:00:00 GMT', 0],
    ['soon', undefined],
    ['nevermind', undefined],
    ['-1.5.', undefined],
    [null, undefined],
  ])('%j is %j', (header, expected) => {
    expect(retryAfterMs(header, now)).toBe(expected);
  });
});

describe('pause and abortable', () => {
  it('an abort ends the pause, and its timer', async () => {
    const clock = new ManualClock();
    const controller = new AbortController();
    const waiting = pause(100, clock, controller.signal);
    controller.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    await expect(pause(100, clock, controller.signal)).rejects.toThrow('enough');
    expect(clock.pending).toBe(0);
  });

  it('what nobody can end is left behind', async () => {
    const controller = new AbortController();
    const waiting = abortable(new Promise(() => {}), controller.signal);
    controller.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    await expect(abortable(Promise.reject(new Error('late')), controller.signal)).rejects.toThrow('enough');
    expect(await abortable(Promise.resolve(1), new AbortController().signal)).toBe(1);
  });
});
