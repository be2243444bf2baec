import { describe, expect, it } from 'vitest';

import { decodeHeaderValue, encodeHeaderValue, headerText } from './headers.js';

const encoded = (text: string): string => `=?base64?${Buffer.from(text, 'utf8').toString('base64')}?=`;

describe('encodeHeaderValue (C13)', () => {
  it('encodeHeaderValue sends visible ASCII, numbers and booleans as they are', () => {
    const cases = [
      ['us-west1', 'us-west1'],
      ['a b\tc', 'a b\tc'],
      ['~', '~'],
      ['=?base64?', '=?base64?'],
      ['=?BASE64?eA==?=', '=?BASE64?eA==?='],
      [42, '42'],
      [-7, '-7'],
      [0, '0'],
      [1.5, '1.5'],
      [Number.MAX_SAFE_INTEGER, '9007199254740991'],
      [true, 'true'],
      [false, 'false'],
    ] as const;
    for (const [value, sent] of cases) expect([value, encodeHeaderValue(value)]).toEqual([value, sent]);
  });

  // The examples of the specification, and more.
  it('encodeHeaderValue encodes all other texts', () => {
    const cases = [
      ['Hello, 世界', '=?base64?SGVsbG8sIOS4lueVjA==?='],
      [' padded ', '=?base64?IHBhZGRlZCA=?='],
      ['line1\nline2', '=?base64?bGluZTEKbGluZTI=?='],
      ['=?base64?literal?=', '=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?='],
      ['', '=?base64??='],
      ['=?base64?=', encoded('=?base64?=')],
      ['a\t', encoded('a\t')],
      ['a\r\nX-Evil: 1', encoded('a\r\nX-Evil: 1')],
      ['\u007F', encoded('\u007F')],
      ['\uFEFFa', encoded('\uFEFFa')],
      ['👩‍🚀', encoded('👩‍🚀')],
    ] as const;
    for (const [value, sent] of cases) expect([value, encodeHeaderValue(value)]).toEqual([value, sent]);
  });

  it('encodeHeaderValue does not send what is no text, boolean or safe number', () => {
    const cases = [undefined, null, {}, [], ['a'], NaN, Infinity, 2 ** 53, -1e300, 1n, Symbol('x'), () => 1] as const;
    for (const value of cases) {
      expect(encodeHeaderValue(value)).toBeUndefined();
      expect(headerText(value)).toBeUndefined();
    }
  });

  it('encodeHeaderValue encodes what is long', () => {
    const long = 'ä'.repeat(200_000);
    expect(decodeHeaderValue(encodeHeaderValue(long)!)).toBe(long);
  });
});

describe('decodeHeaderValue (M4)', () => {
  it('decodeHeaderValue takes a text without both marks literally', () => {
    const cases = [
      'us-west1',
      '',
      'SGVsbG8=',
      '=?base64?SGVsbG8=',
      'SGVsbG8=?=',
      '=?Base64?SGVsbG8=?=',
      'a =?base64?eA==?=',
    ] as const;
    for (const value of cases) expect(decodeHeaderValue(value)).toBe(value);
  });

  it('decodeHeaderValue decodes what is marked', () => {
    expect(decodeHeaderValue('=?base64?SGVsbG8=?=')).toBe('Hello');
    expect(decodeHeaderValue('=?base64??=')).toBe('');
    expect(decodeHeaderValue('=?base64?=')).toBe('');
  });

  it.each([
    ['missing padding', '=?base64?SGVsbG8?='],
    ['not of the alphabet', '=?base64?SGVs!!!bG8=?='],
    ['the alphabet for URLs', '=?base64?_-__?='],
    ['white space', '=?base64?SGVs bG8=?='],
    ['too much padding', '=?base64?eA===?='],
    ['stray bits', '=?base64?eB==?='],
    ['not UTF-8', '=?base64?/w==?='],
    ['half a character', '=?base64?4pyF4pw=?='],
    ['a surrogate in UTF-8', '=?base64?7aCA?='],
    ['not ASCII', 'é'],
    ['a control character', 'a\u0001'],
    ['not ASCII within the marks', '=?base64?é?='],
  ])('decodeHeaderValue refuses %s', (_, value) => {
    expect(decodeHeaderValue(value)).toBeUndefined();
  });

  it('decodeHeaderValue gives back whatever was encoded', () => {
    const parts = [
      'a',
      ' ',
      '\t',
      '\n',
      'é',
      '世',
      '👩',
      '=?base64?',
      '?=',
      '\u0000',
      '\uFEFF',
      '\u007F',
      '+',
      '/',
      '=',
    ];
    let seed = 7;
    const random = (below: number): number => (seed = (seed * 48_271) % 2_147_483_647) % below;
    for (let round = 0; round < 2_000; round++) {
      const text = Array.from({ length: random(6) }, () => parts[random(parts.length)]!).join('');
      const sent = encodeHeaderValue(text)!;
      expect(sent).toMatch(/^[!-~](?:[\t -~]*[!-~])?$/);
      expect(decodeHeaderValue(sent)).toBe(text);
    }
  });
});
