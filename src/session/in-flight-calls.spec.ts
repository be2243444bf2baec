import { describe, expect, it } from 'vitest';
import { runInCall, type McpHttpCall, type McpSessionInfo } from '../context/mcp-call.js';
import type { RequestId } from '../wire/json-rpc.js';
import { InFlightCalls } from './in-flight-calls.js';
import { RunningCalls } from './running-calls.js';
import { type CallOwner, SessionCall } from './session-call.js';

const HTTP: McpHttpCall = { era: 'legacy', principal: undefined, request: undefined };
const INFO: McpSessionInfo = {
  ...{ id: 's', principal: undefined, protocolVersion: '2025-11-25' },
  ...{ clientInfo: { name: 'spec', version: '1' }, clientCapabilities: {} },
};

/** A session is only told from another one. */
const someOwner = (): CallOwner => ({
  state: { logLevel: undefined },
  notify: () => Promise.resolve(),
  request: () => Promise.resolve({}),
});

function setup() {
  const owner = someOwner();
  const running = new RunningCalls();
  const calls = new InFlightCalls(owner, running);
  const call = (id: RequestId, of = owner) =>
    new SessionCall(of, INFO, HTTP, { jsonrpc: '2.0', id, method: 'tools/call' }, undefined);
  const begin = (id: RequestId) => {
    const begun = call(id);
    calls.add(begun);
    return begun;
  };
  const end = (ending: SessionCall, how: 'answered' | 'cancelled') => {
    if (how === 'answered') ending.answered();
    else ending.cancelled('enough');
    calls.remove(ending);
  };
  return { owner, running, calls, call, begin, end };
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

  it('takes ids as they come: none of them is special', () => {
    const { calls, begin } = setup();
    for (const id of ['__proto__', 'constructor', 'toString', '']) {
      expect([calls.has(id), calls.get(id)]).toEqual([false, undefined]);
      expect(calls.get(begin(id).requestId!)?.requestId).toBe(id);
    }
  });

  it('does not remove a new request with the id of an old one', () => {
    const { calls, running, begin, end } = setup();
    const old = begin(1);
    end(old, 'answered');
    const fresh = begin(1);
    calls.remove(old);
    expect(calls.get(1)).toBe(fresh);
    expect(running.count).toBe(1);
    end(fresh, 'cancelled');
    expect([calls.size, running.count]).toEqual([0, 0]);
  });
});

describe('a message of the server', () => {
  it('belongs to nothing, if nothing says so', () => {
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

  it('of a request that nobody knows comes late, too', () => {
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
    const [here, elsewhere] = [begin(1), call(1, someOwner())];
    expect(runInCall(elsewhere, () => calls.related(undefined))).toEqual({ is: 'nothing' });
    expect(runInCall(elsewhere, () => calls.related(1))).toEqual({ is: 'open', call: here });
  });

  it('belongs to nothing in the context of a notification', () => {
    const { owner, calls } = setup();
    const message = { jsonrpc: '2.0' as const, method: 'notifications/initialized' };
    const call = new SessionCall(owner, INFO, HTTP, message, undefined);
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

describe('SessionCall', () => {
  it('aborts its signal when it is cancelled, whenever that is looked at', () => {
    const { call } = setup();
    const [early, late] = [call(1), call(2)];
    const { signal } = early;
    early.cancelled('why');
    late.cancelled('why');
    expect([signal.aborted, signal.reason, late.signal.aborted, late.signal.reason]).toEqual([
      true,
      'why',
      true,
      'why',
    ]);
  });

  it('ends once: an answered call is not cancelled any more', () => {
    const { call } = setup();
    const answered = call(1);
    answered.answered();
    answered.cancelled('too late');
    expect([answered.state, answered.signal.aborted]).toEqual(['answered', false]);
    expect(answered.closeStream()).toBe(false);
  });

  it('D27: wants the log messages that the session wants, which may change while it is served', () => {
    const state: { logLevel: string | undefined } = { logLevel: undefined };
    const call = setup().call(1, { ...someOwner(), state });
    const wanted = () => ['debug', 'warning', 'emergency'].filter((level) => call.wantsLog(level));
    expect(wanted()).toEqual(['debug', 'warning', 'emergency']);
    state.logLevel = 'warning';
    expect(wanted()).toEqual(['warning', 'emergency']);
  });

  it('sends what it says, and asks, as its own', async () => {
    const sent: unknown[] = [];
    const owner = {
      ...someOwner(),
      notify: async (...args: unknown[]) => void sent.push(args),
      request: async (...args: unknown[]) => {
        sent.push(args);
        return { roots: [] };
      },
    };
    const call = setup().call(1, owner);
    const [log, ask] = [{ method: 'notifications/message' }, { method: 'roots/list' }];
    await call.notify(log);
    expect([await call.ask(ask), await call.ask(ask, { timeoutMs: 5 })]).toEqual([{ roots: [] }, { roots: [] }]);
    expect(sent).toEqual([
      [log, call],
      [ask, {}, call],
      [ask, { timeoutMs: 5 }, call],
    ]);
  });

  it('knows its client as the session does', () => {
    const { capabilities, ...client } = setup().call(1).client;
    expect(client).toEqual({ protocolVersion: '2025-11-25', clientInfo: { name: 'spec', version: '1' } });
    expect(capabilities).toEqual({});
  });
});
