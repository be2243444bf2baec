import { describe, expect, it } from 'vitest';
import type { JsonRpcRequest } from '../wire/json-rpc.js';
import { Idempotency } from './idempotency.js';

const request = (method: string, params?: Record<string, unknown>): JsonRpcRequest =>
  params ? { jsonrpc: '2.0', id: 1, method, params } : { jsonrpc: '2.0', id: 1, method };
const call = (name: string): JsonRpcRequest => request('tools/call', { name });

describe('Idempotency', () => {
  it('C7: knows the methods that may run twice, and the tools that say so', () => {
    const known = new Idempotency('idempotent');
    const list = request('tools/list');
    const annotated = (name: string, annotations?: object) => ({ name, annotations });
    const tools = [annotated('reads', { readOnlyHint: true }), annotated('sets', { idempotentHint: true })];
    known.learn(list, { tools: [...tools, annotated('buys', { idempotentHint: false }), annotated('any'), null] });
    known.learn(request('tools/call'), { tools: [annotated('any', { readOnlyHint: true })] });
    const may = (each: JsonRpcRequest) => known.mayReplay(each, 'no-answer');
    expect(['reads', 'sets', 'buys', 'any', 'unheard'].map((name) => may(call(name)))).toEqual([
      ...[true, true, false, false, false],
    ]);
    expect(['tools/list', 'initialize', 'ping', 'custom/method'].map((method) => may(request(method)))).toEqual([
      ...[true, true, true, false],
    ]);
    // It may think otherwise later.
    known.learn(list, { tools: [annotated('sets')] });
    expect(may(call('sets'))).toBe(false);
    known.learn(list, { tools: 'none' });
  });

  it('leaves it to whoever decides otherwise; a subscription is never begun again', () => {
    expect(new Idempotency('always').mayReplay(call('buys'), 'no-answer')).toBe(true);
    expect(new Idempotency('never').mayReplay(request('ping'), 'no-answer')).toBe(false);
    const asked: unknown[] = [];
    const decided = new Idempotency((question) => asked.push(question) === 1);
    expect(decided.mayReplay(call('buys'), 'session-lost')).toBe(true);
    expect(decided.mayReplay(request('ping'), 'stream-lost')).toBe(false);
    expect(asked).toMatchObject([
      { reason: 'session-lost', idempotent: false },
      { reason: 'stream-lost', idempotent: true },
    ]);
    expect(new Idempotency('always').mayReplay(request('subscriptions/listen'), 'no-answer')).toBe(false);
  });
});
