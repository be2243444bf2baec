import { spawnSync } from 'node:child_process';
import { cpus } from 'node:os';

/** Which process runs where: servers and load must not take each other's time. */

const CORES = cpus().length;

/** Whether each process can have a core of its own. */
export const PINNED = CORES > 1 && spawnSync('taskset', ['--version']).status === 0;

/** The load generator has core 1 (scripts/bench.mjs). What comes second has its own core where there are enough, and else that of the first: beside the load it would be slowed down by it. */
export const CORE = { server: 0, secondServer: CORES >= 4 ? 2 : 0, redis: CORES >= 4 ? 3 : 0 } as const;

/** All of them. */
const ANY = `0-${CORES - 1}`;

/** @returns a command and its arguments, such that it runs on that core, or on any, where that can be said */
export function pinnedTo(core: number | 'any', command: readonly string[]): [string, ...string[]] {
  const pinned = PINNED ? ['taskset', '-c', core === 'any' ? ANY : String(core), ...command] : command;
  return pinned as [string, ...string[]];
}

/** From now on all threads of that process run on that core, where that can be said. */
export function pin(processId: number, core: number): void {
  if (PINNED) spawnSync('taskset', ['-a', '-p', '-c', String(core), String(processId)]);
}
