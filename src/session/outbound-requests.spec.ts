import { describe, expect, it } from 'vitest';
import { ManualClock } from '../testing/index.js';
import type { JsonRpcNotification, JsonRpcRequest, JsonRpcResponse, RequestId } from '../wire/json-rpc.js';
import { OutboundRequests } from './outbound-requests.js';
import type { SessionCall } from './session-call.js';

const TIMEOUT_MS = 1_000;

function setup(prefix = 'p') {
  const clock = new ManualClock();
  const settled: JsonRpcResponse[] = [];
  const recalled: [JsonRpcNotification, SessionCall | undefined][] = [];
  const requests = new OutboundRequests(prefix, clock, TIMEOUT_MS, {
    storeAwaySince: () => false,
    settle: (response) => settled.push(response),
    recall: async (cancelled, call) => void recalled.push([cancelled, call]),
  });
  return { clock, requests, settled, recalled };
}

function request(id: RequestId, params: JsonRpcRequest['params'] = {}): JsonRpcRequest {
  return { jsonrpc: '2.0', id, method: 'elicitation/create', params };
}

function notification(method: string, params: Record<string, unknown>): JsonRpcNotification {
  return { jsonrpc: '2.0', method, params };
}

const result = (id: RequestId): JsonRpcResponse => ({ jsonrpc: '2.0', id, result: { action: 'accept' } });
/** A call is only told from another one. */
const someCall = (): SessionCall => ({}) as unknown as SessionCall;

describe('a request of the server', () => {
  it('goes out under an id of its own, and comes back under that of the SDK', () => {
    const { clock, requests, settled } = setup();
    const outward = requests.issue(request(0, { message: 'yes?' }), undefined);
    expect(outward).toEqual({ ...request(0, { message: 'yes?' }), id: 'p-1' });
    expect([requests.size, clock.pending]).toEqual([1, 1]);
    expect(requests.answered(result('p-1'))).toBe(true);
    expect(settled).toEqual([result(0)]);
    expect([requests.size, clock.pending]).toEqual([0, 0]);
  });

  it('has an id that no other copy of the session uses', () => {
    const ids = ['a', 'b'].flatMap((prefix) => {
      const { requests } = setup(prefix);
      return [0, 1].map((id) => requests.issue(request(id), undefined).id);
    });
    expect(new Set(ids).size).toBe(4);
  });

  it('is answered once: a second answer, or one of the SDK id, is nobody’s', () => {
    const { requests, settled } = setup();
    requests.issue(request(0), undefined);
    expect(requests.answered(result(0))).toBe(false);
    expect(requests.answered(result('p-1'))).toBe(true);
    expect(requests.answered(result('p-1'))).toBe(false);
    expect(requests.answered(result('__proto__'))).toBe(false);
    expect(requests.answered({ jsonrpc: '2.0', error: { code: -32700, message: 'no id' } })).toBe(false);
    expect(settled).toHaveLength(1);
  });

  it('is answered with an error as with a result', () => {
    const { requests, settled } = setup();
    requests.issue(request(3), undefined);
    requests.answered({ jsonrpc: '2.0', id: 'p-1', error: { code: -1, message: 'declined' } });
    expect(settled).toEqual([{ jsonrpc: '2.0', id: 3, error: { code: -1, message: 'declined' } }]);
  });

  it('that could not be sent leaves nothing', () => {
    const { clock, requests, settled } = setup();
    requests.issue(request(0), undefined);
    requests.withdraw(0);
    requests.withdraw(0);
    expect([requests.size, clock.pending, settled]).toEqual([0, 0, []]);
  });
});

describe('its progress token', () => {
  it('is replaced outward and mapped back, and nothing else of it is touched', () => {
    const { requests } = setup();
    const params = { message: 'x', _meta: { progressToken: 0, other: true } };
    const outward = requests.issue(request(0, params), undefined);
    expect(outward.params).toEqual({ message: 'x', _meta: { progressToken: 'p-1', other: true } });
    expect(params._meta.progressToken).toBe(0);
    const progress = notification('notifications/progress', { progressToken: 'p-1', progress: 5 });
    expect(requests.progressed(progress)?.params).toEqual({ progressToken: 0, progress: 5 });
  });

  it('of a request that is over, or that was never made, is nobody’s', () => {
    const { requests } = setup();
    requests.issue(request(0), undefined);
    requests.answered(result('p-1'));
    for (const progressToken of ['p-1', 'p-2', 0, undefined]) {
      expect(requests.progressed(notification('notifications/progress', { progressToken }))).toBeUndefined();
    }
    expect(requests.progressed({ jsonrpc: '2.0', method: 'notifications/progress' })).toBeUndefined();
  });
});

describe('a request that the server gives up', () => {
  it('is recalled under the id that the client knows, on the way that it went', async () => {
    const { clock, requests, recalled, settled } = setup();
    const call = someCall();
    requests.issue(request(7), call);
    await requests.cancelled(notification('notifications/cancelled', { requestId: 7, reason: 'enough' }));
    const outward = notification('notifications/cancelled', { requestId: 'p-1', reason: 'enough' });
    expect(recalled).toEqual([[outward, call]]);
    expect([requests.size, clock.pending, settled]).toEqual([0, 0, []]);
  });

  it('and that never went out, or is over, needs no recall', async () => {
    const { requests, recalled } = setup();
    await requests.cancelled(notification('notifications/cancelled', { requestId: 7 }));
    await requests.cancelled({ jsonrpc: '2.0', method: 'notifications/cancelled' });
    expect(recalled).toEqual([]);
  });
});

describe('a request without an answer', () => {
  it('ends when its time is over: the server hears an error, the client that it is not wanted any more', async () => {
    const { clock, requests, settled, recalled } = setup();
    requests.issue(request(0), undefined);
    await clock.advance(TIMEOUT_MS - 1);
    expect(settled).toEqual([]);
    await clock.advance(1);
    expect(settled).toMatchObject([{ id: 0, error: { code: -32001 } }]);
    expect(recalled).toMatchObject([[{ method: 'notifications/cancelled', params: { requestId: 'p-1' } }, undefined]]);
    expect(requests.answered(result('p-1'))).toBe(false);
    expect([requests.size, clock.pending]).toEqual([0, 0]);
  });

  it('ends with the call that it was made for, and with no other', () => {
    const { clock, requests, settled } = setup();
    const [one, other] = [someCall(), someCall()];
    requests.issue(request(0), one);
    requests.issue(request(1), other);
    requests.issue(request(2), undefined);
    requests.issue(request(3), one);
    requests.failOf(one);
    expect(settled.map(({ id }) => id)).toEqual([0, 3]);
    expect(settled).toMatchObject([{ error: { code: -32000 } }, { error: { code: -32000 } }]);
    expect([requests.size, clock.pending]).toEqual([2, 2]);
    requests.failOf(one);
    expect(settled).toHaveLength(2);
  });

  it('ends with the session, which tells the SDK by itself', () => {
    const { clock, requests, settled } = setup();
    for (const id of [0, 1, 2]) requests.issue(request(id), undefined);
    requests.clear();
    expect([requests.size, clock.pending, settled]).toEqual([0, 0, []]);
    expect(requests.answered(result('p-1'))).toBe(false);
  });
});
