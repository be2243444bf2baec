import { setImmediate } from 'node:timers/promises';

/**
 * The part of a server under measurement that answers the bench, over the channel between the processes: how much CPU time
 * and memory it has used, as the operating system and V8 say. Without a channel (`npm run x -- bench:server`) it only says where
 * the server listens.
 */

/** What only the server itself can do. */
export interface Duties {
  /** Sends a notification to every session. */
  notify?: (sequence: number) => Promise<unknown>;
  /** What the server holds, by name. */
  gauges?: () => Promise<Record<string, number>>;
}

export interface Memory {
  /** Bytes of the JavaScript heap after a collection. */
  heap: number;
  /** Bytes of buffers outside of the heap. */
  external: number;
  /** Bytes of the process. */
  resident: number;
}

export interface Question {
  id: number;
  ask: 'cpu' | 'memory' | 'notify' | 'gauges' | 'stop';
  value?: number;
}

/** `node`: the version that runs the server. */
export type Message =
  { listening: number; node: string } | { id: number; answer: unknown } | { id: number; error: string };

/** The server listens: say so, and answer from now on. */
export function report(url: string, duties: Duties = {}): void {
  const { port } = new URL(url);
  process.stdout.write(`listening on http://127.0.0.1:${port}/mcp\n`);
  if (!process.send) return;
  process.on('message', (question: Question) => void reply(question, duties));
  // The bench is gone.
  process.on('disconnect', () => process.exit());
  tell({ listening: Number(port), node: process.version });
}

async function reply({ id, ask, value = 0 }: Question, duties: Duties): Promise<void> {
  try {
    tell({ id, answer: await answerOf(ask, value, duties) });
  } catch (error) {
    tell({ id, error: String(error) });
  }
}

async function answerOf(ask: Question['ask'], value: number, { notify, gauges }: Duties): Promise<unknown> {
  switch (ask) {
    case 'cpu': {
      const { user, system } = process.cpuUsage();
      return user + system;
    }
    case 'memory':
      return memoryAtRest();
    case 'notify':
      if (!notify) throw new Error('This server cannot notify its sessions.');
      await notify(value);
      return undefined;
    case 'gauges':
      return gauges?.();
    case 'stop':
      // An exit of its own: a profiler writes what it has.
      process.exit();
  }
}

/** Collections that find nothing more are the last; with much in the heap each of them takes a second. */
const MOST_COLLECTIONS = 4;
const NOTHING = 1024;

/** What is left when the garbage is gone. */
export async function memoryAtRest(): Promise<Memory> {
  if (!globalThis.gc) throw new Error('The server must run with --expose-gc.');
  let before = Infinity;
  // What a collection finds may free more in its callbacks.
  for (let i = 0; i < MOST_COLLECTIONS; i++) {
    globalThis.gc();
    await setImmediate();
    const { heapUsed, external } = process.memoryUsage();
    if (before - heapUsed - external < NOTHING) break;
    before = heapUsed + external;
  }
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heap: heapUsed, external, resident: rss };
}

function tell(message: Message): void {
  process.send?.(message);
}
