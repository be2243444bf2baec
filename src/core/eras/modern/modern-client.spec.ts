import { NEVER } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { McpCall } from '../../calls/mcp-call.js';
import { Exchange, type McpResponseMode } from '../../calls/exchange.js';
import { ResponseSink } from '../../calls/response-sink.js';
import { ManualClock } from '../../../testing/index.js';
import { CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, LOG_LEVEL_META_KEY } from '../../protocol/era.js';
import type { McpEvent } from '../../protocol/events.js';
import { ModernClient } from './modern-client.js';

const LOG = { method: 'notifications/message', params: { level: 'info', data: 'x' } };

function callWith(meta?: Record<string, unknown>, mode: McpResponseMode = 'auto') {
  const late: string[] = [];
  const client = new ModernClient({ event: (event) => event.type === 'late-message' && late.push(event.method!) });
  const exchange = new Exchange([1], {
    clock: new ManualClock(),
    mode,
    sseAfterMs: 500,
    batch: false,
    clientsComeBack: () => false,
    sink: (_requests, cut) => new ResponseSink(1_000, cut),
  });
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: meta && { _meta: meta } } as const;
  const call = new McpCall({ era: 'modern', principal: undefined, request: undefined }, message, client, exchange);
  return { client, call, exchange, late };
}

/** Collects what the client reads. */
async function eventsOf(exchange: Exchange): Promise<McpEvent[]> {
  const reply = await exchange.reply;
  if (reply.kind !== 'events') throw new Error(`The reply is ${reply.kind}.`);
  const events: McpEvent[] = [];
  reply.open({ paused: false, resumed$: NEVER }).subscribe((event) => events.push(event));
  return events;
}

describe('ModernClient', () => {
  it('D27: ModernClient wants log messages only if the request asks for them, and then those from the level on', () => {
    const wanted = (meta?: Record<string, unknown>) =>
      ['debug', 'warning', 'emergency'].filter((level) => callWith(meta).call.wantsLog(level));
    expect(wanted()).toEqual([]);
    expect(wanted({})).toEqual([]);
    expect(wanted({ [LOG_LEVEL_META_KEY]: 'warning' })).toEqual(['warning', 'emergency']);
    expect(wanted({ [LOG_LEVEL_META_KEY]: 'debug' })).toEqual(['debug', 'warning', 'emergency']);
  });

  it('ModernClient has the fields of its request, and no session', () => {
    const clientInfo = { name: 'spec', version: '1' };
    const meta = { [CLIENT_INFO_META_KEY]: clientInfo, [CLIENT_CAPABILITIES_META_KEY]: { roots: {} } };
    const { call } = callWith(meta);
    expect(call.client).toEqual({ protocolVersion: '2026-07-28', clientInfo, capabilities: { roots: {} } });
    expect(call.session).toBeUndefined();
    expect(callWith().call.client).toMatchObject({ clientInfo: { name: 'unknown' }, capabilities: {} });
  });

  it('ModernClient is one object for all requests', () => {
    const { client, call } = callWith({ [LOG_LEVEL_META_KEY]: 'debug' });
    const message = { jsonrpc: '2.0', id: 2, method: 'tools/list' } as const;
    const other = new McpCall(call, message, client);
    expect([call, other].map((asking) => asking.wantsLog('info'))).toEqual([true, false]);
  });

  it('ModernClient gets notifications on the stream of their request', async () => {
    const { call, exchange, late } = callWith();
    const sent = call.notify(LOG);
    expect(await eventsOf(exchange)).toEqual([{ data: JSON.stringify({ jsonrpc: '2.0', ...LOG }) }]);
    await sent;
    expect(late).toEqual([]);
  });

  it('P3: ModernClient gets no notifications in the mode "json"', async () => {
    const { call, exchange, late } = callWith(undefined, 'json');
    await call.notify(LOG);
    exchange.answer(1, '"answer"');
    expect(await exchange.reply).toEqual({ kind: 'json', body: '"answer"' });
    expect(late).toEqual([]);
  });

  it('P8: ModernClient gets no notifications after the answer, or without an exchange, which is reported', async () => {
    const { client, call, exchange, late } = callWith();
    exchange.answer(1, '"answer"');
    await call.notify(LOG);
    await new McpCall(call, call.message, client).notify({ method: 'notifications/progress' });
    expect(late).toEqual(['notifications/message', 'notifications/progress']);
    expect(await exchange.reply).toEqual({ kind: 'json', body: '"answer"' });
  });

  it('ModernClient cannot be asked: questions travel in results', async () => {
    const { call, exchange } = callWith();
    await expect(call.ask({ method: 'roots/list' })).rejects.toMatchObject({
      code: 'NO_STREAM',
      message: expect.stringContaining('"roots/list"'),
    });
    expect(exchange.carries).toBe('messages');
    exchange.answer(1, '"answer"');
    expect(await exchange.reply).toMatchObject({ kind: 'json' });
  });
});
