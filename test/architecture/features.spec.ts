import { describe, expect, it } from 'vitest';

/** What scripts/check-features.mjs exports. */
interface Check {
  without(feature: string, path: string, text: string): string | undefined;
}

const { without } = (await import(new URL('../../scripts/check-features.mjs', import.meta.url).href)) as Check;

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
