// `tsc --build` of the named projects: `node scripts/build.mjs src/tsconfig.build.json`. What is up to date is not written again,
// and nothing is deleted, so that servers that run from here go on. Builds of one checkout wait for each other: a program
// that is started beside a build must not load a file that is half written.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { buildLivePage } from './live-page.mjs';

export const root = fileURLToPath(new URL('..', import.meta.url));
/** TypeScript 7, by its path: TypeDoc and tests need the API of TypeScript 6, which brings a `tsc` of its own. */
const tsc = join(root, 'node_modules/@typescript/native/bin/tsc');
/** Holds the pid of the build that runs. */
const lock = join(root, 'build/.lock');
/** Examples have a package.json of their own: compiler, linter and editor look for this package where npm would put it. */
const link = join(root, 'examples/node_modules/nestjs-mcp-streamable');

/** @throws when there is an error in the sources, which was printed */
export async function build(...projects) {
  await acquire();
  try {
    linkForExamples();
    const { status, signal } = spawnSync(process.execPath, [tsc, '--build', ...projects], {
      cwd: root,
      // The program that is started next may speak a protocol on stdout.
      stdio: ['ignore', 2, 2],
    });
    if (status !== 0) throw new Error(`tsc --build ${projects.join(' ')} ended with ${signal ?? status}`);
    await buildLivePage();
  } finally {
    rmSync(lock, { force: true });
  }
}

function linkForExamples() {
  if (existsSync(link)) return;
  // One that leads nowhere does not exist, but is there.
  rmSync(link, { force: true });
  mkdirSync(dirname(link), { recursive: true });
  // Relative, so that a copy of the repository links itself; Windows makes it absolute.
  symlinkSync(relative(dirname(link), root), link, 'junction');
}

async function acquire() {
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

/** A build that was killed leaves its lock behind. */
function isAbandoned() {
  try {
    const pid = Number(readFileSync(lock, 'utf8'));
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
