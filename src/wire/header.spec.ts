import { describe, expect, it } from 'vitest';

import { LAST_EVENT_ID_HEADER, PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER, singleHeader } from './header.js';

describe('singleHeader', () => {
  it.each([
    [undefined, undefined],
    ['a', 'a'],
    ['', ''],
    [[], undefined],
    [['a'], 'a'],
    [['a', 'b'], 'a, b'],
  ])('reads %j as %j', (value, expected) => {
    expect(singleHeader(value)).toBe(expected);
  });

  it('knows the names as Node spells them', () => {
    for (const name of [SESSION_ID_HEADER, PROTOCOL_VERSION_HEADER, LAST_EVENT_ID_HEADER]) {
      expect(name).toBe(name.toLowerCase());
    }
  });
});
