import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import type { McpCall, OutboundOptions } from '../../calls/mcp-call.js';
import { McpServerRequestError } from '../../calls/server-request.error.js';
import { ManualClock } from '../../../testing/index.js';
import { REQUEST_TIMEOUT } from '../../protocol/errors.js';
import type { JsonRpcNotification, JsonRpcResponse, RequestId } from '../../protocol/json-rpc.js';
import { sdk } from '../../protocol/spec.js';
import { issuerElsewhere, OutboundRequests } from './outbound-requests.js';

const TIMEOUT_MS = 1_000;
const MESSAGE = { method: 'elicitation/create', params: { message: 'yes?' } };
const ANSWER = { action: 'accept' };

function setup(prefix = 'p', recall: () => Promise<void> = async () => {}) {
  const clock = new ManualClock();
  const recalled: [JsonRpcNotification, McpCall | undefined][] = [];
  const requests = new OutboundRequests(prefix, clock, TIMEOUT_MS, (cancelled, call) => {
    recalled.push([cancelled, call]);
    return recall();
  });
  /** Issues a request, and notes how it ends. */
  const issue = (
    options: OutboundOptions = {},
    call?: McpCall,
    message: Parameters<typeof requests.issue>[0] = MESSAGE,
  ) => {
    const { message: outward, answer } = requests.issue(message, options, call);
    const request: Issued = { message: outward, answer, outcome: 'waits' };
    answer.then(
      (result) => (request.outcome = result),
      (error: unknown) => (request.outcome = error),
    );
    return request;
  };
  /** Nothing waits, and nothing is kept for it. */
  const expectNothingLeft = (...signals: AbortSignal[]) => {
    const listeners = signals.flatMap((signal) => getEventListeners(signal, 'abort'));
    expect({ waiting: requests.size, timers: clock.pending, listeners }).toEqual({
      waiting: 0,
      timers: 0,
      listeners: [],
    });
  };
  return { clock, requests, recalled, issue, expectNothingLeft };
}

interface Issued {
  readonly message: ReturnType<OutboundRequests['issue']>['message'];
  readonly answer: Promise<unknown>;
  /** The answer, or the error; `waits` until there is one. */
  outcome: unknown;
}

const result = (id: RequestId): JsonRpcResponse => ({ jsonrpc: '2.0', id, result: ANSWER });
const progress = (progressToken: unknown, report: object = { progress: 1 }): JsonRpcNotification => ({
  jsonrpc: '2.0',
  method: 'notifications/progress',
  params: { progressToken, ...report },
});
/** What the client is told of a request that it need not answer any more. */
const recallOf = (requestId: RequestId, reason: unknown = expect.any(String)) => ({
  jsonrpc: '2.0',
  method: 'notifications/cancelled',
  params: { requestId, reason },
});
/** A call is only told from another one. */
const someCall = (): McpCall => ({}) as unknown as McpCall;

describe('a request of the server', () => {
  it('a request of the server goes out under an id of the session, and its answer is the result as it came', async () => {
    const { requests, clock, issue, expectNothingLeft } = setup();
    const { message, answer } = issue();
    expect(message).toEqual({ jsonrpc: '2.0', id: 'p-1', ...MESSAGE });
    expect([requests.size, clock.pending]).toEqual([1, 1]);
    expect(requests.answered(result('p-1'))).toBe(true);
    expect(await answer).toBe(ANSWER);
    expectNothingLeft();
  });

  it('a request of the server has no parameters if it was given none', () => {
    expect(setup().issue({}, undefined, { method: 'ping' }).message).toEqual({
      jsonrpc: '2.0',
      id: 'p-1',
      method: 'ping',
    });
  });

  it('a request of the server has an id that no other copy of the session uses', () => {
    const ids = ['a', 'b'].flatMap((prefix) => {
      const { issue } = setup(prefix);
      return [issue(), issue()].map(({ message }) => message.id);
    });
    expect(new Set(ids).size).toBe(4);
  });

  it('D24: a request of the server that could not be sent fails with the reason, and leaves nothing', async () => {
    const { requests, recalled, issue, expectNothingLeft } = setup();
    const { signal } = new AbortController();
    const { answer } = issue({ signal });
    requests.withdraw('p-1', new Error('no log'));
    requests.withdraw('p-1', new Error('again'));
    await expect(answer).rejects.toThrow('no log');
    expect(recalled).toEqual([]);
    expectNothingLeft(signal);
  });
});

describe('D25: progress of the client', () => {
  it('progress of the client is asked for with the id as the token, and the message that was given is not touched', () => {
    const { issue } = setup();
    const message = { method: 'elicitation/create', params: { message: 'x', _meta: { other: true } } };
    const { params } = issue({ onprogress: () => {} }, undefined, message).message;
    expect(params).toEqual({ message: 'x', _meta: { other: true, progressToken: 'p-1' } });
    expect(message.params._meta).toEqual({ other: true });
    expect(issue({ onprogress: () => {} }, undefined, { method: 'ping' }).message.params).toEqual({
      _meta: { progressToken: 'p-2' },
    });
    expect(issue().message.params).toEqual(MESSAGE.params);
  });

  it('progress of the client of a request that is over, or that never was, has no effect', () => {
    const { requests, issue } = setup();
    const heard: unknown[] = [];
    issue({ onprogress: (report) => heard.push(report) });
    requests.answered(result('p-1'));
    for (const token of ['p-1', 'p-2', 0, undefined, null, {}, '__proto__']) {
      expect(requests.progressed(progress(token))).toBe(false);
    }
    expect(requests.progressed({ jsonrpc: '2.0', method: 'notifications/progress' })).toBe(false);
    expect(heard).toEqual([]);
  });
});

describe('D24: a request that its signal gives up', () => {
  it.each([
    [new Error('enough'), 'enough'],
    ['enough', 'enough'],
    [undefined, 'This operation was aborted'],
  ])(
    'a request that its signal gives up fails with CANCELLED, and is cancelled at the client by the route that it was sent on: %s',
    async (reason, text) => {
      const { requests, recalled, issue, expectNothingLeft } = setup();
      const [abort, call] = [new AbortController(), someCall()];
      const { answer } = issue({ signal: abort.signal }, call);
      issue({ signal: abort.signal });
      abort.abort(reason);
      await expect(answer).rejects.toBeInstanceOf(McpServerRequestError);
      await expect(answer).rejects.toMatchObject({ code: 'CANCELLED', message: text });
      expect(recalled).toEqual([
        [recallOf('p-1', text), call],
        [recallOf('p-2', text), undefined],
      ]);
      expect(requests.answered(result('p-1'))).toBe(false);
      expectNothingLeft(abort.signal);
    },
  );

  it('a request that its signal gives up is not listened to any more when the request is over, however it ended', async () => {
    const { requests, clock, recalled, issue, expectNothingLeft } = setup();
    const abort = new AbortController();
    const { signal } = abort;
    const call = someCall();
    const made = [issue({ signal }), issue({ signal }), issue({ signal, timeoutMs: 5 }), issue({ signal }, call)];
    issue({ signal });
    expect(getEventListeners(signal, 'abort')).toHaveLength(5);
    requests.answered(result(made[0]!.message.id));
    requests.answered({ jsonrpc: '2.0', id: made[1]!.message.id, error: { code: -1, message: 'no' } });
    await clock.advance(5);
    requests.failOf(call);
    requests.failAll();
    expectNothingLeft(signal);
    abort.abort();
    expect(recalled).toEqual([[recallOf(made[2]!.message.id), undefined]]);
  });
});

describe('D24: a request without an answer', () => {
  it('a request without an answer fails when its time is over, and is cancelled at the client', async () => {
    const { clock, requests, recalled, issue, expectNothingLeft } = setup();
    const request = issue();
    await clock.advance(TIMEOUT_MS - 1);
    expect(request.outcome).toBe('waits');
    await clock.advance(1);
    expect(request.outcome).toBeInstanceOf(sdk.ProtocolError);
    expect(request.outcome).toMatchObject({
      code: REQUEST_TIMEOUT,
      message: expect.stringContaining('1000 ms ("serverRequestTimeoutMs")'),
    });
    expect(recalled).toEqual([[recallOf('p-1'), undefined]]);
    expect(requests.answered(result('p-1'))).toBe(false);
    expectNothingLeft();
  });

  it('D25: a request without an answer waits for the time that its caller sets, but never for more than the option', async () => {
    const { clock, issue } = setup();
    const [short, long] = [issue({ timeoutMs: 10 }), issue({ timeoutMs: 10 * TIMEOUT_MS })];
    await clock.advance(10);
    expect([short.outcome, long.outcome]).toEqual([expect.objectContaining({ code: REQUEST_TIMEOUT }), 'waits']);
    await clock.advance(TIMEOUT_MS - 10);
    expect(long.outcome).toMatchObject({ code: REQUEST_TIMEOUT });
  });

  it('a request without an answer fails also when the cancellation cannot be sent to the client', async () => {
    const { clock, issue, expectNothingLeft } = setup('p', () => Promise.reject(new Error('no log')));
    const request = issue();
    await clock.advance(TIMEOUT_MS);
    expect(request.outcome).toMatchObject({ code: REQUEST_TIMEOUT });
    expectNothingLeft();
  });

  it('a request without an answer ends with the call that it was made for, and with no other', async () => {
    const { clock, requests, recalled, issue } = setup();
    const [one, other] = [someCall(), someCall()];
    const made = [issue({}, one), issue({}, other), issue(), issue({}, one)];
    requests.failOf(one);
    requests.failOf(one);
    await clock.advance(0);
    const over = expect.objectContaining({ name: 'McpServerRequestError', code: 'CALL_OVER' });
    expect(made.map(({ outcome }) => outcome)).toEqual([over, 'waits', 'waits', over]);
    // The client knows that its call is over.
    expect([requests.size, clock.pending, recalled]).toEqual([2, 2, []]);
  });

  it('a request without an answer does not end the process by an answer that is not awaited', async () => {
    const { requests } = setup();
    for (let n = 0; n < 3; n++) requests.issue(MESSAGE, {}, undefined);
    requests.withdraw('p-1', new Error('no log'));
    requests.answered({ jsonrpc: '2.0', id: 'p-2', error: { code: -1, message: 'no' } });
    requests.failAll();
    // An unhandled rejection fails the run of the tests.
    await new Promise(setImmediate);
  });
});

describe('D25: the time limit and progress', () => {
  it('the time limit of a request ends at maxTotalTimeoutMs without any progress, too', async () => {
    const { clock, issue } = setup();
    const request = issue({ maxTotalTimeoutMs: 50 });
    await clock.advance(50);
    expect(request.outcome).toMatchObject({ code: REQUEST_TIMEOUT, message: expect.stringContaining('50 ms.') });
  });
});

it('the error of an unanswered request names the node that waits, if that is another one', () => {
  expect(issuerElsewhere('a-x-1', 'a')).toBeUndefined();
  expect(issuerElsewhere('b-x-1', 'a')).toBe('b');
  for (const id of [1, undefined, null, 'noprefix', '-1', `${'x'.repeat(65)}-1`, 'a b-1']) {
    expect(issuerElsewhere(id, 'a')).toBeUndefined();
  }
});
