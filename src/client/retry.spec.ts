import { describe, expect, it } from 'vitest';
import { ManualClock } from '../testing/index.js';
import type { JsonRpcRequest } from '../core/protocol/json-rpc.js';
import { delayMs, Idempotency, LONGEST_WAIT_MS, retryAfterMs } from './retry.js';
import { abortable, pause } from './waiting.js';

const POLICY = { firstDelayMs: 100, maxDelayMs: 1_000, maxAttempts: 5 };
const least = () => 0;
const most = () => 1;

describe('delayMs', () => {
  it('delayMs doubles up to the limit, and takes a random part of it', () => {
    expect([0, 1, 2, 3, 4, 50].map((failures) => delayMs(POLICY, failures, undefined, most))).toEqual([
      100, 200, 400, 800, 1_000, 1_000,
    ]);
    expect(delayMs(POLICY, 4, undefined, least)).toBe(0);
    expect(delayMs(POLICY, 0, undefined, () => 0.5)).toBe(50);
  });

  it('C4: what the server asks for is waited exactly after a good connection, and at least afterwards', () => {
    expect(delayMs(POLICY, 0, 30, most)).toBe(30);
    expect(delayMs(POLICY, 0, 0, most)).toBe(10);
    expect(delayMs(POLICY, 1, 5_000, most)).toBe(5_000);
    expect(delayMs(POLICY, 3, 30, most)).toBe(800);
  });

  it('up to the longest wait', () => {
    expect(delayMs(POLICY, 0, Number.MAX_SAFE_INTEGER, most)).toBe(LONGEST_WAIT_MS);
  });
});

describe('retryAfterMs', () => {
  const now = Date.UTC(2026, 0, 1);
  it.each([
    ['3', 3_000],
    [' 0 ', 0],
    ['Thu, 01 Jan 2026 00:00:05 GMT', 5_000],
    ['Wed, 31 Dec 2025 00:00:00 GMT', 0],
    ['soon', undefined],
    ['nevermind', undefined],
    ['-1.5.', undefined],
    [null, undefined],
  ])('%j is %j', (header, expected) => {
    expect(retryAfterMs(header, now)).toBe(expected);
  });
});

describe('pause and abortable', () => {
  it('an abort ends the pause, and its timer', async () => {
    const clock = new ManualClock();
    const controller = new AbortController();
    const waiting = pause(100, clock, controller.signal);
    controller.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    await expect(pause(100, clock, controller.signal)).rejects.toThrow('enough');
    expect(clock.pending).toBe(0);
  });

  it('abortable leaves a promise that cannot be ended', async () => {
    const controller = new AbortController();
    const waiting = abortable(new Promise(() => {}), controller.signal);
    controller.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    await expect(abortable(Promise.reject(new Error('late')), controller.signal)).rejects.toThrow('enough');
    expect(await abortable(Promise.resolve(1), new AbortController().signal)).toBe(1);
  });
});

const request = (method: string, params?: Record<string, unknown>): JsonRpcRequest =>
  params ? { jsonrpc: '2.0', id: 1, method, params } : { jsonrpc: '2.0', id: 1, method };
const call = (name: string): JsonRpcRequest => request('tools/call', { name });

describe('Idempotency', () => {
  it('C7: Idempotency knows the methods that may run twice, and the tools that say so', () => {
    const known = new Idempotency('idempotent');
    const list = request('tools/list');
    const annotated = (name: string, annotations?: object) => ({ name, annotations });
    const tools = [annotated('reads', { readOnlyHint: true }), annotated('sets', { idempotentHint: true })];
    known.learn(list, { tools: [...tools, annotated('buys', { idempotentHint: false }), annotated('any'), null] });
    known.learn(request('tools/call'), { tools: [annotated('any', { readOnlyHint: true })] });
    const may = (each: JsonRpcRequest) => known.mayReplay(each);
    expect(['reads', 'sets', 'buys', 'any', 'unheard'].map((name) => may(call(name)))).toEqual([
      true,
      true,
      false,
      false,
      false,
    ]);
    expect(['tools/list', 'initialize', 'ping', 'custom/method'].map((method) => may(request(method)))).toEqual([
      true,
      true,
      true,
      false,
    ]);
    // It may think otherwise later.
    known.learn(list, { tools: [annotated('sets')] });
    expect(may(call('sets'))).toBe(false);
    known.learn(list, { tools: 'none' });
  });

  it('Idempotency follows the option; a subscription is never begun again', () => {
    expect(new Idempotency('always').mayReplay(call('buys'))).toBe(true);
    expect(new Idempotency('never').mayReplay(request('ping'))).toBe(false);
    const asked: unknown[] = [];
    const decided = new Idempotency(({ method }) => asked.push(method) === 1);
    expect(decided.mayReplay(call('buys'))).toBe(true);
    expect(decided.mayReplay(request('ping'))).toBe(false);
    expect(asked).toEqual(['tools/call', 'ping']);
    expect(new Idempotency('always').mayReplay(request('subscriptions/listen'))).toBe(false);
  });
});
