import { deepEqual, ok } from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { isMade } from '../build.mjs';
import { assertNone, root, run, step } from './run.mjs';

export const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/** Packs into a folder, and checks what is in the tarball. @returns its path */
export async function makeTarball(folder) {
  const tarball = await step('builds and packs', () => pack(folder));
  await step('publint, strict', () => lint(tarball));
  await step('attw: types of all entries, in all module systems', () => checkTypes(tarball));
  return tarball;
}

/** Builds first: `prepack`. @returns the path of the tarball */
export async function pack(folder) {
  const out = await run('npm', ['pack', '--json', '--pack-destination', folder]);
  // A script's own output may come before the JSON.
  const [{ filename, files }] = Object.values(JSON.parse(out.slice(out.search(/^[[{]/m))));
  const names = files.map(({ path }) => path);
  for (const needed of ['LICENSE', 'CHANGELOG.md', 'README.md', 'AGENTS.md', 'dist/index.js', 'dist/index.d.ts']) {
    ok(names.includes(needed), `${needed} is not in the tarball`);
  }
  // dist keeps what earlier builds have made: each file that is packed must be made by one of the sources.
  const isOurs = (name) => name.startsWith('dist/') && isMade(name.slice('dist/'.length), 'src');
  const isText = (name) => ['LICENSE', 'CHANGELOG.md', 'README.md', 'AGENTS.md', 'package.json'].includes(name);
  const stray = names.filter((name) => !isText(name) && (!isOurs(name) || name.includes('.spec.')));
  deepEqual(stray, [], 'files that nobody needs are in the tarball');
  return join(folder, filename);
}

async function lint(tarball) {
  const data = readFileSync(tarball);
  const { messages, pkg } = await publint({ pack: { tarball: Uint8Array.from(data).buffer }, strict: true });
  const complaints = messages.filter(({ type }) => type !== 'suggestion');
  assertNone(complaints.map((message) => formatMessage(message, pkg)));
}

/** `cjs-resolves-to-esm` is how the package works: CommonJS loads ES modules with `require`, on each version of Node that it takes. */
function checkTypes(tarball) {
  const attw = join(root, 'node_modules/@arethetypeswrong/cli/dist/index.js');
  return run(process.execPath, [attw, tarball, '--ignore-rules', 'cjs-resolves-to-esm', '--no-emoji', '--no-color']);
}
