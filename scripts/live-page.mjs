// Bundles src/live/page into one document with inline script and style, which src/live/live-page.ts sends. `npm run build` writes the
// module to dist; vitest gets it from `livePagePlugin`, from the sources as they are. Nothing generated lies in src.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const sources = join(root, 'src/live/page');
/** The module that src/live/live-page-bundle.d.ts declares. */
const output = join(root, 'dist/live/live-page-bundle.js');

let bundled;

/** @returns the text of the module: the document, and the hashes of its script and style for the policy */
export function bundleLivePage() {
  const at = changedAt();
  if (bundled?.at !== at) bundled = { at, text: bundle() };
  return bundled.text;
}

async function bundle() {
  // Loaded only when there is something to bundle: it takes a quarter of a second.
  const { build } = await import('vite');
  const input = join(sources, 'page.html');
  const { output } = await build({
    root: sources,
    configFile: false,
    logLevel: 'warn',
    build: {
      write: false,
      target: 'es2023',
      modulePreload: false,
      assetsInlineLimit: 0,
      rolldownOptions: { input },
    },
  });
  const files = new Map(output.map((file) => [file.fileName.replace(/^.*\./, ''), String(file.code ?? file.source)]));
  if (output.length !== 3)
    throw new Error(`The live page is to be one document: ${output.map((file) => file.fileName)}`);
  const [script, style] = [files.get('js').trim(), files.get('css').trim()];
  // Either would end its element.
  if (/<\/script|<!--/i.test(script) || /<\/style/i.test(style))
    throw new Error('The live page closes its own elements.');
  const html = files
    .get('html')
    .replace(/\n\s*<link rel="stylesheet"[^>]*>/, () => `<style>${style}</style>`)
    .replace(/\s*<script type="module"[^>]*><\/script>/, '')
    .replace('</body>', () => `<script type="module">${script}</script>\n</body>`);
  const lines = { HTML: html, SCRIPT_HASH: hashOf(script), STYLE_HASH: hashOf(style) };
  return Object.entries(lines)
    .map(([name, value]) => `export const ${name} = ${JSON.stringify(value)};\n`)
    .join('');
}

function hashOf(text) {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`;
}

function changedAt() {
  const files = readdirSync(sources, { recursive: true }).map((name) => join(sources, name));
  return Math.max(...[...files, import.meta.filename].map((path) => statSync(path).mtimeMs));
}

/** Writes the module to dist, unless what is there is newer than the sources. */
export async function buildLivePage() {
  if (existsSync(output) && statSync(output).mtimeMs > changedAt()) return;
  const text = await bundleLivePage();
  mkdirSync(dirname(output), { recursive: true });
  if (!existsSync(output) || readFileSync(output, 'utf8') !== text) writeFileSync(output, text);
}

/** Makes vitest load the module, which is in no folder of the sources. */
export function livePagePlugin() {
  const id = join(root, 'src/live/live-page-bundle.js');
  return {
    name: 'live-page',
    enforce: 'pre',
    resolveId: (source) => (source.endsWith('/live-page-bundle.js') ? id : undefined),
    load(asked) {
      if (asked !== id) return undefined;
      for (const name of readdirSync(sources, { recursive: true })) this.addWatchFile(join(sources, name));
      return bundleLivePage();
    },
  };
}
