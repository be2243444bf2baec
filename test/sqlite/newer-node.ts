import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { ROOT } from '../support/bundle.js';

/** The first with `node:sqlite` and without a flag for it. */
const FIRST = [22, 13] as const;
/** What npm is asked for where this one is older. */
const MAJOR = '24';

/** The Node.js for examples/sqlite-store: this one, or one of npm, which is brought once. @returns its path, or nothing where there is none */
export async function nodeWithSqlite(): Promise<string | undefined> {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major > FIRST[0] || (major === FIRST[0] && minor >= FIRST[1])) return process.execPath;
  if (process.platform !== 'linux' || process.arch !== 'x64') return undefined;
  const { stdout } = await promisify(execFile)(process.execPath, ['scripts/node-of-npm.mjs', MAJOR], { cwd: ROOT });
  return stdout.trim() || undefined;
}
