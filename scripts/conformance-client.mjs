// `npm run conformance:client -- URL`: the client that the conformance suite drives, built first if its sources are newer.
// The suite starts many at a time: one builds, the others wait for it.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, rmdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const built = join(root, 'build/conformance/client.js');
const lock = join(root, 'build/.conformance-client');
const LOCK_MS = 120_000;

const changedAt = (path) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;

function newest(folder) {
  const files = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' });
  return Math.max(...files.filter((name) => name.endsWith('.ts')).map((name) => changedAt(join(root, folder, name))));
}

const isStale = () =>
  changedAt(built) < Math.max(newest('src/client'), newest('src/wire'), newest('src/base'), newest('test/conformance'));

function build() {
  for (const script of ['build', 'build:conformance']) {
    const { status, stdout, stderr } = spawnSync('npm', ['run', '-s', script], { cwd: root, encoding: 'utf8' });
    if (status === 0) continue;
    process.stderr.write(`${stdout}${stderr}`);
    throw new Error(`npm run ${script} ended with ${status}`);
  }
}

while (isStale()) {
  try {
    mkdirSync(join(root, 'build'), { recursive: true });
    mkdirSync(lock);
  } catch {
    // Whoever left it behind will not build any more.
    if (Date.now() - changedAt(lock) > LOCK_MS) rmdirSync(lock);
    await delay(200);
    continue;
  }
  try {
    if (isStale()) build();
  } finally {
    rmdirSync(lock);
  }
}
await import(pathToFileURL(built).href);
