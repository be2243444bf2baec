import { describe, expect, it } from 'vitest';

import { printable, shown } from './errors.js';

describe('shown', () => {
  it.each([
    ['a"b', '"a\\"b"'],
    [7, '7'],
    [null, 'null'],
    [undefined, 'nothing'],
    [{ a: [1] }, '{"a":[1]}'],
    [() => 1, 'a function'],
    [5n, '5'],
    [{ id: 5n }, 'a value that cannot be written as JSON'],
  ])('shown shows %s', (value, expected) => {
    expect(shown(value)).toBe(expected);
  });

  it('shown escapes what JSON leaves as it is: control characters, and those that turn the text around', () => {
    expect(shown('a\u0007\u007f\u0085\u009b2J\u2028\u202e\ufeffz')).toBe(
      String.raw`"a\u0007\u007f\u0085\u009b2J\u2028\u202e\ufeffz"`,
    );
    expect(shown('é ẞ € 漢字 𝄞')).toBe('"é ẞ € 漢字 𝄞"');
  });

  it('shown cuts at 100 characters, and says so', () => {
    expect(shown('x'.repeat(98))).toBe(`"${'x'.repeat(98)}"`);
    expect(shown('x'.repeat(99))).toBe(`"${'x'.repeat(99)}…`);
    expect(shown('x'.repeat(1_000_000))).toBe(`"${'x'.repeat(99)}…`);
    expect(shown({ a: 'x'.repeat(200) })).toHaveLength(101);
  });
});

describe('printable', () => {
  it('printable escapes every character that changes a terminal, but neither tabs nor ends of lines', () => {
    const text = 'a\r\u001b[2J\u0085\u009b2J\u061c\u200d\u2028\u2029\u202e\u2066\ufff9\u{e0041}z';
    expect(printable(text)).toBe(
      String.raw`a\u000d\u001b[2J\u0085\u009b2J\u061c\u200d\u2028\u2029\u202e\u2066\ufff9\udb40\udc41z`,
    );
    expect(printable('Error: é 漢字 𝄞\n\tat run')).toBe('Error: é 漢字 𝄞\n\tat run');
  });

  it('printable keeps the meaning of JSON', () => {
    const value = { text: '\\\u0085"\u2028\u{e0041}' };
    expect(JSON.parse(printable(JSON.stringify(value)))).toEqual(value);
  });
});
