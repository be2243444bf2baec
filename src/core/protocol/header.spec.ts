import { describe, expect, it } from 'vitest';
import * as headers from './headers.js';
import { singleHeader } from './headers.js';

describe('singleHeader', () => {
  it.each([
    [undefined, undefined],
    ['a', 'a'],
    ['', ''],
    [[], undefined],
    [['a'], 'a'],
    [['a', 'b'], 'a, b'],
  ])('singleHeader reads %j as %j', (value, expected) => {
    expect(singleHeader(value)).toBe(expected);
  });

  it('singleHeader knows the names as Node spells them', () => {
    const names = Object.entries(headers).flatMap(([key, name]) => (key.endsWith('_HEADER') ? [name as string] : []));
    expect(names).toHaveLength(5);
    for (const name of names) expect(name).toBe(name.toLowerCase());
  });
});
