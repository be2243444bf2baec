import { describe, expect, it, vi } from 'vitest';
import type { JsonRpcNotification, JsonRpcRequest } from '../protocol/json-rpc.js';
import {
  type CallingClient,
  currentMcpCall,
  McpCall,
  type McpHttpCall,
  runBeyondCancelledCall,
  runInCall,
} from './mcp-call.js';
import type { McpExchange } from './reply.js';

const HTTP: McpHttpCall = { era: 'modern', principal: 'ann', request: { of: 'ann' } };
const REQUEST: JsonRpcRequest = { jsonrpc: '2.0', id: 0, method: 'tools/call', params: { name: 'x' } };
const NOTIFICATION: JsonRpcNotification = { jsonrpc: '2.0', method: 'notifications/initialized' };
const IDENTITY = {
  protocolVersion: '2026-07-28',
  capabilities: { roots: {} },
  clientInfo: { name: 'a', version: '1' },
};

/** Notes what it is asked, and by which call. */
function someClient(parts: Partial<CallingClient> = {}) {
  const heard: unknown[][] = [];
  const client: CallingClient = {
    identity: (call) => {
      heard.push(['identity', call]);
      return IDENTITY;
    },
    wantsLog: (level, call) => {
      heard.push(['wantsLog', level, call]);
      return level === 'error';
    },
    notify: async (...args) => void heard.push(['notify', ...args]),
    request: async (...args) => {
      heard.push(['request', ...args]);
      return { roots: [] };
    },
    ...parts,
  };
  return { client, heard };
}

function someExchange(closes = true) {
  const closeStream = vi.fn(() => closes);
  return { exchange: { closeStream } as unknown as McpExchange, closeStream };
}

describe('McpCall', () => {
  it('McpCall knows its message, who sent it, and in which session', () => {
    const info = { id: 's', principal: 'ann' } as NonNullable<CallingClient['info']>;
    const { client } = someClient({ info });
    const call = new McpCall(HTTP, REQUEST, client);
    expect(call).toMatchObject({ ...HTTP, message: REQUEST, method: 'tools/call', requestId: 0, from: client });
    expect([call.session, call.exchange]).toEqual([info, undefined]);
    const notification = new McpCall(HTTP, NOTIFICATION, someClient().client);
    expect([notification.requestId, notification.session, notification.method]).toEqual([
      undefined,
      undefined,
      'notifications/initialized',
    ]);
  });

  it('McpCall asks its client, and tells it, as its own', async () => {
    const { client, heard } = someClient();
    const call = new McpCall(HTTP, REQUEST, client);
    const [log, ask] = [{ method: 'notifications/message' }, { method: 'roots/list' }];
    await call.notify(log);
    expect([await call.ask(ask), await call.ask(ask, { timeoutMs: 5 })]).toEqual([{ roots: [] }, { roots: [] }]);
    expect([call.client, call.wantsLog('info'), call.wantsLog('error')]).toEqual([IDENTITY, false, true]);
    expect(heard).toEqual([
      ['notify', log, call],
      ['request', ask, {}, call, undefined],
      ['request', ask, { timeoutMs: 5 }, call, undefined],
      ['identity', call],
      ['wantsLog', 'info', call],
      ['wantsLog', 'error', call],
    ]);
  });

  it('McpCall aborts its signal when it is cancelled, whenever that is looked at, and once', () => {
    const [early, late] = [1, 2].map(() => new McpCall(HTTP, REQUEST, someClient().client));
    const { signal } = early!;
    const onAbort = vi.fn();
    signal.addEventListener('abort', onAbort);
    for (const call of [early!, late!]) {
      expect([call.state, call.aborted]).toEqual(['open', false]);
      call.cancelled('why');
      call.cancelled('again');
      expect([call.state, call.aborted, call.signal.aborted, call.signal.reason]).toEqual([
        'cancelled',
        true,
        true,
        'why',
      ]);
    }
    expect([early!.signal, onAbort.mock.calls.length]).toEqual([signal, 1]);
  });

  it('McpCall may be cancelled without a reason', () => {
    const call = new McpCall(HTTP, REQUEST, someClient().client);
    call.cancelled(undefined);
    expect([call.state, call.aborted, call.signal.aborted]).toEqual(['cancelled', true, true]);
  });

  it('D32: McpCall is open for its answer when the time of its handler is over, and may be cancelled until then', () => {
    const call = new McpCall(HTTP, REQUEST, someClient().client);
    const late = new Error('too late');
    call.expire(late);
    expect([call.state, call.aborted, call.signal.reason]).toEqual(['open', true, late]);
    call.cancelled(new Error('not needed'));
    expect([call.state, call.signal.reason]).toEqual(['cancelled', late]);
  });

  it('McpCall ends once: an answered call is not cancelled any more', () => {
    const { exchange, closeStream } = someExchange();
    const call = new McpCall(HTTP, REQUEST, someClient().client, exchange);
    call.answered();
    call.cancelled('too late');
    expect([call.state, call.aborted, call.signal.aborted]).toEqual(['answered', false, false]);
    expect([call.closeStream(), closeStream.mock.calls]).toEqual([false, []]);
  });

  it('McpCall closes its stream while it is open, if its exchange can', () => {
    const call = (exchange?: McpExchange) => new McpCall(HTTP, REQUEST, someClient().client, exchange);
    expect(call(someExchange().exchange).closeStream()).toBe(true);
    expect(call(someExchange(false).exchange).closeStream()).toBe(false);
    expect(call().closeStream()).toBe(false);
    const cancelled = call(someExchange().exchange);
    cancelled.cancelled('enough');
    expect(cancelled.closeStream()).toBe(false);
  });
});

describe('the current call', () => {
  it('the current call is the one in whose context code runs, however long that takes', async () => {
    const [one, two] = [1, 2].map(() => new McpCall(HTTP, REQUEST, someClient().client));
    const seen = (call: McpCall) =>
      runInCall(call, async () => {
        await new Promise(setImmediate);
        return currentMcpCall();
      });
    expect(await Promise.all([seen(one!), seen(two!)])).toEqual([one, two]);
    expect(currentMcpCall()).toBeUndefined();
  });

  it('P8: the current call that was cancelled is not the one on whose behalf a fact is told', () => {
    const call = new McpCall(HTTP, REQUEST, someClient().client);
    runInCall(call, () => {
      expect(runBeyondCancelledCall(currentMcpCall)).toBe(call);
      call.cancelled('enough');
      expect(runBeyondCancelledCall(currentMcpCall)).toBeUndefined();
      expect(currentMcpCall()).toBe(call);
    });
    expect(runBeyondCancelledCall(currentMcpCall)).toBeUndefined();
  });
});
