import { expect, it } from 'vitest';
import { ScopeRules } from './scopes.js';

it('A8: circles of "implies", and names that every object has, give nothing', () => {
  const implies = JSON.parse('{"a":["b"],"b":["a"],"__proto__":["c"]}') as Record<string, string[]>;
  const rules = new ScopeRules([], implies);
  expect(rules.cover(['a'], ['b'])).toBe(true);
  for (const [granted, needed] of [
    ['a', 'c'],
    ['constructor', 'c'],
    ['toString', 'name'],
    ['b', '__proto__'],
  ]) {
    expect([granted, rules.cover([granted!], [needed!])]).toEqual([granted, false]);
  }
  expect(rules.cover(['__proto__'], ['c'])).toBe(true);
});
