import { describe, expect, it } from 'vitest';

import { errorResponse, limitReached, McpError, type McpErrorCode, refusalOf } from './errors.js';

const TABLE: [McpErrorCode, number, number][] = [
  ['PARSE_ERROR', 400, -32700],
  ['INVALID_REQUEST', 400, -32600],
  ['BAD_REQUEST', 400, -32000],
  ['INVALID_PARAMS', 400, -32602],
  ['HEADER_MISMATCH', 400, -32020],
  ['MISSING_CLIENT_CAPABILITY', 400, -32021],
  ['UNSUPPORTED_PROTOCOL_VERSION', 400, -32022],
  ['FORBIDDEN_HOST', 403, -32000],
  ['FORBIDDEN_ORIGIN', 403, -32000],
  ['SESSION_NOT_FOUND', 404, -32001],
  ['METHOD_NOT_FOUND', 404, -32601],
  ['METHOD_NOT_ALLOWED', 405, -32000],
  ['NOT_ACCEPTABLE', 406, -32000],
  ['REQUEST_TIMEOUT', 408, -32000],
  ['PAYLOAD_TOO_LARGE', 413, -32000],
  ['UNSUPPORTED_MEDIA_TYPE', 415, -32000],
  ['TOO_MANY_REQUESTS', 429, -32000],
  ['TOO_MANY_SESSIONS', 429, -32000],
  ['INTERNAL_ERROR', 500, -32603],
  ['UNAVAILABLE', 503, -32000],
];

describe('McpError', () => {
  it.each(TABLE)('%s is %d and %d', (code, status, rpcCode) => {
    const error = new McpError(code, 'Why.');
    expect(error).toMatchObject({ code, status, rpcCode, requestId: null, message: 'Why.', name: 'McpError' });
    expect(error).toBeInstanceOf(Error);
    expect(error).not.toHaveProperty('cause');
    expect(JSON.stringify(error.toResponse())).toBe(
      `{"jsonrpc":"2.0","id":null,"error":{"code":${rpcCode},"message":"Why."}}`,
    );
  });

  it('McpError carries what it is given', () => {
    const cause = new Error('secret');
    const headers = { 'retry-after': '5' };
    const error = new McpError('UNAVAILABLE', 'Later.', { data: { a: 1 }, headers, requestId: 0, cause });
    expect(error).toMatchObject({ data: { a: 1 }, headers, requestId: 0, cause });
    expect(error.toResponse()).toEqual({
      jsonrpc: '2.0',
      id: 0,
      error: { code: -32000, message: 'Later.', data: { a: 1 } },
    });
  });

  it('McpError sends neither stack nor cause', () => {
    const text = JSON.stringify(new McpError('INTERNAL_ERROR', 'Sorry.', { cause: new Error('secret') }).toResponse());
    expect(text).not.toMatch(/secret|spec\.ts/);
  });
});

describe('refusalOf', () => {
  it('M6: refusalOf is 400 for a client without a capability, from any copy of the SDK', () => {
    const data = { requiredCapabilities: { roots: {} } };
    const thrown = Object.assign(new Error('No roots.'), { code: -32021, data });
    expect(refusalOf(thrown)).toMatchObject({ status: 400, rpcCode: -32021, message: 'No roots.', data });
  });

  it('refusalOf is an McpError itself, and nothing for any other value', () => {
    const refusal = new McpError('UNAVAILABLE', 'Later.');
    expect(refusalOf(refusal)).toBe(refusal);
    for (const other of [undefined, new Error('x'), { code: -32602, message: 'x' }]) {
      expect(refusalOf(other)).toBeUndefined();
    }
  });
});

describe('errorResponse', () => {
  it('errorResponse leaves out data that is undefined, and keeps data that is null', () => {
    expect(Object.keys(errorResponse(1, -1, 'x').error)).toEqual(['code', 'message']);
    expect(errorResponse('', -1, 'x', null)).toEqual({
      jsonrpc: '2.0',
      id: '',
      error: { code: -1, message: 'x', data: null },
    });
  });
});

describe('a refusal that passes', () => {
  it('D47: a refusal that passes says when, in its header and in its data', () => {
    const refusal = limitReached('TOO_MANY_REQUESTS', { of: 'caller', max: 2, what: 'tasks', option: 'maxTasks' });
    expect(refusal.headers).toEqual({ 'Retry-After': '5' });
    expect(refusal.toResponse().error.data).toEqual({ retryAfter: 5 });
  });
});
