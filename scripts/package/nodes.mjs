// Versions of Node to run with: the running one, or npm's `node-<platform>-<arch>`.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { install } from './run.mjs';

/** @returns the path of the executable of each major version, those that are not running installed into a folder */
export async function findNodes(majors, folder) {
  const missing = majors.filter((major) => !isRunning(major));
  const names = Object.fromEntries(
    missing.map((major) => [alias(major), `npm:node-${process.platform}-${process.arch}@${major}`]),
  );
  mkdirSync(folder);
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'nodes', private: true, dependencies: names }));
  if (missing.length > 0) await install(folder);
  const pathOf = (major) =>
    isRunning(major) ? process.execPath : join(folder, 'node_modules', alias(major), 'bin/node');
  return new Map(majors.map((major) => [major, pathOf(major)]));
}

const isRunning = (major) => process.version.startsWith(`v${major}.`);
const alias = (major) => `node-${major}`;
