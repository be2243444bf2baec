import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/**
 * A port that was free a moment ago. Below those that the operating system gives to connections (32768 and up on Linux), so
 * that it is free in a moment, too.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + randomInt(12_000);
    const probe = createServer();
    const free = await new Promise<boolean>((resolve) => {
      probe.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true));
    });
    if (!free) continue;
    await new Promise((resolve) => probe.close(resolve));
    return port;
  }
}
