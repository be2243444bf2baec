// What a user gets: packs the package, lints the tarball, installs it into fresh apps outside the repository, compiles
// them against its types and runs them. Prints the output of a step only if it fails.
import { execFile } from 'node:child_process';
import { deepEqual, ok } from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';

const root = fileURLToPath(new URL('..', import.meta.url));
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const tsc = createRequire(import.meta.url).resolve('typescript/lib/tsc.js');

/** The kinds of app that must work. `nest` is the major version of Nest. */
const CONSUMERS = [
  { name: 'ES modules, Nest 12, Express', folder: 'esm-nest-12', type: 'module', nest: 12, main: 'main.esm.ts' },
  { name: 'CommonJS, Nest 11, Express', folder: 'cjs-nest-11', type: 'commonjs', nest: 11, main: 'main.cjs.ts' },
];

const SHARED_SOURCES = ['entries.ts', 'handlers.ts', 'serve-and-call.ts'];

/** For one command; generous, since CI shares two cores. */
const STEP_TIMEOUT_MS = 240_000;

/** Runs a program. @returns its standard output @throws with all of its output */
async function run(command, args, cwd) {
  try {
    const options = { cwd, maxBuffer: 64 * 1024 * 1024, timeout: STEP_TIMEOUT_MS, killSignal: 'SIGKILL' };
    const { stdout } = await promisify(execFile)(command, args, options);
    return stdout;
  } catch (error) {
    const reason = error.killed ? `took longer than ${STEP_TIMEOUT_MS / 1000} s` : `exit ${error.code}`;
    throw new Error(`${command} ${args.join(' ')}: ${reason}\n${error.stdout ?? ''}${error.stderr ?? ''}`, {
      cause: error,
    });
  }
}

async function step(name, action) {
  const begin = performance.now();
  const result = await action();
  console.log(`  ok  ${name} (${((performance.now() - begin) / 1000).toFixed(1)} s)`);
  return result;
}

function assertNone(complaints) {
  if (complaints.length > 0) throw new Error(complaints.join('\n'));
}

/** Packs (which builds first: `prepack`). @returns the path of the tarball */
async function pack(folder) {
  const out = await run('npm', ['pack', '--json', '--pack-destination', folder], root);
  // A script's own output may come before the JSON.
  const [{ filename, files }] = Object.values(JSON.parse(out.slice(out.search(/^[[{]/m))));
  const names = files.map(({ path }) => path);
  for (const needed of ['LICENSE', 'CHANGELOG.md', 'README.md', 'dist/index.js', 'dist/index.d.ts']) {
    ok(names.includes(needed), `${needed} is not in the tarball`);
  }
  const stray = names.filter((name) => /\.spec\.|^(?:src|test|node_modules)\//.test(name));
  deepEqual(stray, [], 'files that nobody needs are in the tarball');
  return join(folder, filename);
}

async function lintTarball(tarball) {
  const data = readFileSync(tarball);
  const { messages, pkg } = await publint({ pack: { tarball: Uint8Array.from(data).buffer }, strict: true });
  const complaints = messages.filter(({ type }) => type !== 'suggestion');
  assertNone(complaints.map((message) => formatMessage(message, pkg)));
}

function writeConsumer(folder, tarball, { type, nest, main }) {
  mkdirSync(folder);
  const { '@nestjs/common': _common, '@nestjs/core': _core, ...peers } = manifest.peerDependencies;
  const dev = manifest.devDependencies;
  const dependencies = {
    ...peers,
    '@nestjs/common': `^${nest}`,
    '@nestjs/core': `^${nest}`,
    '@nestjs/platform-express': `^${nest}`,
    '@modelcontextprotocol/client': dev['@modelcontextprotocol/client'],
    '@types/node': dev['@types/node'],
    zod: dev.zod,
    [manifest.name]: `file:${tarball}`,
  };
  const compilerOptions = {
    target: 'ES2023',
    module: 'nodenext',
    types: ['node'],
    strict: true,
    experimentalDecorators: true,
    emitDecoratorMetadata: true,
    esModuleInterop: true,
    skipLibCheck: false,
    outDir: 'out',
  };
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'consumer', private: true, type, dependencies }));
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }));
  for (const file of SHARED_SOURCES) cpSync(join(root, 'test/package', file), join(folder, file));
  cpSync(join(root, 'test/package', main), join(folder, 'main.ts'));
}

/** Compiles, and checks our declarations too. What the declarations of other packages get wrong is not ours to mend. */
async function compileConsumer(folder) {
  const failure = await run(process.execPath, [tsc, '-p', '.', '--pretty', 'false'], folder).catch((error) => error);
  if (!(failure instanceof Error)) return;
  const errors = failure.message.split('\n').filter((line) => /\berror TS\d+/.test(line));
  if (errors.length === 0) throw failure;
  const isOthers = (line) => line.startsWith('node_modules/') && !line.startsWith(`node_modules/${manifest.name}/`);
  const others = errors.filter(isOthers);
  if (others.length > 0) console.log(`      (${others.length} errors in declarations of other packages, left out)`);
  assertNone(errors.filter((line) => !isOthers(line)));
}

async function runConsumer(folder) {
  const out = await run(process.execPath, ['out/main.js'], folder);
  const entries = JSON.parse(out.split('\n').find((line) => line.startsWith('[')) ?? '[]');
  const exported = Object.keys(manifest.exports).filter((name) => name !== './package.json');
  deepEqual(entries, exported, 'test/package/entries.ts imports other entries than package.json exports');
}

async function checkConsumer(folder, tarball, consumer) {
  writeConsumer(folder, tarball, consumer);
  const install = ['install', '--prefer-offline', '--no-audit', '--no-fund', '--strict-peer-deps'];
  await step(`${consumer.name}: installs`, () => run('npm', install, folder));
  await step(`${consumer.name}: compiles`, () => compileConsumer(folder));
  await step(`${consumer.name}: serves the official client`, () => runConsumer(folder));
}

const temporary = mkdtempSync(join(tmpdir(), 'check-package-'));
try {
  console.log(`${manifest.name} ${manifest.version}`);
  const tarball = await step('builds and packs', () => pack(temporary));
  await step('publint, strict', () => lintTarball(tarball));
  for (const consumer of CONSUMERS) await checkConsumer(join(temporary, consumer.folder), tarball, consumer);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
} finally {
  rmSync(temporary, { recursive: true, force: true });
}
