import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { readRules, rulesNamedIn, testsOf, unknownIds, withTable } from './protocol-rules.js';

const root = new URL('../../', import.meta.url);
const DOCUMENT = 'docs/protocol-rules.md';
const read = (path: string): string => readFileSync(new URL(path, root), 'utf8');

/** This one names rules that it plants. */
const OWN = 'test/architecture/protocol-rules.spec.ts';

function readNamed(...folders: string[]): Map<string, Set<string>> {
  const paths = folders.flatMap((folder) =>
    readdirSync(new URL(`${folder}/`, root), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.spec.ts'))
      .map((name) => `${folder}/${name.replaceAll('\\', '/')}`),
  );
  return new Map(paths.filter((path) => path !== OWN).map((path) => [path, rulesNamedIn(read(path))]));
}

describe('the rules of the protocol', () => {
  const document = read(DOCUMENT);
  const rules = readRules(document);
  const named = readNamed('src', 'test');

  it('the rules of the protocol are read from the document, more than a hundred of them', () => {
    expect(rules.length).toBeGreaterThan(100);
  });

  it('the rules of the protocol are decided in files that exist', () => {
    const missing = rules.flatMap(({ id, files }) =>
      files.filter((file) => !existsSync(new URL(`src/${file}`, root))).map((file) => `${id}: ${file}`),
    );
    expect(missing).toEqual([]);
  });

  it('the rules of the protocol have at least one test each whose title names them', () => {
    expect(rules.filter((rule) => testsOf(rule, named).length === 0).map(({ id }) => id)).toEqual([]);
  });

  it('the rules of the protocol include every id that the title of a test names', () => {
    expect(unknownIds(rules, named)).toEqual([]);
  });

  it('the rules of the protocol have a current table of files and tests, which `-u` writes', async () => {
    await expect(withTable(document, rules, named)).toMatchFileSnapshot(fileURLToPath(new URL(DOCUMENT, root)));
  });
});

describe('the check itself', () => {
  const rule = (id: string, where = 'Decided in `wire/a.ts`.'): string =>
    `### ${id}: Some rule\n\nWhy.\n\n${where}\n\n`;

  it.each([
    [`it('S1: a title', () => {});`, ['S1']],
    [`describe.each(ERAS)('S1, E13: in the %s era', () => {});`, ['S1', 'E13']],
    [`it.each([\n  1,\n])(\n  'P4 G8: %i',\n  () => {},\n);`, ['P4', 'G8']],
    ['it(`§0: ${era}`, () => {});', ['§0']],
    [`it('decodes (M4, C13)', () => {});`, ['M4', 'C13']],
    [`it('of S1: not in front', () => {}); const text = 'E1'; // E2`, []],
  ])('the check of the rules reads in %j: %j', (text, ids) => {
    expect([...rulesNamedIn(text)]).toEqual(ids);
  });

  it('the check of the rules reads ids, titles and files', () => {
    const text = `## Group\n\n${rule('E1', 'Decided in `wire/a.ts`,\n`http/b.ts`.')}## Other\n\n${rule('§0')}### Prose\n`;
    expect(readRules(text)).toEqual([
      { id: 'E1', title: 'Some rule', files: ['wire/a.ts', 'http/b.ts'] },
      { id: '§0', title: 'Some rule', files: ['wire/a.ts'] },
    ]);
  });

  it('the check of the rules refuses rules that say nothing of their place, and ids that are there twice', () => {
    expect(() => readRules(rule('E1', ''))).toThrow('Rule E1 does not say where it is decided.');
    expect(() => readRules(rule('E1') + rule('E1'))).toThrow('Rule E1 is there twice.');
  });

  it('the check of the rules finds rules without a test, and titles that name no rule', () => {
    const rules = readRules(rule('E1') + rule('E2'));
    const named = new Map([['test/a.spec.ts', new Set(['E1', 'E9'])]]);
    expect(testsOf(rules[0]!, named)).toEqual(['test/a.spec.ts']);
    expect(testsOf(rules[1]!, named)).toEqual([]);
    expect(unknownIds(rules, named)).toEqual(['test/a.spec.ts: E9']);
  });

  it('the check of the rules writes the table between its marks, and nothing else', () => {
    const text = `${rule('E1')}<!-- rules:begin -->\nstale\n<!-- rules:end -->\nafter\n`;
    const written = withTable(text, readRules(text), new Map([['test/a/b.spec.ts', new Set(['E1'])]]));
    expect(written).toContain('| [E1](#e1-some-rule) | [wire/a.ts](../src/wire/a.ts) | [a/b](../test/a/b.spec.ts) |');
    expect(written.startsWith(rule('E1'))).toBe(true);
    expect(written.endsWith('<!-- rules:end -->\nafter\n')).toBe(true);
    expect(written).not.toContain('stale');
    expect(() => withTable(rule('E1'), [], new Map())).toThrow('The document lacks the lines');
  });
});
