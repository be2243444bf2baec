import { describe, expect, it } from 'vitest';
import { findInternalNames, findWaysIn, importsOfFeatures } from './features.js';
import { describeViolations, type FileMap } from './rules.js';
import { readSources } from './sources.js';

/** What scripts/check-features.mjs exports. */
interface Check {
  without(feature: string, path: string, text: string): string | undefined;
}

const { without } = (await import(new URL('../../scripts/check-features.mjs', import.meta.url).href)) as Check;

describe('the features', () => {
  const sources = readSources('src');

  it('the features know of the core what is open to all, and a few names with reasons', () => {
    expect(describeViolations(findInternalNames(sources))).toBe('');
  });

  it('the features are imported by no file of the core', () => {
    expect(importsOfFeatures(sources).map(({ path, source }) => `${path} → ${source}`)).toEqual([]);
  });

  it('the features act in the ways that the architecture names', () => {
    expect(describeViolations(findWaysIn(sources))).toBe('');
  });
});

describe('the rules of features', () => {
  const files = (text: string, path = 'src/live/a.ts'): FileMap =>
    new Map([
      ['src/index.ts', `export { type A, B } from './core/calls/a.js';`],
      [path, text],
    ]);
  const internal = (text: string, path?: string, reasons = {}): string[] =>
    findInternalNames(files(text, path), reasons).map(({ line, message }) => `${line}: ${message}`);

  it('the rules of features find internal names of the core, once each', () => {
    expect(
      internal(`\nimport { A, C, type D as E } from '../core/calls/a.js';\nexport { C } from '../core/calls/a.js';`),
    ).toEqual([
      expect.stringContaining('2: "C" of src/core/calls/a.ts is internal'),
      expect.stringContaining('2: "D" of src/core/calls/a.ts is internal'),
    ]);
    expect(internal(`const a = await import('../core/calls/a.js'); type X = import('../mcp.options.js').Y.Z;`)).toEqual(
      [expect.stringContaining('"*" of src/core/calls/a.ts'), expect.stringContaining('"Y" of src/mcp.options.ts')],
    );
  });

  it('the rules of features leave alone what is open to all', () => {
    const cases = [
      `import { A, B } from '../core/calls/a.js';`,
      `import { x } from '../core/common/x.js'; import { y } from '../core/protocol/y.js'; import { z } from '../core/plugins/z.js';`,
      `import { x } from './b.js'; import { y } from '../index.js';`,
    ];
    for (const text of cases) expect([text, internal(text)]).toEqual([text, []]);
    const inside = `import { C } from '../calls/a.js';`;
    for (const path of ['src/core/http/a.ts', 'src/live/a.spec.ts', 'src/stores/index.ts', 'src/a.ts'])
      expect([path, internal(inside, path)]).toEqual([path, []]);
  });

  it('the rules of features let pass names with a reason, and name those that are not used', () => {
    const text = `import { C } from '../core/calls/a.js';`;
    expect(internal(text, undefined, { live: { why: ['C'] } })).toEqual([]);
    expect(internal(text, undefined, { live: { why: ['C', 'D'] } })).toEqual([expect.stringContaining('needs no "D"')]);
  });

  it('the rules of features find too many names, also with reasons', () => {
    const names = Array.from({ length: 16 }, (_, index) => `X${index}`);
    const text = `import { ${names.join(', ')} } from '../core/calls/a.js';`;
    expect(internal(text, undefined, { live: { why: names } })).toEqual([expect.stringContaining('more than 12')]);
  });

  it('the rules of features find a class or provider of a feature by which the core would know it', () => {
    const ways = (text: string): string[] => findWaysIn(files(text)).map(({ message }) => message);
    const imports = `import { McpPlugin } from '../core/plugins/a.js'; import { Hook, HOOK } from '../core/calls/a.js';`;
    expect(ways(`${imports} class X extends McpPlugin implements Hook<Y>, Own {}`)).toEqual([
      expect.stringContaining('acts by "Hook"'),
    ]);
    expect(ways(`${imports} const provider = { provide: HOOK, useValue: new Hook() };`)).toEqual([
      expect.stringContaining('acts by "HOOK"'),
    ]);
  });
});

describe('the check of features', () => {
  const left = (text: string, path = 'features.ts'): string[] =>
    without('limits', path, text)!.split('\n').filter(Boolean);

  it('the check of features takes out the exports of a feature, and only them', () => {
    const text = `export { x } from './limits/x.js';\nexport type { Y } from './core/y.js';`;
    expect(left(text, 'index.ts')).toEqual(["export type { Y } from './core/y.js';"]);
    expect(left(`export { x } from '../limits/x.js';`, 'stores/index.ts')).toEqual([]);
    expect(without('limits', 'index.ts', `export { x } from './limited/x.js';`)).toBeUndefined();
  });

  it('the check of features takes out a row of a list that imports the feature when it is used', () => {
    const row = (name: string): string =>
      `{ name: '${name}', load: async () => (await import('./${name}/${name}.js')).make }`;
    expect(left(`export const LIST = [${row('audit')}, ${row('limits')}];`)).toEqual([
      `export const LIST = [${row('audit')}];`,
    ]);
  });

  it('the check of features takes out what only used names of the feature', () => {
    const text = `
import { TABLE, type Limits } from './limits/x.js';
import { OTHER } from './core/y.js';
export interface Options extends Limits, Others { limits: Limits; other: string; }
const names = Object.keys(TABLE);
export const ALL = { ...TABLE, ...OTHER, names, limits: { TABLE: 1 } };`;
    expect(left(text)).toEqual([
      "import { OTHER } from './core/y.js';",
      'export interface Options extends Others {',
      '    other: string;',
      '}',
      'export const ALL = { ...OTHER, limits: { TABLE: 1 } };',
    ]);
  });
});
