import { describe, expect, it } from 'vitest';
import { canonicalJson } from './values.js';

describe('canonicalJson', () => {
  it.each<[unknown, string]>([
    [{ b: 1, a: [2, { d: null, c: 'x' }] }, '{"a":[2,{"c":"x","d":null}],"b":1}'],
    [{ a: undefined, b: 1 }, '{"b":1}'],
    [[undefined, 1], '[null,1]'],
    ['é\ud800', '"é\\ud800"'],
    [undefined, 'null'],
    [JSON.parse('{"__proto__":1,"constructor":2}'), '{"__proto__":1,"constructor":2}'],
  ])('canonicalJson of %j', (value, text) => {
    expect(canonicalJson(value)).toBe(text);
  });

  it('canonicalJson is the same for two that say the same, and different for two that do not', () => {
    const text = canonicalJson({ name: 'x', arguments: { a: 1, b: { c: [1, 2], d: 'e' } } });
    expect(canonicalJson({ arguments: { b: { d: 'e', c: [1, 2] }, a: 1 }, name: 'x' })).toBe(text);
    expect(canonicalJson({ arguments: { b: { d: 'e', c: [2, 1] }, a: 1 }, name: 'x' })).not.toBe(text);
  });
});
