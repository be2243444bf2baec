import type { Transport as ClientTransport } from '@modelcontextprotocol/client';
import type { Transport as TransportV1 } from '@modelcontextprotocol/sdk/shared/transport.js';
import { describe, expect, it } from 'vitest';
import { ManualClock } from '../testing/index.js';
import { resolveClientOptions, resolveUrl, type StreamableClientTransportOptions } from './client.options.js';
import { networkErrorOf, setbackOf } from './retry.js';
import { StreamableClientTransport } from './streamable-client-transport.js';

describe('the options of the transport', () => {
  it('the options of the transport have defaults', () => {
    expect(resolveClientOptions()).toMatchObject({
      reconnect: { firstDelayMs: 500, maxDelayMs: 30_000, maxAttempts: 8 },
      recover: false,
      replay: 'idempotent',
      standaloneStream: true,
      terminateOnClose: true,
      silenceMs: 120_000,
      openTimeoutMs: 30_000,
      closeTimeoutMs: 2_000,
      maxMessageBytes: 33_554_432,
    });
  });

  it.each<[string, Record<string, unknown>]>([
    ['fetch', { fetch: 1 }],
    ['headers', { headers: 'x' }],
    ['onUnauthorized', { onUnauthorized: {} }],
    ['requestMeta', { requestMeta: { traceparent: 'x' } }],
    ['reconnect', { reconnect: 3 }],
    ['reconnect.maxAttempts', { reconnect: { maxAttempts: 0 } }],
    ['replay', { replay: 'sometimes' }],
    ['recover', { recover: 'yes' }],
    ['silenceMs', { silenceMs: 0 }],
    ['clock', { clock: {} }],
    ['sessionId', { sessionId: '' }],
  ])('the options of the transport refuse a wrong %s by its name', (option, options) => {
    expect(() => resolveClientOptions(options as StreamableClientTransportOptions)).toThrow(
      expect.objectContaining({ code: 'OPTION', option }),
    );
  });

  it.each(['', 'mcp', '/mcp', 'file:///mcp', 'ws://h/mcp'])('the options of the transport refuse the URL %j', (url) => {
    expect(() => resolveUrl(url)).toThrow(expect.objectContaining({ option: 'url' }));
  });
});

describe('a network error', () => {
  const withCode = (code: string) => Object.assign(new Error(code), { code });
  it.each([
    [new TypeError('fetch failed', { cause: withCode('ECONNREFUSED') }), 'not-run'],
    [
      new TypeError('fetch failed', { cause: Object.assign(new Error('all'), { errors: [withCode('ENOTFOUND')] }) }),
      'not-run',
    ],
    [new TypeError('fetch failed', { cause: withCode('UND_ERR_SOCKET') }), 'may-have-run'],
    [withCode('ECONNRESET'), 'may-have-run'],
    [new TypeError('terminated'), 'may-have-run'],
  ])('%s: %s', (error, kind) => {
    const failure = networkErrorOf(error, 'http://h/mcp');
    expect(setbackOf(failure)).toBe(kind);
    expect(failure).toMatchObject({ code: 'NO_ANSWER', cause: error });
    expect(failure?.message).toContain('http://h/mcp');
  });

  it.each([new Error('of a wrapper'), Object.assign(new Error('x'), { code: 'invalid_grant' }), 'text'])(
    'a network error is none: %s',
    (error) => {
      expect(networkErrorOf(error, 'http://h/mcp')).toBeUndefined();
    },
  );
});

describe('the transport', () => {
  it('the transport is one for both official clients', () => {
    const transport = new StreamableClientTransport('http://127.0.0.1:9/mcp', { clock: new ManualClock() });
    const forV2: ClientTransport = transport;
    const forV1: TransportV1 = transport;
    expect(forV2.hasPerRequestStream).toBe(true);
    expect(forV1.sessionId).toBeUndefined();
  });
});
