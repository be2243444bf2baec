import { describe, expect, it } from 'vitest';
import { randomToken, TOKEN_LENGTH } from './random-token.js';

describe('randomToken', () => {
  it('randomToken has 22 characters of the alphabet, or as many as are asked for', () => {
    expect(TOKEN_LENGTH).toBe(22);
    for (let n = 0; n < 1_000; n++) expect(randomToken()).toMatch(/^[A-Za-z0-9]{22}$/);
    expect(randomToken(1)).toMatch(/^[A-Za-z0-9]$/);
    expect(randomToken(10_000)).toMatch(/^[A-Za-z0-9]{10000}$/);
    expect(randomToken(0)).toBe('');
  });

  it('randomToken does not repeat', () => {
    const tokens = new Set(Array.from({ length: 20_000 }, () => randomToken()));
    expect(tokens.size).toBe(20_000);
  });

  it('randomToken has every character equally often', () => {
    const perCharacter = 4_000;
    const counts = new Map<string, number>();
    for (const character of randomToken(62 * perCharacter)) counts.set(character, (counts.get(character) ?? 0) + 1);
    expect(counts.size).toBe(62);
    // Eight standard deviations; a remainder of bytes left in (256 mod 62) would be off by 25 %.
    const tolerance = 8 * Math.sqrt(perCharacter);
    for (const count of counts.values()) expect(Math.abs(count - perCharacter)).toBeLessThan(tolerance);
  });
});
