// Runs the client scenarios of the official conformance suite against test/conformance/client.ts. What is required must pass,
// without warnings; extensions are run by the suite for information only.
import { build } from './build.mjs';
import { installSuite, runSuite } from './conformance-suite.mjs';

/** Arguments of the suite, and how many scenarios must pass. */
const RUNS = [
  { args: ['--suite', 'core'], scenarios: 18 },
  { args: ['--requirements', '2026-07-28'], scenarios: 32 },
];
/** Milliseconds. The suite starts up to 39 clients at once, however few the cores; each must load its modules. */
const TIMEOUT = 120_000;

/** @returns what was wrong */
async function judge({ args, scenarios }) {
  // What `npm run x -- conformance:client` is, without an npm and a build for each scenario.
  const command = 'node build/conformance/client.js';
  const { status, output } = await runSuite('client', '--command', command, '--timeout', String(TIMEOUT), ...args);
  const summary = output.slice(output.indexOf('=== SUITE SUMMARY ==='));
  const passed = [...summary.matchAll(/^✓ ([\w/-]+): \d+ passed, 0 failed/gm)].map(([, name]) => name);
  const total = /^Total: .*$/m.exec(summary)?.[0] ?? 'no total';
  console.log(`client ${args.join(' ')}: ${passed.length} scenarios passed. ${total}`);
  const warned = /[1-9]\d* warnings?\b/i.test(total);
  if (status === 0 && passed.length >= scenarios && !warned) return [];
  process.stderr.write(output);
  return [args.join(' ')];
}

installSuite();
await build('test/conformance/tsconfig.build.json');
const wrong = [];
for (const run of RUNS) wrong.push(...(await judge(run)));
if (wrong.length > 0) throw new Error(`Conformance of the client: ${wrong.join('; ')}`);
