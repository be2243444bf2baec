import { describe, expect, it } from 'vitest';
import type { OutboundMessage } from '../../context/mcp-call.js';
import { CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, LOG_LEVEL_META_KEY } from '../../wire/era.js';
import { ModernCall } from './modern-call.js';

function callWith(meta?: Record<string, unknown>) {
  const sent: OutboundMessage[] = [];
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: meta && { _meta: meta } } as const;
  const call = new ModernCall({ era: 'modern', principal: undefined, request: undefined }, message, async (said) => {
    sent.push(said);
  });
  return { call, sent };
}

describe('ModernCall', () => {
  it('D27: wants log messages only if its request asks for them, and then those from the level on', () => {
    const wanted = (meta?: Record<string, unknown>) =>
      ['debug', 'warning', 'emergency'].filter((level) => callWith(meta).call.wantsLog(level));
    expect(wanted()).toEqual([]);
    expect(wanted({})).toEqual([]);
    expect(wanted({ [LOG_LEVEL_META_KEY]: 'warning' })).toEqual(['warning', 'emergency']);
    expect(wanted({ [LOG_LEVEL_META_KEY]: 'debug' })).toEqual(['debug', 'warning', 'emergency']);
  });

  it('knows its client by what the request says of it', () => {
    const clientInfo = { name: 'spec', version: '1' };
    const meta = { [CLIENT_INFO_META_KEY]: clientInfo, [CLIENT_CAPABILITIES_META_KEY]: { roots: {} } };
    expect(callWith(meta).call.client).toEqual({
      ...{ protocolVersion: '2026-07-28', clientInfo, capabilities: { roots: {} } },
    });
    expect(callWith().call.client).toMatchObject({ clientInfo: { name: 'unknown' }, capabilities: {} });
  });

  it('sends notifications, and cannot ask: questions travel in results', async () => {
    const { call, sent } = callWith();
    await call.notify({ method: 'notifications/progress' });
    await expect(call.ask({ method: 'roots/list' })).rejects.toMatchObject({ code: 'NO_STREAM' });
    expect(sent).toEqual([{ method: 'notifications/progress' }]);
  });

  it('aborts its signal when it is cancelled, whenever that is looked at, and once', () => {
    const [{ call: early }, { call: late }] = [callWith(), callWith()];
    const { signal } = early;
    for (const call of [early, late]) {
      call.cancel('gone');
      call.cancel('again');
    }
    expect([signal.reason, late.signal.reason, late.aborted]).toEqual(['gone', 'gone', true]);
  });
});
