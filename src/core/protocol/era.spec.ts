import * as sdk from '@modelcontextprotocol/server';
import { describe, expect, it } from 'vitest';

import * as era from './era.js';
import { classifyPost, PROTOCOL_VERSION_META_KEY } from './era.js';
import { readMessages } from './json-rpc.js';

function classify(body: unknown, protocolVersion?: string): era.McpEra {
  return classifyPost({ protocolVersion }, readMessages(JSON.stringify(body)));
}

const call = (meta?: object) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'x', ...(meta && { _meta: meta }) },
});
const initialize = { jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25' } };
const notification = { jsonrpc: '2.0', method: 'notifications/initialized' };

describe('classifyPost (§0)', () => {
  it.each(['2026-07-28', '2025-11-25', '2099-01-01', '', null, 7, {}])(
    'classifyPost is modern by the key, even with %j',
    (value) => {
      const meta = { [PROTOCOL_VERSION_META_KEY]: value };
      expect(classify(call(meta))).toBe('modern');
      expect(classify({ ...notification, params: { _meta: meta } })).toBe('modern');
      expect(classify({ ...initialize, params: { _meta: meta } })).toBe('modern');
      expect(classify({ jsonrpc: '2.0', id: 1, result: { _meta: meta } })).toBe('modern');
      expect(classify([call(), call(meta)], '2025-03-26')).toBe('modern');
    },
  );

  it('classifyPost is modern by the header', () => {
    const bodies = [call(), notification, { jsonrpc: '2.0', id: 1, result: {} }, [initialize], [initialize, call()]];
    for (const body of bodies) expect(classify(body, '2026-07-28')).toBe('modern');
  });

  it('classifyPost takes a lone initialize for what it is, whatever the header', () => {
    expect(classify(initialize, '2026-07-28')).toBe('legacy');
    expect(classify({ ...initialize, params: { _meta: { progressToken: 1 } } }, '2026-07-28')).toBe('legacy');
    expect(classify({ jsonrpc: '2.0', id: 1, method: 'initialize' }, '2026-07-28')).toBe('legacy');
    const claim = { _meta: { [PROTOCOL_VERSION_META_KEY]: '2026-07-28' } };
    expect(classify({ ...initialize, params: claim }, '2026-07-28')).toBe('modern');
  });

  it.each([undefined, '', '2025-03-26', '2025-11-25', '2024-11-05', '2099-01-01', '2026-07-28, 2026-07-28'])(
    'classifyPost is legacy without a claim, header %j',
    (header) => {
      expect(classify(call(), header)).toBe('legacy');
      expect(classify(call({ progressToken: 1 }), header)).toBe('legacy');
      expect(classify(initialize, header)).toBe('legacy');
      expect(classify(notification, header)).toBe('legacy');
      expect(classify({ jsonrpc: '2.0', id: 1, error: { code: 1, message: 'no' } }, header)).toBe('legacy');
      expect(classify([notification], header)).toBe('legacy');
    },
  );

  it('classifyPost is not fooled by the key in another place', () => {
    const key = { [PROTOCOL_VERSION_META_KEY]: '2026-07-28' };
    expect(classify({ ...call(), ...key, _meta: key })).toBe('legacy');
    expect(classify({ ...call(), params: { ...key, arguments: { _meta: key } } })).toBe('legacy');
    const inherited = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"__proto__":${JSON.stringify(key)}}}}`;
    expect(classifyPost({ protocolVersion: undefined }, readMessages(inherited))).toBe('legacy');
  });

  it('classifyPost spells the keys as the SDK does', () => {
    const keys = Object.entries(era).filter(([name]) => name.endsWith('_META_KEY'));
    expect(keys).toHaveLength(6);
    for (const [name, key] of keys) expect(sdk).toHaveProperty(name, key);
  });
});
