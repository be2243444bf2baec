// Builds ours, the bench and its peers, then runs the bench on Node.js 24: `npm run bench -- --quick`. See bench/README.md.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { build, root } from './build.mjs';
import { isInstalled } from './installed.mjs';
import { installNode } from './node-of-npm.mjs';

const peers = join(root, 'bench/peers');
const SILENT = ['--prefer-offline', '--no-audit', '--no-fund'];

function must(command, args, options = {}) {
  const { status, signal } = spawnSync(command, args, { cwd: root, stdio: 'inherit', ...options });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${signal ?? status}`);
}

/** Looks at what runs have found. @returns the exit code: 1 if they are too far apart */
async function compare() {
  const script = 'build/bench/compare.js';
  if (!existsSync(join(root, script))) await build('bench/tsconfig.build.json');
  return spawnSync(process.execPath, [script, ...process.argv.slice(2)], { cwd: root, stdio: 'inherit' }).status ?? 1;
}

async function measure() {
  console.log(
    'Builds, and installs the peers if they are missing: a minute at most; then the benchmark prints its duration.',
  );
  if (!isInstalled(peers)) must('npm', ['ci', ...SILENT], { cwd: peers });
  // Builds are the same whatever Node.js makes them; what is measured is the run alone.
  await build('bench/tsconfig.build.json', 'bench/peers/tsconfig.json');
  const { askedFor, binaryOf } = await import('../build/bench/harness/node-binary.js');
  const { major, rest } = askedFor(process.argv.slice(2));
  const { path, notice } = binaryOf(major, process, installNode);
  if (notice) console.warn(notice);
  // Servers run on core 0 (bench/harness/cores.ts), the load on core 1.
  const pinned = cpus().length > 1 && spawnSync('taskset', ['--version']).status === 0;
  const node = [path, '--enable-source-maps', 'build/bench/run.js', ...rest];
  const [command, ...args] = pinned ? ['taskset', '-c', '1', ...node] : node;
  must(command, args);
}

if (process.argv.includes('--compare')) process.exitCode = await compare();
else await measure();
