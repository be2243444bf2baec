import { describe, expect, it } from 'vitest';
import type { JsonRpcRequest, JsonRpcResponse } from '../wire/json-rpc.js';
import { withParamsError } from './malformed-params.js';

const request = (method: string, params?: object): JsonRpcRequest => ({
  ...{ jsonrpc: '2.0', id: 1, method },
  ...(params && { params: params as Record<string, unknown> }),
});
const failed = (code: number): JsonRpcResponse => ({ jsonrpc: '2.0', id: 1, error: { code, message: 'as it was' } });

describe('withParamsError', () => {
  it('says what is wrong with parameters of which the SDK says "internal error"', () => {
    expect(withParamsError(failed(-32603), request('tools/list', { cursor: 5 }))).toEqual({
      ...{ jsonrpc: '2.0', id: 1 },
      error: { code: -32602, message: expect.stringMatching(/"tools\/list".*"params\.cursor"/) },
    });
    expect(withParamsError(failed(-32603), request('resources/read'))).toMatchObject({ error: { code: -32602 } });
  });

  it('leaves other answers as they are', () => {
    const result: JsonRpcResponse = { jsonrpc: '2.0', id: 1, result: { tools: [] } };
    for (const [answer, asked] of [
      [result, request('tools/list', { cursor: 5 })],
      [failed(-32000), request('tools/list', { cursor: 5 })],
      [failed(-32603), request('tools/list', { cursor: 'x' })],
      [failed(-32603), request('tools/list')],
      [failed(-32603), request('constructor')],
      [failed(-32603), request('app/own', { cursor: 5 })],
    ] as const) {
      expect(withParamsError(answer, asked)).toBe(answer);
    }
  });
});
