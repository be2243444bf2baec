import { deepEqual, ok } from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { isMade } from '../prepack.mjs';
import { assertNone, root, run, step } from './run.mjs';

export const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/** What an app downloads, and its tools look through: bytes when it is unpacked, and files. */
const MOST = { bytes: 3_000_000, files: 700 };

/** Packs into a folder, and checks what is in the tarball. @returns its path */
export async function makeTarball(folder) {
  const tarball = await step('builds and packs', () => pack(folder));
  await step('publint, strict', () => lint(tarball));
  await step('errors name lines that can be read', () => checkFrames(tarball, folder));
  await step('attw: types of all entries, in all module systems', () => checkTypes(tarball));
  return tarball;
}

/** Builds first: `prepack`. @returns the path of the tarball */
export async function pack(folder) {
  const out = await run('npm', ['pack', '--json', '--pack-destination', folder]);
  // A script's own output may come before the JSON.
  const [{ filename, files, unpackedSize }] = Object.values(JSON.parse(out.slice(out.search(/^[[{]/m))));
  const names = files.map(({ path }) => path);
  console.log(`      (${unpackedSize} bytes in ${names.length} files)`);
  ok(unpackedSize <= MOST.bytes, `the package has ${unpackedSize} bytes, more than ${MOST.bytes}`);
  ok(names.length <= MOST.files, `the package has ${names.length} files, more than ${MOST.files}`);
  for (const needed of ['LICENSE', 'CHANGELOG.md', 'README.md', 'docs/agents.md', 'dist/index.js', 'dist/index.d.ts']) {
    ok(names.includes(needed), `${needed} is not in the tarball`);
  }
  // dist keeps what earlier builds have made: each file that is packed must be made by one of the sources.
  const isOurs = (name) => name.startsWith('dist/') && isMade(name.slice('dist/'.length));
  const isText = (name) => ['LICENSE', 'CHANGELOG.md', 'README.md', 'docs/agents.md', 'package.json'].includes(name);
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

/**
 * Debuggers show the JavaScript, with its comments: the package has no source maps, which are larger than the rest of it. So no file may
 * name one, and the frames of an error are lines of the package.
 */
async function checkFrames(tarball, folder) {
  const unpacked = mkdtempSync(join(folder, 'unpacked-'));
  try {
    await run('tar', ['-xzf', tarball, '-C', unpacked]);
    symlinkSync(join(root, 'node_modules'), join(unpacked, 'node_modules'));
    const dist = join(unpacked, 'package/dist');
    const sources = readdirSync(dist, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.js'));
    const mapped = sources.filter((name) => readFileSync(join(dist, name), 'utf8').includes('//# sourceMappingURL='));
    assertNone(mapped.map((name) => `${name} names a source map, which is not in the package`));
    const program = `
      import { McpStreamableModule } from './package/dist/index.js';
      try {
        McpStreamableModule.forRoot({ serverInfo: { name: 'orders', version: '1.0.0' }, path: 7 });
      } catch (error) {
        console.log(error.stack);
      }`;
    const options = ['--enable-source-maps', '--input-type=module', '--eval', program];
    const stack = await run(process.execPath, options, { cwd: unpacked });
    const frames = [...stack.matchAll(/at (?:new )?(?:\w+\.)*\w+ \((file:.+):(\d+):(\d+)\)/g)];
    ok(frames.length > 1, `an error has no frames in the package:\n${stack}`);
    for (const [frame, url, line, column] of frames) {
      const text = readFileSync(fileURLToPath(url), 'utf8').split('\n')[line - 1];
      ok(/^(?:new |throw |super|[\w.#]+\()/.test(text.slice(column - 1)), `the line of "${frame}" is "${text}"`);
    }
  } finally {
    rmSync(unpacked, { recursive: true, force: true });
  }
}

/** `cjs-resolves-to-esm` is how the package works: CommonJS loads ES modules with `require`, on each version of Node that it takes. */
function checkTypes(tarball) {
  const attw = join(root, 'node_modules/@arethetypeswrong/cli/dist/index.js');
  return run(process.execPath, [attw, tarball, '--ignore-rules', 'cjs-resolves-to-esm', '--no-emoji', '--no-color']);
}
