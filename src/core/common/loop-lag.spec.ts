import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../testing/index.js';
import { LoopLag } from './loop-lag.js';

/** A loop whose turns end late: a timer runs when the loop comes to it. */
class StuckLoop {
  #now = 0;
  #cpuMs = 0;
  #tick: (() => void) | undefined;
  now = (): number => this.#now;
  idleMs = (): number => 0;
  cpuMs = (): number => this.#cpuMs;
  setTimeout = (task: () => void): void => void (this.#tick = task);

  /** The loop is kept busy, or from running, and its timers run only then. */
  turn(ms: number, cpuMs = ms): void {
    this.#now += ms;
    this.#cpuMs += cpuMs;
    const tick = this.#tick;
    this.#tick = undefined;
    tick?.();
  }
}

describe('the lag of the event loop', () => {
  it('the lag of the event loop does not last after one long turn, such as a garbage collection', () => {
    const loop = new StuckLoop();
    const lag = new LoopLag(loop);
    expect(lag.lastingMs).toBe(0);
    loop.turn(5_020);
    expect(lag.lastingMs).toBe(0);
  });

  it('the lag of the event loop lasts after two long turns, and is over after one that is in time', () => {
    const loop = new StuckLoop();
    const lag = new LoopLag(loop);
    expect(lag.lastingMs).toBe(0);
    loop.turn(2_020);
    expect(lag.lastingMs).toBe(0);
    loop.turn(3_020);
    expect(lag.lastingMs).toBe(2_000);
    loop.turn(20);
    expect(lag.lastingMs).toBe(0);
  });

  it('the lag of the event loop is its own if the process used most of the processor time of both delays', () => {
    const loop = new StuckLoop();
    const lag = new LoopLag(loop);
    void lag.lastingMs;
    const owns = [
      [1_000, 900],
      [1_000, 500],
      [1_000, 499],
      [1_000, 1_000],
      [1_000, 1_000],
    ].map(([ms, cpuMs]) => {
      loop.turn(ms!, cpuMs);
      return lag.lastingMs > 0 && lag.isOwn;
    });
    expect(owns).toEqual([false, true, false, false, true]);
  });

  it('the lag of the event loop arms no timer while it is not asked', async () => {
    const clock = new ManualClock();
    const lag = new LoopLag(Object.assign(clock, { idleMs: () => 0, cpuMs: () => 0 }));
    expect(clock.pending).toBe(0);
    void lag.lastingMs;
    expect(clock.pending).toBe(1);
    await clock.advance(40);
    expect(clock.pending).toBe(0);
  });
});
