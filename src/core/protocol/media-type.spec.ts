import { describe, expect, it } from 'vitest';

import { isJsonMediaType } from './accept.js';

describe('isJsonMediaType (E4)', () => {
  it.each([
    'application/json',
    'Application/JSON',
    'application/json; charset=utf-8',
    'application/json;charset=utf-8',
    ' application/json ; a="b,c"',
    'application/json;',
  ])('isJsonMediaType takes %j', (header) => {
    expect(isJsonMediaType(header)).toBe(true);
  });

  it.each([
    undefined,
    '',
    'text/plain',
    'text/plain; application/json',
    'text/plain;a=application/json',
    'application/jsonp',
    'application/json-patch+json',
    'application/vnd.api+json',
    'application/json, text/plain',
    'application/json\u00a0',
    'x-application/json',
  ])('isJsonMediaType refuses %j', (header) => {
    expect(isJsonMediaType(header)).toBe(false);
  });
});
