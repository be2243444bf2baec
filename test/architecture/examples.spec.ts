import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { parseFile } from './imports.js';

/**
 * Examples are copied: what one imports is in its folder, or in its package.json. `npm run x -- check:examples` installs and runs them;
 * here is what can be seen without that.
 */

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FOLDER = join(ROOT, 'examples');
const manifestOf = (folder: string): Manifest =>
  JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
const ours = manifestOf(ROOT);
const NAMES = readdirSync(FOLDER).filter((name) => existsSync(join(FOLDER, name, 'package.json')));

/** Named, and maybe not imported: what is needed by entries of this package, by Nest, by TypeORM, and to compile. */
const UNIMPORTED = [...Object.keys(ours.peerDependencies), '@nestjs/platform-express', 'pg', 'typescript'];

it('all stand alone, but for the snippets of the documentation', () => {
  const folders = readdirSync(FOLDER, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const others = folders.map(({ name }) => name).filter((name) => !NAMES.includes(name) && name !== 'node_modules');
  expect(others).toEqual(['snippets']);
});

describe.each(NAMES)('the example %s', (name) => {
  const folder = join(FOLDER, name);
  const { dependencies, devDependencies } = manifestOf(folder);
  const named = { ...dependencies, ...devDependencies };
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    (path) => /\.[cm]?tsx?$/.test(path) && !/(?:^|[\\/])(?:node_modules|dist)[\\/]/.test(path),
  );
  const imports = files.flatMap((path) => {
    const { references } = parseFile(path, readFileSync(join(folder, path), 'utf8'));
    return references.map(({ specifier }) => ({ path, specifier }));
  });
  const packages = new Set(
    imports
      .map(({ specifier }) => specifier)
      .filter((specifier) => !specifier.startsWith('.') && !specifier.startsWith('node:'))
      .map((specifier) => specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')),
  );

  it('an example has the versions that the repository has, as "node scripts/check-examples.mjs --versions" writes them', () => {
    const wanted = (dependency: string): string | undefined =>
      dependency === ours.name ? `^${ours.version}` : ours.devDependencies[dependency];
    const versions = Object.fromEntries(Object.keys(named).map((dependency) => [dependency, wanted(dependency)]));
    expect(named).toEqual(versions);
  });

  it('an example names the packages that it imports, and no others', () => {
    const typed = (dependency: string): boolean =>
      dependency === '@types/node' || packages.has(dependency.replace(/^@types\//, ''));
    const unused = Object.keys(named).filter(
      (dependency) => !packages.has(dependency) && !typed(dependency) && !UNIMPORTED.includes(dependency),
    );
    const missing = [...packages].filter((dependency) => !(dependency in named) && !(`@types/${dependency}` in named));
    expect({ missing, unused }).toEqual({ missing: [], unused: [] });
  });

  it('an example imports no file from outside of its folder', () => {
    const outside = imports.filter(
      ({ path, specifier }) =>
        specifier.startsWith('.') && relative('.', join(dirname(path), specifier)).startsWith('..'),
    );
    expect(outside).toEqual([]);
  });
});
