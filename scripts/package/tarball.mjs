import { deepEqual, equal, ok } from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { assertNone, root, run, step } from './run.mjs';

export const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/** What an app downloads, and its tools look through: bytes when it is unpacked, and files. */
const MOST = { bytes: 3_000_000, files: 500 };
const entries = Object.entries(manifest.exports).filter(([, entry]) => typeof entry === 'object');

/** Packs into a folder, and checks what is in the tarball. @returns its path */
export async function makeTarball(folder) {
  const tarball = await step('builds and packs', () => pack(folder));
  await step('publint, strict', () => lint(tarball));
  const unpacked = await unpack(tarball, folder);
  await step('errors name lines that can be read', () => checkFrames(unpacked));
  await step('functions and classes have their names', () => checkNames(unpacked));
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
  const programs = entries.map(([, entry]) => entry.default.replace('./', ''));
  const isOurs = (name) =>
    programs.includes(name) || /^dist\/chunks\/[\w.-]+\.js$|^dist\/.+\.(?:d\.c?ts|cjs)$/.test(name);
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

/** @returns a folder with the folder `package`, which finds the packages of the repository */
async function unpack(tarball, folder) {
  const unpacked = mkdtempSync(join(folder, 'unpacked-'));
  await run('tar', ['-xzf', tarball, '-C', unpacked]);
  symlinkSync(join(root, 'node_modules'), join(unpacked, 'node_modules'));
  return unpacked;
}

/** @returns the code of each program */
function programsIn(unpacked) {
  const dist = join(unpacked, 'package/dist');
  const names = readdirSync(dist, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.js'));
  return names.map((name) => ({ name, code: readFileSync(join(dist, name), 'utf8') }));
}

/**
 * Debuggers show the JavaScript, with its comments: the package has no source maps, which are larger than the rest of it. So no file may
 * name one, and the frames of an error are lines of the package.
 */
async function checkFrames(unpacked) {
  const programs = programsIn(unpacked);
  const mapped = programs.filter(({ code }) => code.includes('//# sourceMappingURL='));
  assertNone(mapped.map(({ name }) => `${name} names a source map, which is not in the package`));
  // The line above each module in a file of many.
  const marks = programs.flatMap(({ code }) => code.match(/^\/\/ [\w/.-]+\.js$/gm) ?? []);
  ok(marks.includes('// core/http/responder.js'), 'no comment names the module of a line');
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
}

/**
 * Two functions of one name get two names where their modules lie in one file: stack traces show those, and they are found in the file. But
 * Nest prints the names of classes, and apps those of what they import.
 */
async function checkNames(unpacked) {
  const RENAMED = /\bclass (\w+)\$\d+/g;
  const renamed = programsIn(unpacked).flatMap(({ name, code }) =>
    Array.from(code.matchAll(RENAMED), ([, shared]) => `${name}: two classes have the name ${shared}`),
  );
  assertNone(renamed);
  const program = `
    const entries = ${JSON.stringify(entries.map(([, entry]) => entry.default))};
    for (const entry of entries) {
      for (const [name, value] of Object.entries(await import(new URL('package/' + entry, 'file://' + process.cwd() + '/')))) {
        if (/\\$\\d+$/.test(value?.name)) console.log(entry + ' exports ' + value.name + ' as ' + name);
      }
    }`;
  equal(await run(process.execPath, ['--input-type=module', '--eval', program], { cwd: unpacked }), '');
}

/** The claims of the test hold for what is published, too. */
export async function checkLoaded(tarball, folder) {
  const unpacked = await unpack(tarball, folder);
  const vitest = join(root, 'node_modules/vitest/vitest.mjs');
  const env = { ...process.env, PACKED: join(unpacked, 'package/dist') };
  return run(process.execPath, [vitest, 'run', 'test/architecture/loaded.spec.ts'], { env });
}

/** `cjs-resolves-to-esm` is how the package works: CommonJS loads ES modules with `require`, on each version of Node that it takes. */
function checkTypes(tarball) {
  const attw = join(root, 'node_modules/@arethetypeswrong/cli/dist/index.js');
  return run(process.execPath, [attw, tarball, '--ignore-rules', 'cjs-resolves-to-esm', '--no-emoji', '--no-color']);
}
