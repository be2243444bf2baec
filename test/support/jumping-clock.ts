import { ManualClock } from 'nestjs-mcp-streamable/testing';

/**
 * Time that passes by itself while a timer is armed and nothing else is to be done: a slow dependency stays slow in relation
 * to others, and costs the test no time. Not for intervals: time would never rest.
 */
export class JumpingClock extends ManualClock {
  #running = false;

  override setTimeout(task: () => void, delayMs: number): object {
    const timer = super.setTimeout(task, delayMs);
    if (!this.#running) void this.#run();
    return timer;
  }

  async #run(): Promise<void> {
    this.#running = true;
    while (this.pending > 0) await this.advance(1);
    this.#running = false;
  }
}
