// What is published of `dist`: declarations as the compiler wrote them, and programs joined, so that an app does not have to find, read and
// compile hundreds of files. Each entry of package.json is a file where it was; what entries share, and what is imported when it is used,
// lies in `chunks`. Rollup moves code without writing it anew: comments, names and lines stay, for stack traces and debuggers.
import { cpSync, existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { rollup } from 'rollup';
import { dist, root } from './build.mjs';

const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const entries = Object.values(exports).filter((entry) => typeof entry === 'object');
/** An entry that loads less than this part of what the main entry loads gets by without the rest. */
const LITTLE = 1 / 5;

/** @param folder gets the files, in place of `dist` */
export async function writePackage(folder) {
  const declarations = reachable(
    entries.map(({ types }) => join(root, types)),
    declarationsIn,
  );
  const copied = new Set(declarations);
  const bundle = await rollup({
    input: Object.fromEntries(entries.map((entry) => [nameOf(entry), join(root, entry.default)])),
    // All that is there runs as it does in files of their own.
    treeshake: false,
    plugins: [
      {
        name: 'package',
        resolveId: (id, importer) => (importer && resolved(id, dirname(importer), copied)) ?? null,
        transform: (code, path) => ({ code: marked(path) + withoutDeclared(code, path, declarations), map: null }),
      },
    ],
    onLog: (_level, { code, message }) => {
      // The compiler writes `this && this.__decorate` for scripts; in modules `this` is undefined.
      if (code !== 'THIS_IS_UNDEFINED') throw new Error(message);
    },
  });
  try {
    await bundle.write({
      dir: folder,
      format: 'es',
      generatedCode: 'es2015',
      chunkFileNames: 'chunks/[name].js',
      manualChunks: chunks(),
      // Names of what chunks share are not shortened, and a chunk imports only what it uses itself.
      minifyInternalExports: false,
      hoistTransitiveImports: false,
    });
  } finally {
    await bundle.close();
  }
  for (const path of copied) cpSync(path, join(folder, relative(dist, path)));
}

/**
 * A file costs half a millisecond. So what the main entry loads is two of them: what entries need that load little of it, as a library of
 * tools does, and the rest. The other modules lie where Rollup puts them: those that the same entries and lazy imports need are a file.
 */
function chunks() {
  let main;
  let common;
  return (path, { getModuleInfo }) => {
    if (!main) {
      const loadedBy = (file) => reachable([file], (id) => getModuleInfo(id).importedIds);
      main = loadedBy(join(root, exports['.'].default));
      const shared = entries.map((entry) => [...loadedBy(join(root, entry.default))].filter((file) => main.has(file)));
      common = new Set(shared.filter(({ length }) => length < main.size * LITTLE).flat());
    }
    if (!main.has(path)) return undefined;
    return common.has(path) ? 'common' : 'core';
  };
}

/** @returns some files, and those that they lead to */
function reachable(paths, nextOf) {
  const reached = new Set(paths);
  for (const path of reached) for (const next of nextOf(path)) reached.add(next);
  return reached;
}

/** @returns the name of its file, without `.js` */
const nameOf = (entry) => relative(dist, join(root, entry.default)).replace(/\.js$/, '');

/** Other packages stay imports; files of CommonJS too, and are copied. */
function resolved(id, folder, copied) {
  if (!id.startsWith('.')) return { id, external: true };
  const path = resolve(folder, id);
  if (!path.endsWith('.cjs')) return path;
  copied.add(path);
  return { id: path, external: 'relative' };
}

/** @returns the declarations that declarations name */
function declarationsIn(path) {
  const named = readFileSync(path, 'utf8').matchAll(/["'](\.{1,2}\/[^"']+)\.([cm]?)js["']/g);
  const paths = Array.from(named, ([, name, kind]) => resolve(dirname(path), `${name}.d.${kind}ts`));
  return paths.filter((next) => existsSync(next));
}

/** In a file of many modules, the line above each says which one it is. */
const marked = (path) => `// ${relative(dist, path).replaceAll('\\', '/')}\n`;

const COMMENT = /^ *(\/\*\*[^]*?\*\/)\n/gm;
const words = (comment) => comment.replaceAll(/\s+/g, ' ');

/** The comments of what apps use are in the declarations. Programs keep the others, which a debugger shows. */
function withoutDeclared(code, path, declarations) {
  const declared = path.replace(/\.js$/, '.d.ts');
  if (!declarations.has(declared)) return code;
  const there = new Set([...readFileSync(declared, 'utf8').matchAll(COMMENT)].map(([, comment]) => words(comment)));
  return code.replaceAll(COMMENT, (line, comment) => (there.has(words(comment)) ? '' : line));
}
