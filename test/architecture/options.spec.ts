import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const root = new URL('../../', import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, root), 'utf8');
const sources = readdirSync(new URL('src', root), { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts') && !path.endsWith('.spec.ts'))
  .map((path) => `src/${path}`);

describe('how an option is added', () => {
  it('CONTRIBUTING names at most three files for each kind of option, and they exist', () => {
    const [, section] = /## How to add an option\n([\s\S]*?)\n## /.exec(read('CONTRIBUTING.md'))!;
    const kinds = section!.split('\n### ').slice(1);
    expect(kinds.length).toBe(2);
    for (const kind of kinds) {
      const steps = kind.split(/\n\d\. /).slice(1);
      expect(steps.length).toBeGreaterThan(0);
      expect(steps.length).toBeLessThanOrEqual(3);
      const links = [...kind.matchAll(/\]\(([^)#]+)/g)].map(([, path]) => path!);
      expect(links.filter((path) => !existsSync(new URL(path, root)))).toEqual([]);
    }
  });

  it('an option of an endpoint is declared, documented and checked in one file', () => {
    const names = [...read('docs/options.md').matchAll(/^### `(\w+)`$/gm)].map(([, name]) => name!);
    const tables = sources.map(read).filter((text) => text.includes('satisfies OptionTable<'));
    const isIn = (text: string, name: string): boolean =>
      [...text.matchAll(new RegExp(String.raw`^  (?:readonly )?${name}\??: `, 'gm'))].length > 1;
    expect(names.length).toBeGreaterThan(50);
    expect(names.filter((name) => !tables.some((text) => isIn(text, name)))).toEqual([]);
  });

  it('an option of a handler that a plugin reads is declared beside the decorators, and read in one file', () => {
    const declared = read('src/core/handlers/decorators/handler-options.ts');
    const readers = new Map<string, Set<string>>();
    for (const path of sources)
      for (const [, name] of read(path).matchAll(/\.option\('(\w+)'\)/g))
        readers.set(name!, (readers.get(name!) ?? new Set()).add(path));
    expect([...readers.keys()]).toEqual(expect.arrayContaining(['confirm', 'idempotency', 'timeoutMs']));
    for (const [name, paths] of readers) {
      expect([name, ...paths]).toHaveLength(2);
      expect(declared).toMatch(new RegExp(String.raw`^  ${name}\?: `, 'm'));
    }
  });
});
