import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type About, report } from './report.js';
import type { WorkResult } from './work.js';

/** What runs have found, in a folder that builds leave alone: a file for each run, and the last one as Markdown. */
const FOLDER = fileURLToPath(new URL('../../bench-results/', import.meta.url));

export interface Results extends About {
  readonly results: readonly WorkResult[];
}

/** Puts the rounds of one more time beside those that are there. */
export function add(results: WorkResult[], found: WorkResult): void {
  const same = results.findIndex(
    ({ work, title, size }) => work === found.work && title === found.title && size === found.size,
  );
  if (same < 0) {
    results.push(found);
    return;
  }
  const before = results[same]!;
  const rounds = Object.entries(found.rounds).map(([key, values]) => [key, [...(before.rounds[key] ?? []), ...values]]);
  // The coldest of the times counts.
  const warm = Object.entries(found.warm ?? {}).map(([key, units]) => [
    key,
    Math.min(units, before.warm?.[key] ?? units),
  ]);
  results[same] = {
    ...before,
    rounds: { ...before.rounds, ...Object.fromEntries(rounds) },
    ...(warm.length > 0 && { warm: { ...before.warm, ...Object.fromEntries(warm) } }),
  };
}

/** @returns the Markdown, and where it is */
export function kept(results: Results): { text: string; file: string } {
  mkdirSync(FOLDER, { recursive: true });
  const moment = new Date().toISOString().slice(0, 19).replaceAll(':', '');
  const text = report(results, results.results);
  const file = join(FOLDER, 'results.md');
  writeFileSync(file, `${text}\n`);
  writeFileSync(join(FOLDER, `${moment}.json`), `${JSON.stringify(results, undefined, 2)}\n`);
  return { text, file };
}

/** @returns paths, the newest last */
export function lastKept(count: number): string[] {
  const files = readdirSync(FOLDER).filter((name) => name.endsWith('.json'));
  return files
    .toSorted()
    .slice(-count)
    .map((name) => join(FOLDER, name));
}

export function read(file: string): Results {
  return JSON.parse(readFileSync(file, 'utf8')) as Results;
}
