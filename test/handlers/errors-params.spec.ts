import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER } from '../support/app.js';
import { testApps } from '../support/test-apps.js';
import { fourOf } from './four.js';

/** Requests whose parameters are not what the specification says. */
const MALFORMED: [string, unknown][] = [
  ['logging/setLevel', { level: 'verbose' }],
  ['logging/setLevel', {}],
  ['tools/list', { cursor: 5 }],
  ['resources/list', { cursor: {} }],
  ['resources/templates/list', { cursor: {} }],
  ['prompts/list', { cursor: true }],
  ['tools/call', {}],
  ['tools/call', { name: 5 }],
  ['tools/call', { name: 'four', arguments: [] }],
  ['tools/call', { name: 'four', arguments: 'id' }],
  ['resources/read', { uri: 5 }],
  ['resources/read', undefined],
  ['resources/subscribe', {}],
  ['resources/unsubscribe', { uri: null }],
  ['prompts/get', { name: null }],
  ['prompts/get', { name: 'four', arguments: { q: 5 } }],
  ['completion/complete', {}],
  ['completion/complete', { ref: { type: 'ref/else' }, argument: { name: 'a', value: 'b' } }],
  ['completion/complete', { ref: { type: 'ref/prompt', name: 'four' }, argument: { name: 'a', value: 5 } }],
];

/** What is not there, under names that every object has. */
const UNKNOWN: [string, object][] = ['nothing', 'constructor', '__proto__', 'toString', ''].flatMap((name) => [
  ['tools/call', { name }] as [string, object],
  ['prompts/get', { name }] as [string, object],
  ['resources/read', { uri: name }] as [string, object],
  ['completion/complete', { ref: { type: 'ref/prompt', name }, argument: { name: 'a', value: '' } }] as [
    string,
    object,
  ],
]);

describe.each(ONE_ADAPTER)('requests with wrong parameters, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [fourOf('four')] });

  it('parameters that are not what the specification says get "invalid params", which names the method', async () => {
    const client = await (await start()).client().initialize();
    for (const [method, params] of MALFORMED) {
      const id = client.nextId();
      const response = await client.post({ jsonrpc: '2.0', id, method, ...(params !== undefined && { params }) });
      expect(response.status).toBe(200);
      const text = await response.text();
      expect(text).not.toMatch(/\bat |node:internal|zod/i);
      const error = { code: -32602, message: expect.stringContaining(method) };
      expect([params, JSON.parse(text)]).toEqual([params, { jsonrpc: '2.0', id, error }]);
    }
  });

  it('names of nothing, also those that every object has, get "invalid params"', async () => {
    const client = await (await start()).client().initialize();
    for (const [method, params] of UNKNOWN) {
      const id = client.nextId();
      const body = await (await client.post({ jsonrpc: '2.0', id, method, params })).json();
      expect([method, params, body]).toMatchObject([method, params, { id, error: { code: -32602 } }]);
    }
  });

  it('methods without a handler get "method not found"', async () => {
    const app = await start();
    const client = await app.client().initialize();
    for (const method of ['tools/unknown', 'constructor', '__proto__', 'tasks/list', 'sampling/createMessage']) {
      const id = client.nextId();
      const body = await (await client.post({ jsonrpc: '2.0', id, method, params: {} })).json();
      expect(body).toMatchObject({ id, error: { code: -32601 } });
    }
  });
});
