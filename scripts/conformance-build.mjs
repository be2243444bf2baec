// Server and client for the conformance suite: test/conformance, built into build/conformance.
import { mkdirSync, readdirSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { changedAt, must, root } from './conformance-suite.mjs';

const built = join(root, 'build/conformance/client.js');
const lock = join(root, 'build/.conformance-build');
const LOCK_MS = 120_000;

export function build() {
  must('npm', ['run', '-s', 'build']);
  must('npm', ['run', '-s', 'build:conformance']);
}

/**
 * Builds what the client is made of, if its sources are newer. The suite starts many clients at a time: one builds, the others
 * wait for it.
 *
 * @returns the path of the client
 */
export async function upToDateClient() {
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
  return built;
}

function isStale() {
  const sources = [...['src/client', 'src/wire', 'src/base'].flatMap(sourcesWithin), ...sourcesIn('test/conformance')];
  return changedAt(built) < Math.max(...sources.map(changedAt));
}

/** Not those in the folders below: the suite itself is in one of them, and as new as its last `npm ci`. */
const sourcesIn = (folder, options = {}) =>
  readdirSync(join(root, folder), { encoding: 'utf8', ...options })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(root, folder, name));

const sourcesWithin = (folder) => sourcesIn(folder, { recursive: true });
