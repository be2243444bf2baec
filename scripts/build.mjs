// `tsc --build` of the named projects: `node scripts/build.mjs src/tsconfig.build.json`. What is up to date is not written again,
// and nothing is deleted, so that servers that run from here go on. Builds of one checkout wait for each other: a program
// that is started beside a build must not load a file that is half written.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { buildLivePage } from './live-page.mjs';

export const root = fileURLToPath(new URL('..', import.meta.url));
/** TypeScript 7, by its path: TypeDoc and tests need the API of TypeScript 6, which brings a `tsc` of its own. */
const tsc = join(root, 'node_modules/@typescript/native/bin/tsc');
export const dist = join(root, 'dist');
/** Where the result of the compiler waits while npm packs: `dist` is what is published then. */
export const plainDist = join(root, 'build/dist');
/** Holds the pid of the build that runs, or what says that npm packs. */
const lock = join(root, 'build/.lock');
const NPM = 'npm';
/** It takes a second. An npm that was killed leaves the lock behind. */
const PACKING_MS = 20_000;
/** Examples have a package.json of their own: compiler, linter and editor look for this package where npm would put it. */
const link = join(root, 'examples/node_modules/nestjs-mcp-streamable');

/** @throws when there is an error in the sources, which was printed */
export async function build(...projects) {
  await acquire();
  try {
    await compile(...projects);
  } finally {
    release();
  }
}

/** Builds while this process holds the lock. */
export async function compile(...projects) {
  putBack();
  linkForExamples();
  const { status, signal } = spawnSync(process.execPath, [tsc, '--build', ...projects], {
    cwd: root,
    // The program that is started next may speak a protocol on stdout.
    stdio: ['ignore', 2, 2],
  });
  if (status !== 0) throw new Error(`tsc --build ${projects.join(' ')} ended with ${signal ?? status}`);
  await buildLivePage();
}

/** Makes `dist` the result of the compiler again. @returns whether it was not */
export function putBack() {
  if (!existsSync(plainDist)) return false;
  rmSync(dist, { recursive: true, force: true });
  renameSync(plainDist, dist);
  return true;
}

function linkForExamples() {
  if (existsSync(link)) return;
  // One that leads nowhere does not exist, but is there.
  rmSync(link, { force: true });
  mkdirSync(dirname(link), { recursive: true });
  // Relative, so that a copy of the repository links itself; Windows makes it absolute.
  symlinkSync(relative(dirname(link), root), link, 'junction');
}

export async function acquire() {
  mkdirSync(join(root, 'build'), { recursive: true });
  for (;;) {
    try {
      writeFileSync(lock, String(process.pid), { flag: 'wx' });
      return;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    if (isAbandoned()) rmSync(lock, { force: true });
    else await delay(50);
  }
}

export function release() {
  rmSync(lock, { force: true });
}

/** Keeps the lock while npm packs, beyond the end of this process. */
export function keepForNpm() {
  writeFileSync(lock, NPM);
}

/** A build that was killed leaves its lock behind. */
function isAbandoned() {
  try {
    const holder = readFileSync(lock, 'utf8');
    if (holder === NPM) return Date.now() - statSync(lock).mtimeMs > PACKING_MS;
    const pid = Number(holder);
    // 0: created, and not yet written.
    if (pid > 0) process.kill(pid, 0);
    return false;
  } catch (error) {
    return error.code === 'ESRCH';
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    await build(...process.argv.slice(2));
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
