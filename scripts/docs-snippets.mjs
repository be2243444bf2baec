// `npm run x -- docs:snippets` writes the code of the compiled examples into the pages, where a comment names its file and region. A
// test compares both (test/quickstart/docs-snippets.spec.ts).
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './build.mjs';

const BLOCK = /(<!-- snippet: ([\w./-]+)#([\w-]+) -->\n\n```(?:ts|yaml|dockerfile)\n)[^]*?```/g;

/** Returns a region of a file, as far to the left as it goes. A path with a slash is that of another example. */
function regionOf(file, region) {
  const lines = readFileSync(join(root, 'examples', file.includes('/') ? '' : 'snippets', file), 'utf8').split('\n');
  const from = lines.findIndex((line) => [`// #region ${region}`, `# #region ${region}`].includes(line.trim()));
  const to = lines.findIndex((line, at) => at > from && /^(?:\/\/|#) #endregion$/.test(line.trim()));
  if (from < 0 || to < 0)
    throw new Error(
      `${file} has no region "${region}". Mark it with "// #region ${region}", in YAML "# #region ${region}".`,
    );
  const indent = ' '.repeat(lines[from].search(/\S/));
  const body = lines.slice(from + 1, to).map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line));
  return `${body.join('\n').trim()}\n`;
}

const pages = [
  ...['README.md', 'AGENTS.md', 'CONTRIBUTING.md', '.github/SECURITY.md'].map((name) => join(root, name)),
  // The folder "api" is made by TypeDoc.
  ...readdirSync(join(root, 'docs'), { recursive: true })
    .filter((name) => name.endsWith('.md') && !name.startsWith('api'))
    .map((name) => join(root, 'docs', name)),
];
let changed = 0;
for (const page of pages) {
  const before = readFileSync(page, 'utf8');
  const after = before.replaceAll(BLOCK, (_, head, file, region) => `${head}${regionOf(file, region)}\`\`\``);
  if (after === before) continue;
  writeFileSync(page, after);
  changed++;
}
console.log(`${changed} of ${pages.length} pages changed.`);
