// `npm run check`: what to run before a commit, on two quiet cores in a minute and a half. Types, lint, format, the unit tests,
// and the end-to-end tests on one adapter (`ADAPTER`, Fastify by default) that take no long time. `npm test` runs all tests.
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

const passed = await Promise.all([
  run('types', 'typecheck'),
  run('lint', 'lint'),
  run('format', 'x', '--', 'format:check', '--cache', '--log-level=warn'),
]);

async function runTests() {
  process.env.ADAPTER ??= 'fastify';
  // vitest.config.ts leaves out what takes long: projects ignore `--exclude`.
  const env = { ...process.env, QUICK: '1' };
  const args = ['vitest', 'run', '--project', 'unit', '--project', 'e2e', '--reporter=minimal'];
  const tests = spawn('npx', args, { cwd: root, stdio: 'inherit', env });
  const [status] = await once(tests, 'close');
  console.log(`${seconds()} s`);
  return status === 0;
}

// What .ci/run does first; it runs all tests after it.
const isStatic = process.argv.includes('--static');
if (!isStatic) passed.push(await runTests());
process.exitCode = passed.every(Boolean) ? 0 : 1;
