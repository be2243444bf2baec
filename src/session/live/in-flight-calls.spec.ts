import { describe, expect, it } from 'vitest';
import { type CallingClient, McpCall, type McpHttpCall, runInCall } from '../../context/mcp-call.js';
import type { RequestId } from '../../wire/json-rpc.js';
import { CancelledRequests, InFlightCalls } from './in-flight-calls.js';

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
  const calls = new InFlightCalls(session);
  const call = (id: RequestId, of = session) => new McpCall(HTTP, { jsonrpc: '2.0', id, method: 'tools/call' }, of);
  const begin = (id: RequestId) => {
    const begun = call(id);
    calls.add(begun);
    return begun;
  };
  const end = (ending: McpCall, how: 'answered' | 'cancelled') => {
    if (how === 'answered') ending.answered();
    else ending.cancelled('enough');
    calls.remove(ending);
  };
  return { session, calls, call, begin, end };
}

describe('InFlightCalls', () => {
  it('holds a request from its arrival to its end; 1 and "1" are two', () => {
    const { calls, begin, end } = setup();
    const [number, text] = [begin(1), begin('1')];
    expect([calls.size, calls.get(1), calls.get('1'), calls.has(2)]).toEqual([2, number, text, false]);
    expect(calls.all()).toEqual([number, text]);
    end(number, 'answered');
    expect([calls.size, calls.has(1), calls.has('1')]).toEqual([1, false, true]);
  });

  it('accepts any id, also names of the prototype', () => {
    const { calls, begin } = setup();
    for (const id of ['__proto__', 'constructor', 'toString', '']) {
      expect([calls.has(id), calls.get(id)]).toEqual([false, undefined]);
      expect(calls.get(begin(id).requestId!)?.requestId).toBe(id);
    }
  });

  it('does not remove a new request with the id of an old one', () => {
    const { calls, begin, end } = setup();
    const old = begin(1);
    end(old, 'answered');
    const fresh = begin(1);
    calls.remove(old);
    expect(calls.get(1)).toBe(fresh);
    expect(calls.size).toBe(1);
    end(fresh, 'cancelled');
    expect([calls.size, calls.all()]).toEqual([0, []]);
  });
});

describe('a message of the server', () => {
  it('belongs to no request without an id and a context that name one', () => {
    const { calls, begin } = setup();
    begin(1);
    expect(calls.related(undefined)).toEqual({ is: 'nothing' });
  });

  it('belongs to the request that it names, or in whose context it is sent', () => {
    const { calls, begin } = setup();
    const [one, two] = [begin(1), begin(2)];
    expect(calls.related(1)).toEqual({ is: 'open', call: one });
    expect(runInCall(two, () => calls.related(undefined))).toEqual({ is: 'open', call: two });
    expect(runInCall(two, () => calls.related(1))).toEqual({ is: 'open', call: one });
  });

  it.each(['answered', 'cancelled'] as const)('comes late when that is %s', (how) => {
    const { calls, begin, end } = setup();
    const call = begin(1);
    end(call, how);
    expect(calls.related(1)).toEqual({ is: how, requestId: 1 });
    expect(runInCall(call, () => calls.related(undefined))).toEqual({ is: how, requestId: 1 });
    expect(runInCall(call, () => calls.related(1))).toEqual({ is: how, requestId: 1 });
  });

  it('of an unknown request is late', () => {
    expect(setup().calls.related('unknown')).toEqual({ is: 'answered', requestId: 'unknown' });
  });

  it('belongs to the earlier of two requests with one id, if it is sent in the context of that', () => {
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

  it('does not belong to the request of another session in whose context it is sent', () => {
    const { calls, call, begin } = setup();
    const [here, elsewhere] = [begin(1), call(1, someSession())];
    expect(runInCall(elsewhere, () => calls.related(undefined))).toEqual({ is: 'nothing' });
    expect(runInCall(elsewhere, () => calls.related(1))).toEqual({ is: 'open', call: here });
  });

  it('belongs to nothing in the context of a notification', () => {
    const { session, calls } = setup();
    const message = { jsonrpc: '2.0' as const, method: 'notifications/initialized' };
    const call = new McpCall(HTTP, message, session);
    expect(runInCall(call, () => calls.related(undefined))).toEqual({ is: 'nothing' });
    expect(calls.relatedTo(call)).toEqual({ is: 'nothing' });
  });
});

describe('a message of a call', () => {
  it('belongs to that call, whatever the context says', () => {
    const { calls, begin } = setup();
    const [one, two] = [begin(1), begin(2)];
    expect(calls.relatedTo(one)).toEqual({ is: 'open', call: one });
    expect(runInCall(two, () => calls.relatedTo(one))).toEqual({ is: 'open', call: one });
  });

  it.each(['answered', 'cancelled'] as const)('comes late when that is %s, though its id is used again', (how) => {
    const { calls, begin, end } = setup();
    const old = begin(1);
    end(old, how);
    const fresh = begin(1);
    expect(calls.relatedTo(old)).toEqual({ is: how, requestId: 1 });
    expect(calls.relatedTo(fresh)).toEqual({ is: 'open', call: fresh });
  });
});

describe('CancelledRequests', () => {
  it('remembers the latest 256, whatever their ids look like', () => {
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

  it('remembers for longer what is cancelled again', () => {
    const cancelled = new CancelledRequests();
    cancelled.add('again');
    for (let id = 0; id < 255; id++) cancelled.add(id);
    cancelled.add('again');
    cancelled.add('one more');
    expect([cancelled.has('again'), cancelled.has(0), cancelled.has(1)]).toEqual([true, false, true]);
  });

  it('forgets an id that the client uses again', () => {
    const cancelled = new CancelledRequests();
    cancelled.add(1);
    cancelled.delete(1);
    cancelled.delete(2);
    expect(cancelled.has(1)).toBe(false);
  });
});
