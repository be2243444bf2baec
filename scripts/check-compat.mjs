// What a user gets: packs the package, installs the tarball into a fresh app of each kind outside the repository, compiles it
// against our types, and runs it on both adapters under each version of Node, where the official clients call it.
// Tests of each app that call without a port pass with node:test. Does the same with the apps of `nest new` and of Nx, by each
// builder and test runner. Prints a line for each combination, and the output of a step only if it fails.
//
// `node scripts/check-compat.mjs nx nest-11` checks only what it names: cjs-nest-11, cjs-nest-11-newest, esm-nest-12,
// esm-nest-12-newest, nest-11, nest-12, nx. Only if they are named, `latest` and `next` check the versions of Nest and of the SDK
// that have this tag on npm, whatever the package allows: .github/workflows/canary.yml does so.
import { deepEqual } from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addBuilders, waysToBuild, waysToTest } from './package/builders.mjs';
import { compileConsumer, findTypeScript, versionsTagged, writeConsumer } from './package/consumer.mjs';
import { addNotesAndSwc, testByJest, testErrors, useSwc } from './package/jest-app.mjs';
import {
  makeCommonJsApp,
  makeNestApp,
  startNestApp,
  testAsModules,
  testNatively,
  testNestApp,
} from './package/nest-app.mjs';
import { findNodes } from './package/nodes.mjs';
import { makeNxWorkspace, waysOfNx } from './package/nx-app.mjs';
import { forJest, forJestWithSwc } from './package/pages.mjs';
import { addPackage, install, run, step } from './package/run.mjs';
import { makeTarball, manifest } from './package/tarball.mjs';

/** The kinds of app that must work: on the oldest Nest of each major version that the package allows, and on the newest. */
const CONSUMERS = [
  { name: 'Nest 11, CommonJS', folder: 'cjs-nest-11', type: 'commonjs', nest: 11, main: 'main.cjs.ts' },
  { name: 'Nest 12, ES modules', folder: 'esm-nest-12', type: 'module', nest: 12, main: 'main.esm.ts' },
].flatMap((oldest) => [oldest, { ...oldest, folder: `${oldest.folder}-newest`, newest: true }]);
/** Tags of npm. */
const CANARIES = ['latest', 'next'];
const ADAPTERS = ['express', 'fastify'];
/** Major versions: the running one, or from npm. */
const NODES = [20, 22, 24, 26];
/** From here on jest loads ES modules by itself. */
const JEST_NATIVE = 24;
/** The lower bound that the README states. */
const OLDEST_TYPESCRIPT = '5.8';
/** The major versions of `nest new`, which installs the newest Nest of each. */
const NEST_NEW = [11, 12];

/** Who calls the tools of each app, in which revision: as test/package/main.*.ts reports. */
const CALLS = ['client 2025-11-25', 'client 2026-07-28', 'sdk 2025-11-25'];

/** OpenTelemetry without code, as its documentation has it: it patches what CommonJS and ES modules load. */
const HOOKS = {
  commonjs: ['--require', '@opentelemetry/auto-instrumentations-node/register'],
  module: [
    '--import',
    '@opentelemetry/auto-instrumentations-node/register',
    '--experimental-loader',
    '@opentelemetry/instrumentation/hook.mjs',
  ],
};
const NO_EXPORT = Object.fromEntries(['TRACES', 'METRICS', 'LOGS'].map((kind) => [`OTEL_${kind}_EXPORTER`, 'none']));
/** Where \`require()\` of a hooked ES module has failed. */
const HOOKED_NODE = 24;

/** Runs an app. @throws unless all of its entries load, and all of the official clients were served */
async function serve(folder, node, adapter, hook = []) {
  const env = { ...process.env, ...NO_EXPORT, ADAPTER: adapter };
  const out = await run(node, [...hook, 'out/main.js'], { cwd: folder, env });
  const report = JSON.parse(out.split('\n').find((line) => line.startsWith('{')) ?? '{}');
  const entries = Object.keys(manifest.exports).filter((name) => name !== './package.json');
  deepEqual(report, { node: report.node, adapter, entries, calls: CALLS }, `${adapter}: ${out}`);
  return report.node;
}

/** One combination. @returns a row of the table; its failure was printed */
async function tryOut(app, folder, major, node, adapter) {
  const row = { app, node: `${major}`, adapter };
  try {
    const version = await serve(folder, node, adapter);
    return { ...row, node: version, result: 'ok' };
  } catch (error) {
    console.error(`\n${row.app}, Node ${major}, ${adapter}:\n${error.message}`);
    return { ...row, result: 'FAILED' };
  }
}

/** One kind of app: installed and compiled once, run in all combinations; on newer versions of Nest on the edges of Node. */
async function tryConsumer(consumer, folder, tarball, nodes, oldest) {
  const isOldest = consumer.nest && !consumer.newest;
  writeConsumer(folder, tarball, consumer);
  await step(`${consumer.name}: installs`, () => install(folder, consumer.versions && '--force'));
  const name = `${consumer.name} (${versionOf(folder, '@nestjs/core')})`;
  await step(`${name}: compiles`, () => compileConsumer(folder));
  if (isOldest) {
    await step(`${name}: compiles with TypeScript ${OLDEST_TYPESCRIPT}`, () =>
      compileConsumer(folder, { tsc: oldest, project: 'tsconfig.oldest.json' }),
    );
  }
  if (isOldest && consumer.type === 'commonjs') {
    await step(`${name}: finds the types of all entries with moduleResolution node10`, () =>
      compileConsumer(folder, { tsc: oldest, project: 'tsconfig.node10.json' }),
    );
  }
  const rows = [];
  for (const [major, node] of nodes) {
    if (!isOldest && ![NODES[0], NODES.at(-1)].includes(major)) continue;
    await step(`${name}, Node ${major}: its tests pass with node:test`, () =>
      run(node, ['--test', 'out/kit.test.js', 'out/nest.test.js'], { cwd: folder }),
    );
    for (const adapter of ADAPTERS) rows.push(await tryOut(name, folder, major, node, adapter));
  }
  if (isOldest) {
    const [adapter] = ADAPTERS;
    await step(`${name}, Node ${HOOKED_NODE}: is called under the loader hook of OpenTelemetry`, async () => {
      await addPackage(folder, '@opentelemetry/auto-instrumentations-node');
      await serve(folder, nodes.get(HOOKED_NODE), adapter, HOOKS[consumer.type]);
    });
  }
  return rows;
}

/** Versions that have a tag on npm. */
async function tryTagged(tag, folder, ...rest) {
  const versions = await versionsTagged(tag);
  if (!versions) return console.log(`  --  No newer version of Nest and of the SDK has the tag "${tag}".`);
  console.log(
    `  --  "${tag}": ${Object.entries(versions)
      .map((each) => each.join(' '))
      .join(', ')}`,
  );
  const consumer = { name: `Nest and SDK "${tag}"`, type: 'module', main: 'main.esm.ts', versions };
  return tryConsumer(consumer, folder, ...rest);
}

/** An app of `nest new`: made and built once, tested and started on each version of Node. */
async function tryNestNew(nest, folder, tarball, nodes) {
  const newest = nodes.get(NODES.at(-1));
  const app = await step(`nest new ${nest}: is made and builds`, () => makeNestApp(folder, nest, newest, tarball));
  for (const [major, node] of nodes) {
    await step(`nest new ${nest}, Node ${major}: starts`, () => startNestApp(app, node));
    await step(`nest new ${nest}, Node ${major}: its tests pass`, () => testNestApp(app, nest, node));
  }
  if (nest === 11) await tryOtherJest(app, nodes);
  await step(`nest new ${nest}: builders are installed`, () => addBuilders(app, nest));
  const edges = { oldest: nodes.get(NODES[0]), newest };
  for (const { name, build } of waysToBuild(app, nest, edges)) {
    await step(`nest new ${nest}, ${name}: builds, starts and is called, Node ${NODES[0]} and ${NODES.at(-1)}`, build);
  }
  for (const { name, test } of waysToTest(app, nest, edges)) {
    await step(`nest new ${nest}, ${name}: its tests pass, Node ${NODES[0]} and ${NODES.at(-1)}`, test);
  }
  if (nest === 11) {
    await step('nest new 11: errors of jest name what its line lacks', () => testErrors(app, edges.oldest, forJest));
  }
}

/** Nest 12 in CommonJS: as it is made, where jest loads ES modules by itself; with SWC on each version of Node. */
async function tryCommonJs12(folder, tarball, nodes) {
  const made = 'nest new 12, CommonJS';
  const app = await step(`${made}: is made and builds`, () =>
    makeCommonJsApp(folder, nodes.get(NODES.at(-1)), tarball),
  );
  await step(`${made}: jose and SWC are installed`, () => addNotesAndSwc(app));
  for (const [major, node] of nodes) {
    if (major < JEST_NATIVE) continue;
    await step(`${made}, Node ${major}: its tests pass untransformed`, () =>
      testByJest(app, node, '--experimental-vm-modules'),
    );
  }
  useSwc(app);
  for (const [major, node] of nodes) {
    await step(`${made}, Node ${major}: its tests pass with SWC`, () => testByJest(app, node));
  }
  await step(`${made}: errors of jest name what its line lacks`, () =>
    testErrors(app, nodes.get(NODES[0]), forJestWithSwc),
  );
}

/** Jest in ES modules, and without the line that transforms this package. */
async function tryOtherJest(app, nodes) {
  for (const [major, node] of nodes) {
    await step(`nest new 11, Node ${major}: its unit test passes in ES modules`, () => testAsModules(app, node));
  }
  const last = NODES.at(-1);
  await step(`nest new 11, Node ${last}: its tests pass untransformed`, () => testNatively(app, nodes.get(last)));
}

/** A workspace of Nx with an app of Nest: made once, built in each way. */
async function tryNx(folder, tarball, nodes) {
  const newest = nodes.get(NODES.at(-1));
  const workspace = await step('Nx: a workspace is made', () => makeNxWorkspace(folder, newest, tarball));
  for (const { name, action } of waysOfNx(workspace, { oldest: nodes.get(NODES[0]), newest })) {
    await step(`Nx, ${name}: works, Node ${NODES[0]} and ${NODES.at(-1)}`, action);
  }
}

function versionOf(folder, name) {
  return JSON.parse(readFileSync(join(folder, 'node_modules', name, 'package.json'), 'utf8')).version;
}

/** @returns the results of all, once all have come to an end: then their folders can go @throws what the first one threw */
async function all(promises) {
  const results = await Promise.allSettled(promises);
  for (const { status, reason } of results) if (status === 'rejected') throw reason;
  return results.map(({ value }) => value);
}

function print(rows) {
  const columns = ['app', 'node', 'adapter', 'result'];
  const widths = columns.map((column) =>
    Math.max(...[column, ...rows.map((row) => row[column])].map(({ length }) => length)),
  );
  const line = (cells) => `| ${cells.map((cell, at) => cell.padEnd(widths[at])).join(' | ')} |`;
  console.log(`\nCalled by each: ${CALLS.join(', ')}\n`);
  console.log(line(columns));
  console.log(line(widths.map((width) => '-'.repeat(width))));
  for (const row of rows) console.log(line(columns.map((column) => row[column])));
}

const wanted = process.argv.slice(2);
const isWanted = (name) => wanted.length === 0 || wanted.includes(name);
const temporary = mkdtempSync(join(tmpdir(), 'check-compat-'));
try {
  console.log(`${manifest.name} ${manifest.version}`);
  const [tarball, nodes, oldest] = await all([
    makeTarball(temporary),
    findNodes(NODES, join(temporary, 'nodes')),
    findTypeScript(OLDEST_TYPESCRIPT, join(temporary, 'typescript')),
  ]);
  // All at once: while one waits for npm, the others compile.
  const tried = CONSUMERS.filter(({ folder }) => isWanted(folder)).map((consumer) =>
    tryConsumer(consumer, join(temporary, consumer.folder), tarball, nodes, oldest),
  );
  const made = NEST_NEW.filter((nest) => isWanted(`nest-${nest}`)).map((nest) =>
    tryNestNew(nest, join(temporary, `nest-new-${nest}`), tarball, nodes),
  );
  if (isWanted('nest-12')) made.push(tryCommonJs12(join(temporary, 'nest-new-12-commonjs'), tarball, nodes));
  const tagged = CANARIES.filter((tag) => wanted.includes(tag));
  made.push(...tagged.map((tag) => tryTagged(tag, join(temporary, tag), tarball, nodes, oldest)));
  if (isWanted('nx')) made.push(tryNx(join(temporary, 'nx'), tarball, nodes));
  const rows = (await all([...tried, ...made])).flat().filter((row) => row !== undefined);
  if (rows.length > 0) print(rows);
  if (rows.some(({ result }) => result !== 'ok')) process.exitCode = 1;
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
} finally {
  rmSync(temporary, { recursive: true, force: true });
}
