// The package, and server and client for the conformance suite (test/conformance, built into build/conformance).
import { mkdirSync, readdirSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { changedAt, must, root } from './conformance-suite.mjs';

const client = join(root, 'build/conformance/client.js');
const lock = join(root, 'build/.conformance-build');
const LOCK_MS = 120_000;

/** What each script builds, one file of it, and from which sources. */
const BUILDS = [
  { script: 'build', built: join(root, 'dist/index.js'), sources: () => sourcesIn('src', { recursive: true }) },
  // Not in the folders below: the suite itself is in one of them, and as new as its last `npm ci`.
  { script: 'build:conformance', built: client, sources: () => sourcesIn('test/conformance') },
];

/** Builds what is older than its sources. */
export function build() {
  for (const { script } of BUILDS.filter(isStale)) must('npm', ['run', '-s', script]);
}

/**
 * The suite starts many clients at a time: one builds, the others wait for it.
 *
 * @returns the path of the client
 */
export async function upToDateClient() {
  while (BUILDS.some(isStale)) {
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
      build();
    } finally {
      rmdirSync(lock);
    }
  }
  return client;
}

function isStale({ built, sources }) {
  return changedAt(built) < Math.max(...sources().map(changedAt));
}

function sourcesIn(folder, options = {}) {
  const names = readdirSync(join(root, folder), { encoding: 'utf8', ...options });
  return names.filter((name) => name.endsWith('.ts')).map((name) => join(root, folder, name));
}
