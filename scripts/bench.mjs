// Builds ours, the bench and its peers, then runs the bench: `npm run bench -- --quick`. See bench/README.md.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isInstalled } from './installed.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const peers = join(root, 'bench/peers');

function must(command, args, options = {}) {
  const { status, signal } = spawnSync(command, args, { cwd: root, stdio: 'inherit', ...options });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${signal ?? status}`);
}

function build() {
  must('npm', ['run', '-s', 'build']);
  must('npm', ['run', '-s', 'build:bench']);
}

/** Looks at what runs have found. @returns the exit code: 1 if they are too far apart */
function compare() {
  const script = 'build/bench/compare.js';
  if (!existsSync(join(root, script))) build();
  return spawnSync(process.execPath, [script, ...process.argv.slice(2)], { cwd: root, stdio: 'inherit' }).status ?? 1;
}

function measure() {
  if (!isInstalled(peers)) must('npm', ['ci', '--prefer-offline', '--no-audit', '--no-fund'], { cwd: peers });
  build();
  must('node', ['scripts/remove.mjs', 'bench/peers/build']);
  must('npx', ['--no-install', 'tsc', '-p', 'bench/peers/tsconfig.json']);
  // Servers run on core 0 (bench/harness/cores.ts), the load on core 1.
  const pinned = cpus().length > 1 && spawnSync('taskset', ['--version']).status === 0;
  const node = [process.execPath, '--enable-source-maps', 'build/bench/run.js', ...process.argv.slice(2)];
  const [command, ...args] = pinned ? ['taskset', '-c', '1', ...node] : node;
  must(command, args);
}

if (process.argv.includes('--compare')) process.exitCode = compare();
else measure();
