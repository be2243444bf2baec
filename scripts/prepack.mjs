// What `npm pack` does after the build: the package has what an app can reach, and each comment once.
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { root } from './build.mjs';

const dist = join(root, 'dist');
const files = () => readdirSync(dist, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
const paths = () => files().map(({ parentPath, name }) => join(parentPath, name));

/** @returns whether a source makes that file of `dist` */
export function isMade(output) {
  const [, stem, kind] = /^(.+?)(?:\.d\.(?=[cm]?ts)|\.)([cm]?)[jt]s$/.exec(output) ?? [];
  const made = [`${stem}.${kind}ts`, `${stem}.d.${kind}ts`];
  return stem !== undefined && made.some((name) => existsSync(join(root, 'src', name)));
}

/** A file whose source was renamed would be packed for ever. */
function prune() {
  for (const path of paths()) {
    const name = relative(dist, path);
    if (name !== '.tsbuildinfo' && !isMade(name)) rmSync(path);
  }
}

/** @returns the programs and declarations that the entries of the package lead to */
function reachable() {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const entries = Object.values(exports).filter((entry) => typeof entry === 'object');
  const reached = new Set(entries.flatMap((entry) => Object.values(entry)).map((path) => join(root, path)));
  for (const path of reached) {
    const isDeclaration = /\.d\.[cm]?ts$/.test(path);
    for (const [, named, kind] of readFileSync(path, 'utf8').matchAll(/["'](\.{1,2}\/[^"']+)\.([cm]?)js["']/g)) {
      const next = resolve(dirname(path), isDeclaration ? `${named}.d.${kind}ts` : `${named}.${kind}js`);
      if (existsSync(next)) reached.add(next);
    }
  }
  return reached;
}

/** npm leaves out what this file names. Nothing is deleted: the next build would not make it again. */
function leaveOut(reached) {
  const rest = paths().filter((path) => !reached.has(path));
  const lines = rest.map((path) => `/${relative(dist, path).replaceAll('\\', '/')}\n`);
  writeFileSync(join(dist, '.npmignore'), lines.join(''));
}

const COMMENT = /^ *(\/\*\*[^]*?\*\/)\n/gm;
const words = (comment) => comment.replaceAll(/\s+/g, ' ');

/** The comments of what apps use are in the declarations. Programs keep the others, which a debugger shows. */
function keepCommentsOnce(reached) {
  for (const path of reached) {
    const declarations = path.replace(/\.js$/, '.d.ts');
    if (!path.endsWith('.js') || !reached.has(declarations)) continue;
    const declared = [...readFileSync(declarations, 'utf8').matchAll(COMMENT)].map(([, comment]) => words(comment));
    const there = new Set(declared);
    const before = readFileSync(path, 'utf8');
    const after = before.replaceAll(COMMENT, (line, comment) => (there.has(words(comment)) ? '' : line));
    if (after !== before) writeFileSync(path, after);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  prune();
  const reached = reachable();
  leaveOut(reached);
  keepCommentsOnce(reached);
}
