import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { Logger } from '@nestjs/common';
import { describe, expect, it } from 'vitest';
// The contract tests that the documentation shows are real ones.
// oxlint-disable-next-line import/no-unassigned-import
import '../../examples/snippets/audited-session-store.contract.js';
// oxlint-disable-next-line import/no-unassigned-import
import '../../examples/snippets/keyv-state.contract.js';

Logger.overrideLogger(false);

const root = new URL('../../', import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, root), 'utf8');

const PAGES = [
  'README.md',
  'AGENTS.md',
  'CONTRIBUTING.md',
  '.github/SECURITY.md',
  ...readdirSync(new URL('docs', root), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md') && !name.startsWith('api')) // made by TypeDoc
    .map((name) => `docs/${name.replaceAll('\\', '/')}`),
];
/** Each example that stands alone has one. */
const EXAMPLES = readdirSync(new URL('examples', root))
  .filter((name) => existsSync(new URL(`examples/${name}/package.json`, root)))
  .map((name) => `examples/${name}/README.md`);
const BLOCK =
  /(?:<!-- snippet: (?<file>[\w./-]+)#(?<region>[\w-]+) -->\n\n)?```(?<language>ts|yaml|dockerfile)\n(?<code>[^]*?)```/g;

/** A region of a file, as far to the left as it goes. A path with a slash is that of another example. */
function regionOf(file: string, region: string): string | undefined {
  const lines = read(`examples/${file.includes('/') ? '' : 'snippets/'}${file}`).split('\n');
  const from = lines.findIndex((line) => [`// #region ${region}`, `# #region ${region}`].includes(line.trim()));
  const to = lines.findIndex((line, at) => at > from && /^(?:\/\/|#) #endregion$/.test(line.trim()));
  if (from < 0 || to < 0) return undefined;
  const indent = ' '.repeat(lines[from]!.search(/\S/));
  const body = lines.slice(from + 1, to).map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line));
  return `${body.join('\n').trim()}\n`;
}

describe.each(PAGES)('the code in %s', (page) => {
  // Other languages than TypeScript need no source: nothing compiles them.
  const blocks = [...read(page).matchAll(BLOCK)]
    .map(({ groups }) => groups!)
    .filter(({ language, file }) => language === 'ts' || file !== undefined);

  it.each(blocks)('the code of a page is that of $file, region $region', ({ file, region, code }) => {
    expect(file, `a block of code without its source:\n${code}`).toBeDefined();
    expect(code).toBe(regionOf(file!, region!));
  });

  it('the code of a page is as much as there are marks for it', () => {
    expect(blocks.filter(({ file }) => file !== undefined)).toHaveLength(read(page).split('<!-- snippet:').length - 1);
  });
});

describe('code that no compiler has seen', () => {
  /** Names of packages that are not installed here, and a list that the sources have. */
  const OTHERS = /McpStrategy|McpTransportType|ToolGuards|GqlExecutionContext|SentryGlobalFilter|PostHog|RINGS/;

  it('code that no compiler has seen is that of packages that are not installed', () => {
    const blocks = PAGES.flatMap((page) => [...read(page).matchAll(/```typescript\n([^]*?)```/g)]);
    expect(blocks.map(([, code]) => code!).filter((code) => !OTHERS.test(code))).toEqual([]);
  });
});

describe.each([...PAGES, ...EXAMPLES])('the links in %s', (page) => {
  const targets = [...read(page).matchAll(/\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)/g)].map(([, target]) => target!);

  it('lead somewhere', () => {
    const missing = targets.filter((target) => !existsSync(new URL(target, new URL(page, root))));
    expect(missing).toEqual([]);
  });

  it('lead to headings that are there', () => {
    const links = [...read(page).matchAll(/\]\((?!https?:)([^)#]*\.md)?#([^)]+)\)/g)];
    const missing = links.filter(([, target, anchor]) => {
      const path =
        target === undefined ? page : new URL(target, new URL(page, root)).pathname.slice(root.pathname.length);
      return !anchorsOf(path).has(anchor!);
    });
    expect(missing.map(([link]) => link)).toEqual([]);
  });
});

describe('the files that the pages about the code name', () => {
  const pages = PAGES.filter((page) => /^docs\/(?:architecture|path-of-a-call|decisions)/.test(page));

  it.each(pages)('the files that the pages about the code name are there: %s', (page) => {
    const named = [...read(page).matchAll(/(?<![\w./-])((?:[\w-]+\/)+[\w.-]+\.ts)\b/g)].map(([, path]) => path!);
    const missing = named.filter((path) => [path, `src/${path}`].every((each) => !existsSync(new URL(each, root))));
    expect(missing).toEqual([]);
  });
});

describe('docs/options.md', () => {
  it('docs/options.md is what `npm run x -- docs:options` makes of the comments', async () => {
    const script = (await import(new URL('scripts/options-page.mjs', root).href)) as { optionsPage(): string };
    expect(read('docs/options.md')).toBe(script.optionsPage());
  });
});

describe('texts of the package that pages quote', () => {
  const sources = readdirSync(new URL('src', root), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.spec.ts'))
    .map((name) => read(`src/${name}`))
    .join('\n');
  const BLOCKS = ['docs/troubleshooting.md', 'docs/security.md', 'docs/tool-results.md'].flatMap((page) =>
    [...read(page).matchAll(/```text\n([^]*?)```/g)].map(([, text]) => [page, text!.trim()] as const),
  );
  /** What others say: Nest, and the official client. */
  const OF_OTHERS = [/^Cannot POST/, /^Please make sure that the argument/, /^MCP error -32001/];

  it.each(BLOCKS)('texts of the package that pages quote are in the sources: %s, %s', (_, text) => {
    const lines = text.split('\n').filter((line) => !OF_OTHERS.some((other) => other.test(line)));
    // Between two values, what is left of a template.
    const pieces = lines.join(' ').split(/"[^"]*"|\([^)]*\)|\d+|\/[\w/]*|\w+\.\w+|…|\. /);
    const words = pieces.map((piece) => piece.trim()).filter((piece) => piece.split(' ').length > 2);
    const missing = words.filter((piece) => !sources.includes(piece));
    // A short one may be of two templates.
    expect(missing.filter((piece) => piece.split(' ').length > 6)).toEqual([]);
    if (words.length > 0) expect(missing.length).toBeLessThan(words.length);
  });
});

describe('docs/errors.md', () => {
  const page = read('docs/errors.md');

  it('docs/errors.md names the codes of McpError', () => {
    const codes = [...read('src/core/protocol/errors.ts').matchAll(/^ {2}([A-Z_]+): \{ status/gm)].map(
      ([, code]) => code!,
    );
    expect(codes.length).toBeGreaterThan(20);
    expect(codes.filter((code) => !page.includes(`\`${code}\``))).toEqual([]);
  });

  it('docs/errors.md names each public class of an error', () => {
    const entries = readdirSync(new URL('src', root), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('index.ts'))
      .map((name) => read(`src/${name.replaceAll('\\', '/')}`));
    const classes = [...new Set(entries.join('\n').match(/\b(?!type )\w+Error(?=[,\s}])/g))];
    const abstract = ['McpLastError', 'McpEventStoreError', 'McpStateError', 'McpError'];
    expect(classes.filter((name) => !abstract.includes(name) && !page.includes(`\`${name}\``))).toEqual([]);
  });
});

describe('the first pages', () => {
  it.each([
    ['README.md', 130],
    ['CONTRIBUTING.md', 200],
    ['AGENTS.md', 40],
  ])('the first pages are short: %s', (page, lines) => {
    expect(read(page).trimEnd().split('\n').length).toBeLessThanOrEqual(lines);
  });
});

describe('the site', () => {
  const pages = PAGES.filter((page) => page.startsWith('docs/'));

  it('the site has so few pages that a reader can look through their titles', () => {
    expect(pages.length).toBeLessThanOrEqual(45);
  });

  it('the pages of the site have so few words that they can be read', () => {
    // Neither code nor addresses are words, nor is the list of files that is made for the rules of the protocol.
    const text = pages
      .map((page) => read(page).replace(/<!-- rules:begin[^]*/, ''))
      .join('\n')
      .replaceAll(/```[^]*?```|<!--[^]*?-->|\]\([^)]*\)/g, ' ');
    expect(text.split(/\s+/).filter((word) => /\w/.test(word)).length).toBeLessThanOrEqual(86_000);
  });
});

/** The anchors of the headings of a page, as GitHub makes them. */
function anchorsOf(path: string): Set<string> {
  const headings = read(path)
    .replaceAll(/^```[^]*?^```/gm, '')
    .matchAll(/^#+ (.+)$/gm);
  return new Set(
    [...headings].map(([, heading]) =>
      heading!
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );
}
