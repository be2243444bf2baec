// `npm run check`: what to run before a commit. Types, lint, format, and the tests of `npm test`.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { root } from './build.mjs';

const began = performance.now();
const seconds = () => ((performance.now() - began) / 1000).toFixed(1);

/** Runs a program; its output is printed if it fails. */
async function run(name, ...args) {
  const child = spawn('npm', ['run', '--silent', ...args], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
  const [[status], ...said] = await Promise.all([once(child, 'close'), text(child.stdout), text(child.stderr)]);
  console.log(`  ${status === 0 ? 'ok ' : 'NOT'} ${name} (after ${seconds()} s)`);
  if (status === 0) return true;
  console.log(said.join(''));
  return false;
}

// What .ci/run does first; it runs all tests after it.
const isStatic = process.argv.includes('--static');
const passed = await Promise.all([
  run('types', 'typecheck'),
  run('lint', 'lint'),
  run('format', 'x', '--', 'format:check', '--cache', '--log-level=warn'),
  ...(isStatic ? [run('package', 'x', '--', 'check:package')] : []),
]);

async function runTests() {
  const tests = spawn('npm', ['test', '--silent'], { cwd: root, stdio: 'inherit' });
  const [status] = await once(tests, 'close');
  console.log(`${seconds()} s`);
  return status === 0;
}

if (!isStatic) passed.push(await runTests());
process.exitCode = passed.every(Boolean) ? 0 : 1;
