import { describe, expect, it } from 'vitest';
import { type CallingClient, McpCall, type McpHttpCall, runInCall } from '../../calls/mcp-call.js';
import type { RequestId } from '../../protocol/json-rpc.js';
import { CancelledRequests, RelatedCalls } from './related-calls.js';

const HTTP: McpHttpCall = { era: 'legacy', principal: undefined, request: undefined };

/** A session is only told from another one. */
const someSession = (): CallingClient => ({
  identity: () => ({ protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'spec', version: '1' } }),
  wantsLog: () => true,
  notify: () => Promise.resolve(),
  request: () => Promise.resolve({}),
});

function setup() {
  const session = someSession();
  const running = new Map<RequestId, McpCall>();
  const calls = new RelatedCalls(session, { of: (owner) => (owner === session ? running : new Map()) });
  const call = (id: RequestId, of = session) => new McpCall(HTTP, { jsonrpc: '2.0', id, method: 'tools/call' }, of);
  const begin = (id: RequestId) => {
    const begun = call(id);
    running.set(id, begun);
    calls.cancelled?.delete(id);
    return begun;
  };
  const end = (ending: McpCall, how: 'answered' | 'cancelled') => {
    if (how === 'answered') ending.answered();
    else ending.cancelled('enough');
    running.delete(ending.requestId!);
    if (ending.aborted) calls.aborted(ending);
  };
  return { session, calls, call, begin, end };
}

describe('a message of the server', () => {
  it('a message of the server belongs to no request without an id and a context that name one', () => {
    const { calls, begin } = setup();
    begin(1);
    expect(calls.related(undefined)).toEqual({ is: 'nothing' });
  });

  it('a message of the server belongs to the request that it names, or in whose context it is sent', () => {
    const { calls, begin } = setup();
    const [one, two] = [begin(1), begin(2)];
    expect(calls.related(1)).toEqual({ is: 'open', call: one });
    expect(runInCall(two, () => calls.related(undefined))).toEqual({ is: 'open', call: two });
    expect(runInCall(two, () => calls.related(1))).toEqual({ is: 'open', call: one });
  });

  it.each(['answered', 'cancelled'] as const)('a message of the server comes late when that is %s', (how) => {
    const { calls, begin, end } = setup();
    const call = begin(1);
    end(call, how);
    expect(calls.related(1)).toEqual({ is: how, requestId: 1 });
    expect(runInCall(call, () => calls.related(undefined))).toEqual({ is: how, requestId: 1 });
    expect(runInCall(call, () => calls.related(1))).toEqual({ is: how, requestId: 1 });
  });

  it('a message of the server of an unknown request is late', () => {
    expect(setup().calls.related('unknown')).toEqual({ is: 'answered', requestId: 'unknown' });
  });

  it('a message of the server belongs to the earlier of two requests with one id, if it is sent in the context of that', () => {
    const { calls, begin, end } = setup();
    const old = begin(1);
    end(old, 'cancelled');
    const fresh = begin(1);
    expect(calls.related(1)).toEqual({ is: 'open', call: fresh });
    expect(runInCall(old, () => calls.related(1))).toEqual({ is: 'cancelled', requestId: 1 });
    expect(runInCall(fresh, () => calls.related(1))).toEqual({ is: 'open', call: fresh });
    end(fresh, 'answered');
    expect(calls.related(1)).toEqual({ is: 'answered', requestId: 1 });
  });

  it('a message of the server does not belong to the request of another session in whose context it is sent', () => {
    const { calls, call, begin } = setup();
    const [here, elsewhere] = [begin(1), call(1, someSession())];
    expect(runInCall(elsewhere, () => calls.related(undefined))).toEqual({ is: 'nothing' });
    expect(runInCall(elsewhere, () => calls.related(1))).toEqual({ is: 'open', call: here });
  });

  it('a message of the server belongs to nothing in the context of a notification', () => {
    const { session, calls } = setup();
    const message = { jsonrpc: '2.0' as const, method: 'notifications/initialized' };
    const call = new McpCall(HTTP, message, session);
    expect(runInCall(call, () => calls.related(undefined))).toEqual({ is: 'nothing' });
    expect(calls.related(call)).toEqual({ is: 'nothing' });
  });
});

describe('a message of a call', () => {
  it('a message of a call belongs to that call, whatever the context says', () => {
    const { calls, begin } = setup();
    const [one, two] = [begin(1), begin(2)];
    expect(calls.related(one)).toEqual({ is: 'open', call: one });
    expect(runInCall(two, () => calls.related(one))).toEqual({ is: 'open', call: one });
  });

  it.each(['answered', 'cancelled'] as const)(
    'a message of a call comes late when that is %s, though its id is used again',
    (how) => {
      const { calls, begin, end } = setup();
      const old = begin(1);
      end(old, how);
      const fresh = begin(1);
      expect(calls.related(old)).toEqual({ is: how, requestId: 1 });
      expect(calls.related(fresh)).toEqual({ is: 'open', call: fresh });
    },
  );
});

describe('CancelledRequests', () => {
  it('CancelledRequests remembers the latest 256, whatever their ids look like', () => {
    const cancelled = new CancelledRequests();
    for (let id = 0; id < 300; id++) cancelled.add(id);
    expect([cancelled.has(43), cancelled.has(44), cancelled.has(299)]).toEqual([false, true, true]);
    expect([cancelled.has('44'), cancelled.has('__proto__'), cancelled.has('constructor')]).toEqual([
      false,
      false,
      false,
    ]);
    cancelled.add('__proto__');
    expect(cancelled.has('__proto__')).toBe(true);
  });

  it('CancelledRequests remembers for longer what is cancelled again', () => {
    const cancelled = new CancelledRequests();
    cancelled.add('again');
    for (let id = 0; id < 255; id++) cancelled.add(id);
    cancelled.add('again');
    cancelled.add('one more');
    expect([cancelled.has('again'), cancelled.has(0), cancelled.has(1)]).toEqual([true, false, true]);
  });

  it('CancelledRequests forgets an id that the client uses again', () => {
    const cancelled = new CancelledRequests();
    cancelled.add(1);
    cancelled.delete(1);
    cancelled.delete(2);
    expect(cancelled.has(1)).toBe(false);
  });
});
