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
  ...['README.md', 'CONTRIBUTING.md', 'SECURITY.md'],
  ...readdirSync(new URL('docs', root), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name.replaceAll('\\', '/')}`),
];
const BLOCK = /(?:<!-- snippet: (?<file>[\w.-]+)#(?<region>[\w-]+) -->\n\n)?```ts\n(?<code>[^]*?)```/g;

/** A region of a file, as far to the left as it goes. */
function regionOf(file: string, region: string): string | undefined {
  const lines = read(`examples/snippets/${file}`).split('\n');
  const from = lines.findIndex((line) => line.trim() === `// #region ${region}`);
  const to = lines.findIndex((line, at) => at > from && line.trim() === '// #endregion');
  if (from < 0 || to < 0) return undefined;
  const indent = ' '.repeat(lines[from]!.search(/\S/));
  const body = lines.slice(from + 1, to).map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line));
  return `${body.join('\n').trim()}\n`;
}

describe.each(PAGES)('the code in %s', (page) => {
  const blocks = [...read(page).matchAll(BLOCK)].map(({ groups }) => groups!);

  it.each(blocks)('is that of $file, region $region', ({ file, region, code }) => {
    expect(file, `a block of code without its source:\n${code}`).toBeDefined();
    expect(code).toBe(regionOf(file!, region!));
  });

  it('is as much as there are marks for it', () => {
    expect(blocks.filter(({ file }) => file !== undefined)).toHaveLength(read(page).split('<!-- snippet:').length - 1);
  });
});

describe.each(PAGES)('the links in %s', (page) => {
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

describe('the files that docs/architecture.md and the decisions name', () => {
  const pages = PAGES.filter((page) => page === 'docs/architecture.md' || page.startsWith('docs/decisions/'));

  it.each(pages)('are there: %s', (page) => {
    const named = [...read(page).matchAll(/(?<![\w./-])((?:[\w-]+\/)+[\w.-]+\.ts)\b/g)].map(([, path]) => path!);
    const missing = named.filter((path) => [path, `src/${path}`].every((each) => !existsSync(new URL(each, root))));
    expect(missing).toEqual([]);
  });
});

const OF_ENDPOINT: readonly [file: string, name: string][] = [
  ['src/http/endpoint-extras.ts', 'McpStreamableExtras'],
  ['src/mcp-streamable.options.ts', 'McpStreamableOptions'],
  ['src/session/session.options.ts', 'McpSessionOptions'],
  ['src/state/state.options.ts', 'McpStateOptions'],
  ['src/http/http.options.ts', 'McpHttpOptions'],
  ['src/exchange/response.options.ts', 'McpResponseOptions'],
  ['src/endpoint/protocol.options.ts', 'McpProtocolOptions'],
  ['src/questions/request-state.options.ts', 'McpRequestStateOptions'],
  ['src/handlers/handlers.options.ts', 'McpHandlerOptions'],
  ['src/http/edge/host-origin.ts', 'HostOriginOptions'],
  ['src/stream/stream.options.ts', 'EventLogOptions'],
  ['src/methods/capabilities.ts', 'McpExtensionOptions'],
  ['src/auth/auth.options.ts', 'McpAuthOption'],
];

describe('the tables of options in the README', () => {
  const rows = [...read('README.md').matchAll(/^\| `(\w+)` +\| (.+?) +\| .+ \|$/gm)];
  const documented = new Map(rows.map(([, name, value]) => [name!, value!.replaceAll('`', '')]));

  it('name every option', () => {
    expect([...documented.keys()].toSorted()).toEqual([...optionsInSource().keys()].toSorted());
  });

  it.each([...optionsInSource()])('say the default of %s: %s', (name, value) => {
    if (value !== undefined) expect(documented.get(name)).toBe(value);
  });
});

describe('the tables of options in docs/authentication.md', () => {
  const rows = [...read('docs/authentication.md').matchAll(/^\| `(\w+)` +\| (.+?) +\| .+ \|$/gm)];
  const documented = new Map(rows.map(([, name, value]) => [name!, value!.replaceAll('`', '')]));
  const options = optionsInSource([
    ['src/auth/auth.options.ts', 'McpAuthOptions'],
    ['src/auth/auth.options.ts', 'McpJwtOptions'],
  ]);

  it('name every option', () => {
    expect([...documented.keys()].toSorted()).toEqual([...options.keys()].toSorted());
  });

  it.each([...options])('say the default of %s: %s', (name, value) => {
    // What `jwt` does by itself stands in a table of its own.
    if (value !== undefined && name !== 'jwt') expect(documented.get(name)).toBe(value);
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

/** The options as their doc comments have them, each with its `@default`. */
function optionsInSource(interfaces = OF_ENDPOINT): Map<string, string | undefined> {
  const options = new Map<string, string | undefined>();
  for (const [file, name] of interfaces) {
    const body = new RegExp(`export interface ${name}\\b[^]*?\\n}`).exec(read(file))![0];
    for (const [, comment, option] of body.matchAll(/\/\*\*([^]*?)\*\/\n {2}(?:readonly )?(\w+)\??:/g)) {
      options.set(option!, /@default (.+?)\s*(?:\n|$)/.exec(comment!)?.[1]!.replaceAll('`', ''));
    }
  }
  return options;
}
