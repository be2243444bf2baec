import { describe, expect, it } from 'vitest';
import { age, duration, size, span } from './format.js';

describe('how values look', () => {
  it.each([
    [0, '0 B'],
    [999, '999 B'],
    [1_000, '1.0 kB'],
    [64_000, '64 kB'],
    [2_500_000, '2.5 MB'],
    [7e12, '7000 GB'],
    [-1, '–'],
  ])('%s bytes are %s', (bytes, text) => expect(size(bytes)).toBe(text));

  it.each([
    [0.123, '0.12 ms'],
    [4.56, '4.6 ms'],
    [12.3, '12 ms'],
    [1_234, '1.23 s'],
    [75_000, '1 min'],
  ])('a call of %s ms took %s', (ms, text) => expect(duration(ms)).toBe(text));

  it.each([
    [-5, '0 s', '0.0 s'],
    [1_900, '1 s', '1.9 s'],
    [59_999, '59 s', '59 s'],
    [3_600_000, '1 h', '1 h'],
    [200_000_000, '2 d', '2 d'],
  ])('%s ms ago is %s, and a span of %s', (ms, ago, long) => expect([age(ms), span(ms)]).toEqual([ago, long]));
});
