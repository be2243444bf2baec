import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';

/** Ends a process. @returns settles when it has gone */
export async function ended(child: ChildProcess, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
  const gone = once(child, 'exit');
  child.kill(signal);
  await gone;
}
