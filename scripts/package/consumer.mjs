// A fresh app outside the repository that installs the tarball: its sources are those of test/package.
import { cpSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { assertNone, install, root, run } from './run.mjs';
import { manifest } from './tarball.mjs';

const sources = join(root, 'test/package');
/** The newest, TypeScript 7. That of `nest new`, 6, compiles the apps that it makes. */
const newestTsc = createRequire(import.meta.url)
  .resolve('@typescript/native/package.json')
  .replace(/package\.json$/, 'bin/tsc');

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

/** What is compiled with the oldest compiler too: all entries, but not what other packages have for servers and clients. */
const oldest = {
  extends: './tsconfig.json',
  compilerOptions: { noEmit: true },
  include: ['entries.ts', 'handlers.ts', 'types.ts'],
};

/** The resolution that does not know `exports`, where `typesVersions` finds the entries. Other packages may lack that. */
const node10 = {
  extends: './tsconfig.oldest.json',
  compilerOptions: { module: 'commonjs', moduleResolution: 'node10', skipLibCheck: true },
};

/**
 * @param consumer its `type` as in package.json, and `main` among the sources; `nest`, a major version of which the oldest that the
 *   package allows is installed, or the `newest`; or `versions` of some packages by their name
 */
export function writeConsumer(folder, tarball, { type, main, ...consumer }) {
  mkdirSync(folder);
  const json = { name: 'consumer', private: true, type, dependencies: dependencies(tarball, consumer) };
  writeFileSync(join(folder, 'package.json'), JSON.stringify(json));
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }));
  writeFileSync(join(folder, 'tsconfig.oldest.json'), JSON.stringify(oldest));
  writeFileSync(join(folder, 'tsconfig.node10.json'), JSON.stringify(node10));
  const shared = readdirSync(sources).filter((file) => !file.startsWith('main.'));
  for (const file of shared) cpSync(join(sources, file), join(folder, file));
  cpSync(join(sources, main), join(folder, 'main.ts'));
}

const { peerDependencies: peers, devDependencies: dev } = manifest;

function dependencies(tarball, { nest, newest, versions }) {
  return {
    ...peers,
    ...(nest && (newest ? newestNest(nest) : oldestNest(nest))),
    '@modelcontextprotocol/client': dev['@modelcontextprotocol/client'],
    '@modelcontextprotocol/sdk': dev['@modelcontextprotocol/sdk'],
    '@types/express': dev['@types/express'],
    '@types/node': dev['@types/node'],
    'expect-type': dev['expect-type'],
    zod: dev.zod,
    ...versions,
    [manifest.name]: `file:${tarball}`,
  };
}

const NEST = ['common', 'core', 'platform-express', 'platform-fastify', 'terminus'].map((name) => `@nestjs/${name}`);
const SDK = ['server', 'client', 'sdk'].map((name) => `@modelcontextprotocol/${name}`);

function newestNest(major) {
  return Object.fromEntries(NEST.map((name) => [name, `^${major}`]));
}

/** The first version of a major that the range of the package, such as `^11.1.0 || ^12.0.0`, allows. */
function oldestNest(major) {
  const [, allowed] = peers['@nestjs/core'].match(new RegExp(`\\^(${major}\\.\\S+)`));
  // npm refuses core 12.0.0, which names Nest 11 as its peer.
  const version = allowed === '12.0.0' ? '12.0.1' : allowed;
  const names = NEST.filter((name) => name !== '@nestjs/terminus');
  return { ...newestNest(major), ...Object.fromEntries(names.map((name) => [name, version])) };
}

/**
 * The versions of Nest and the SDK that have a tag on npm, where it is `latest` or newer than that; else the latest.
 *
 * @returns nothing if there is no version with the tag
 */
export async function versionsTagged(tag) {
  const tagged = await Promise.all(
    [...NEST, ...SDK].map(async (name) => {
      const tags = JSON.parse(await run('npm', ['view', name, 'dist-tags', '--json']));
      const has = tag in tags && (tag === 'latest' || isNewer(tags[tag], tags.latest));
      return { name, has, version: has ? tags[tag] : tags.latest };
    }),
  );
  if (!tagged.some(({ has }) => has)) return undefined;
  return Object.fromEntries(tagged.map(({ name, version }) => [name, version]));
}

/** A tag may be left on a version that was released since. */
function isNewer(version, other) {
  const [own, others] = [version, other].map((each) => each.split('-')[0].split('.').map(Number));
  const at = own.findIndex((part, index) => part !== others[index]);
  return at >= 0 && own[at] > others[at];
}

/** @returns the compiler of a minor version, installed into a folder */
export async function findTypeScript(version, folder) {
  mkdirSync(folder);
  const dependencies = { typescript: `~${version}.0` };
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'compiler', private: true, dependencies }));
  await install(folder);
  return join(folder, 'node_modules/typescript/lib/tsc.js');
}

/** Compiles, and checks our declarations too. What the declarations of other packages get wrong is not ours to mend. */
export async function compileConsumer(folder, { tsc = newestTsc, project = '.' } = {}) {
  const args = [tsc, '-p', project, '--pretty', 'false'];
  const failure = await run(process.execPath, args, { cwd: folder }).catch((error) => error);
  if (!(failure instanceof Error)) return;
  const errors = failure.message.split('\n').filter((line) => /\berror TS\d+/.test(line));
  if (errors.length === 0) throw failure;
  const isOthers = (line) => line.startsWith('node_modules/') && !line.startsWith(`node_modules/${manifest.name}/`);
  const others = errors.filter(isOthers);
  if (others.length > 0) console.log(`      (${others.length} errors in declarations of other packages, left out)`);
  assertNone(errors.filter((line) => !isOthers(line)));
}
