import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { FileMap } from './rules.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** Reads the TypeScript of folders of the repository. */
export function readSources(...folders: string[]): FileMap {
  const files = folders.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.c?ts$/.test(name))
      .map((name) => `${folder}/${name.replaceAll('\\', '/')}`),
  );
  return new Map(files.map((path) => [path, readFileSync(join(ROOT, path), 'utf8')]));
}
