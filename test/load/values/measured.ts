import { readFileSync, writeFileSync } from 'node:fs';

/** What one measurement took. */
export interface Cost {
  readonly cpuMs: number;
  /** The most memory above that of the idle process; 0 where the system does not tell it. */
  readonly mebibytes: number;
}

const STATUS = '/proc/self/status';
const isLinux = process.platform === 'linux';

/** Returns the resident memory, in MiB. @param peak the most since it was reset */
function resident(peak: boolean): number {
  if (!isLinux) return 0;
  const [, kibibytes] = new RegExp(`${peak ? 'VmHWM' : 'VmRSS'}:\\s+(\\d+)`).exec(readFileSync(STATUS, 'utf8'))!;
  return Number(kibibytes) / 1024;
}

/** Measures this process from one message of its parent to the next, until the parent is gone. */
export function measureSelf(): void {
  let [cpu, idle] = [process.cpuUsage(), 0];
  process.on('message', (what: unknown) => {
    if (what === 'begin') {
      globalThis.gc!();
      // Resets the peak.
      if (isLinux) writeFileSync('/proc/self/clear_refs', '5');
      idle = resident(false);
      cpu = process.cpuUsage();
      process.send!('begun');
    } else if (what === 'end') {
      const { user, system } = process.cpuUsage(cpu);
      const cost: Cost = { cpuMs: (user + system) / 1_000, mebibytes: resident(true) - idle };
      process.send!(cost);
    }
  });
  process.on('disconnect', () => process.exit());
}
