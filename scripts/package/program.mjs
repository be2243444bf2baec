// A program that a check starts, calls and ends.
import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

const STOP_TIMEOUT_MS = 10_000;

export class Program {
  output = '';
  hasEnded = false;

  /** @param options of `spawn()` */
  constructor(command, args, options) {
    // A group of its own: npm, its shell and the app get signals as from a terminal.
    this.child = spawn(command, args, { detached: true, stdio: ['ignore', 'pipe', 'pipe'], ...options });
    for (const stream of [this.child.stdout, this.child.stderr]) stream.on('data', (chunk) => (this.output += chunk));
    // "exit" is that of npm; the app has the pipes too.
    this.ended = once(this.child, 'close')
      .catch((error) => (this.output += error.message))
      .then(() => (this.hasEnded = true));
  }

  /**
   * Tries until it succeeds.
   *
   * @throws what the last try threw, when the program has ended or the time is over
   */
  async until(action, limitMs = 60_000) {
    const deadline = performance.now() + limitMs;
    for (;;) {
      try {
        return await action();
      } catch (error) {
        if (performance.now() > deadline || this.hasEnded) throw error;
        await delay(50);
      }
    }
  }

  /** @throws unless all of the group ends in time; it is killed then */
  async stop(signal = 'SIGTERM') {
    if (this.hasEnded) return;
    process.kill(-Number(this.child.pid), signal);
    if (await Promise.race([this.ended, delay(STOP_TIMEOUT_MS, false, { ref: false })])) return;
    process.kill(-Number(this.child.pid), 'SIGKILL');
    throw new Error(`still running ${STOP_TIMEOUT_MS / 1000} s after ${signal}`);
  }
}

/**
 * Below the ports that systems give to connections: one of those may become the source of a connection before a server
 * listens on it.
 *
 * @returns the first of several free ports in a row
 */
export async function freePort(count = 1) {
  for (;;) {
    const port = randomInt(10_000, 32_000);
    const all = Array.from({ length: count }, (_, at) => tryPort(port + at));
    if ((await Promise.allSettled(all)).every(({ status }) => status === 'fulfilled')) return port;
  }
}

async function tryPort(wanted) {
  const server = createServer().listen(wanted, '127.0.0.1');
  await once(server, 'listening');
  server.close();
  await once(server, 'close');
}
