// Runs the official conformance suite against test/conformance/server.ts, on both adapters. Any failure or warning fails.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { build, root } from './build.mjs';
import { installSuite, runSuite } from './conformance-suite.mjs';
import { freePort } from './package/program.mjs';

/** What the server must pass: arguments of the suite. */
const RUNS = [
  ['--suite', 'all', '--spec-version', '2025-06-18'],
  ['--suite', 'all', '--spec-version', '2025-11-25'],
  ['--suite', 'all', '--spec-version', '2026-07-28'],
  ['--requirements', '2025-11-25'],
  ['--requirements', '2026-07-28'],
];

/** Scenarios of extensions, which no suite has. Of those for tasks the tenth, `tasks-status-notifications`, skips itself. */
const EXTENSIONS = [
  'tasks-lifecycle',
  'tasks-capability-negotiation',
  'tasks-wire-fields',
  'tasks-request-state-removal',
  'tasks-mrtr-input',
  'tasks-mrtr-composition',
  'tasks-request-headers',
  'tasks-required-task-error',
  'tasks-dispatch-and-envelope',
  'sep-2640-skills-enumeration',
  'sep-2640-skills-manifest',
  'sep-2640-skills-directory',
];

async function start(adapter) {
  const port = await freePort();
  const env = { ...process.env, PORT: String(port), ADAPTER: adapter };
  const child = spawn(process.execPath, ['build/conformance/server.js'], { cwd: root, env, stdio: 'inherit' });
  const url = `http://127.0.0.1:${port}/mcp`;
  for (let attempt = 0; attempt < 600; attempt++) {
    if (child.exitCode !== null) throw new Error(`The server ended with ${child.exitCode}.`);
    // Any answer will do: it listens.
    if (await fetch(url, { method: 'DELETE' }).catch(() => undefined)) return { child, url };
    await delay(100);
  }
  child.kill();
  throw new Error('The server did not start.');
}

/** Extensions that the server does not declare are run by the suite, and not scored: of their failures it says so itself. */
function failedOf(output) {
  const [scored = '', unscored = ''] = output.split(/^Not scored for .*$/m);
  const failed = scored.matchAll(/^✗ (\S+):/gm);
  return [...failed].map(([, scenario]) => scenario).filter((name) => !unscored.includes(`✗ ${name} (extension)`));
}

/** @returns what was wrong */
async function judge(adapter, url, args) {
  const { status, output } = await runSuite('server', '--url', url, ...args);
  const passed = [...output.matchAll(/^✓ (\S+): [1-9]\d* passed, 0 failed/gm)].length;
  const failed = failedOf(output);
  const warned = /[1-9]\d* warnings?\b|⚠/i.test(output);
  const total = /^Total: .*$/m.exec(output)?.[0] ?? 'no total';
  const label = `${adapter} ${args.join(' ')}`;
  console.log(`${label}: ${passed} scenarios passed, ${failed.length} failed (${total})`);
  if (status === 0 && passed > 0 && failed.length === 0 && !warned) return [];
  process.stderr.write(output);
  return [label];
}

/** @returns what was wrong */
async function judgeScenario(adapter, url, name) {
  const { status, output } = await runSuite('server', '--url', url, '--scenario', name);
  const result = /^Passed: .*$/m.exec(output)?.[0] ?? 'no result';
  console.log(`${adapter} ${name}: ${result}`);
  if (status === 0 && /^Passed: ([1-9]\d*)\/\1, 0 failed, 0 warnings$/.test(result)) return [];
  process.stderr.write(output);
  return [`${adapter} ${name}`];
}

async function check(adapter) {
  const { child, url } = await start(adapter);
  const wrong = [];
  try {
    for (const args of RUNS) wrong.push(...(await judge(adapter, url, args)));
    for (const name of EXTENSIONS) wrong.push(...(await judgeScenario(adapter, url, name)));
  } finally {
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
  }
  return wrong;
}

installSuite();
await build('test/conformance/tsconfig.build.json');
const wrong = (await Promise.all(['express', 'fastify'].map(check))).flat();
if (wrong.length > 0) throw new Error(`Conformance: ${wrong.join('; ')}`);
