import { describe, expect, it } from 'vitest';
import { headerValue, mirrored } from './trial-client.js';

describe('headers of a modern request', () => {
  it.each([
    ['find_order', 'find_order'],
    ['Hello, 世界', '=?base64?SGVsbG8sIOS4lueVjA==?='],
    [' padded ', '=?base64?IHBhZGRlZCA=?='],
    ['=?base64?literal?=', '=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?='],
    ['', '=?base64??='],
  ])('the value %j is %j', (text, value) => expect(headerValue(text)).toBe(value));

  it('headers of a modern request repeat the arguments whose schema says so', () => {
    const region = { type: 'string', 'x-mcp-header': 'Region' };
    const schema = { properties: { region, to: { properties: { zip: { 'x-mcp-header': 'Zip' } } }, other: {} } };
    expect(mirrored(schema, { region: 'eu', to: { zip: 7 }, other: 1 })).toEqual({
      'mcp-param-region': 'eu',
      'mcp-param-zip': '7',
    });
    expect(mirrored(schema, {})).toEqual({});
  });
});
