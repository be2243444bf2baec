import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Rolldown } from 'vite';
import { livePagePlugin } from '../../scripts/live-page.mjs';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/**
 * Programs from the sources as they are: quicker to start than those that compile themselves, and they need no build.
 *
 * @param programs their sources, in the repository, by name
 * @param folder in the repository, so that packages are found; gets `<name>.js`
 */
export async function bundle(programs: Readonly<Record<string, string>>, folder: string): Promise<void> {
  const source = (path: string): string => join(ROOT, 'src', path);
  await build({
    configFile: false,
    plugins: [livePagePlugin()],
    root: ROOT,
    logLevel: 'warn',
    resolve: {
      alias: [
        { find: /^nestjs-mcp-streamable$/, replacement: source('index.ts') },
        { find: /^nestjs-mcp-streamable\/(\w+)$/, replacement: source('$1/index.ts') },
      ],
    },
    build: {
      ssr: true,
      outDir: folder,
      minify: false,
      sourcemap: true,
      target: 'node20',
      rolldownOptions: {
        input: Object.fromEntries(Object.entries(programs).map(([name, path]) => [name, join(ROOT, path)])),
        output: { entryFileNames: '[name].js' },
      },
    },
  });
}

/**
 * A program for a page of a browser.
 *
 * @param path its source, in the repository
 * @returns a script that needs nothing else
 */
export async function bundleForPage(path: string): Promise<string> {
  const built = await build({
    configFile: false,
    root: ROOT,
    logLevel: 'warn',
    build: {
      write: false,
      minify: false,
      lib: { entry: join(ROOT, path), formats: ['iife'], name: 'page', fileName: 'page' },
    },
  });
  const [{ output }] = [built].flat() as [Rolldown.RolldownOutput];
  return output[0].code;
}
