import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export const root = fileURLToPath(new URL('../..', import.meta.url));

/** For one command; generous, since CI shares two cores. */
const STEP_TIMEOUT_MS = 600_000;

/** Runs a program. @returns its standard output @throws with all of its output */
export async function run(command, args, { cwd = root, env = process.env } = {}) {
  try {
    const options = { cwd, env, maxBuffer: 64 * 1024 * 1024, timeout: STEP_TIMEOUT_MS, killSignal: 'SIGKILL' };
    const { stdout } = await promisify(execFile)(command, args, options);
    return stdout;
  } catch (error) {
    const reason = error.killed ? `took longer than ${STEP_TIMEOUT_MS / 1000} s` : `exit ${error.code}`;
    throw new Error(`${command} ${args.join(' ')}: ${reason}\n${error.stdout ?? ''}${error.stderr ?? ''}`, {
      cause: error,
    });
  }
}

export async function step(name, action) {
  const begin = performance.now();
  const result = await action();
  console.log(`  ok  ${name} (${((performance.now() - begin) / 1000).toFixed(1)} s)`);
  return result;
}

/**
 * The packages that its package.json names. What npm has cached of a package may be older than a version that another one asks for:
 * then it is asked again.
 *
 * @param peers `--force` to install what peers do not allow
 */
export async function install(folder, peers = '--strict-peer-deps') {
  const npm = (...options) => run('npm', ['install', '--no-audit', '--no-fund', peers, ...options], { cwd: folder });
  try {
    return await npm('--prefer-offline');
  } catch (error) {
    if (!error.message.includes('ETARGET')) throw error;
    return npm('--prefer-online');
  }
}

/** One more, beside those that its package.json names. */
export async function addPackage(folder, name) {
  const options = ['--no-audit', '--no-fund', '--no-save', '--prefer-offline'];
  await run('npm', ['install', ...options, name], { cwd: folder });
}

export function assertNone(complaints) {
  if (complaints.length > 0) throw new Error(complaints.join('\n'));
}
