import { createMcpHandler, fromJsonSchema, McpServer } from '@modelcontextprotocol/server';
import { afterAll, describe, expect, it } from 'vitest';

import { CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY } from './era.js';
import { McpError } from './errors.js';
import type { RequestHeaders } from './headers.js';
import type { JsonRpcRequest } from './json-rpc.js';
import { checkStandardHeaders, mirrorHeaders, paramHeaderName, paramHeadersFault } from './modern-headers.js';
import { paramHeadersOf, type ParamHeader } from './param-headers.js';

const REVISION = '2026-07-28';

function request(method: string, params: object = {}): JsonRpcRequest {
  const _meta = { [PROTOCOL_VERSION_META_KEY]: REVISION, [CLIENT_CAPABILITIES_META_KEY]: {} };
  return { jsonrpc: '2.0', id: 7, method, params: { ...params, _meta } };
}

/** Headers that suit a request, but for those that a test says. */
function headersOf(message: JsonRpcRequest, changed: RequestHeaders = {}): RequestHeaders {
  return { ...lowerCased(mirrorHeaders(message)), ...changed };
}

const lowerCased = (headers: RequestHeaders): RequestHeaders =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));

function refusalOf(check: () => void): McpError | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    if (error instanceof McpError) return error;
    throw error;
  }
}

const PARAMS = {
  type: 'object',
  properties: {
    region: { type: 'string', 'x-mcp-header': 'Region' },
    limit: { type: 'integer', 'x-mcp-header': 'Limit' },
    dry: { type: 'boolean', 'x-mcp-header': 'Dry' },
    constructor: { type: 'object', properties: { name: { type: 'string', 'x-mcp-header': 'Constructor' } } },
    nested: { type: 'object', properties: { 'a.b': { type: 'string', 'x-mcp-header': 'Nested' } } },
  },
};
/** What the SDK's own endpoint says of the headers. */
const { constructor: _, ...properties } = PARAMS.properties;
const inputSchema = fromJsonSchema({ type: 'object', properties });
const oracle = createMcpHandler(() => {
  const server = new McpServer({ name: 'oracle', version: '1.0.0' });
  server.registerTool('greet', { inputSchema }, () => ({ content: [] }));
  return server;
});
afterAll(() => oracle.close());

async function sdkAccepts(message: JsonRpcRequest, headers: RequestHeaders): Promise<boolean> {
  const sent = new Headers({ 'content-type': 'application/json', accept: 'application/json, text/event-stream' });
  for (const [name, lines = []] of Object.entries(headers)) for (const line of [lines].flat()) sent.append(name, line);
  const posted = new Request('http://localhost/mcp', { method: 'POST', headers: sent, body: JSON.stringify(message) });
  return !(await (await oracle.fetch(posted)).text()).includes('-32020');
}

const call = request('tools/call', { name: 'greet' });
const read = request('resources/read', { uri: 'a://b' });
const list = request('tools/list');
const encodedGreet = '=?base64?Z3JlZXQ=?=';

const AGREEING: [what: string, message: JsonRpcRequest, changed: RequestHeaders][] = [
  ['headers that agree', call, {}],
  ['a URI', read, {}],
  ['a prompt', request('prompts/get', { name: 'ask' }), {}],
  ['a task', request('tasks/get', { taskId: 't' }), {}],
  ['base64', call, { 'mcp-name': encodedGreet }],
  ['one line in an array', call, { 'mcp-name': ['greet'], 'mcp-method': ['tools/call'] }],
  ['a name where none is due', list, { 'mcp-name': '=?base64?!?=' }],
  ['a method of Object', request('constructor'), {}],
  ['a body without a name', request('tools/call'), {}],
  ['a body without a name, and a header', request('tools/call', { name: 7 }), { 'mcp-name': 'greet' }],
  ['an empty name', request('tools/call', { name: '' }), { 'mcp-name': '' }],
  ['a name that looks like base64', request('tools/call', { name: encodedGreet }), {}],
  ['other headers', call, { 'mcp-session-id': 'x', 'mcp-param-x': '=?base64?!?=' }],
];

const DISAGREEING: [what: string, message: JsonRpcRequest, changed: RequestHeaders, header: string, says: RegExp][] = [
  ['no revision', list, { 'mcp-protocol-version': undefined }, '(missing)', /MCP-Protocol-Version is missing/],
  ['no method', list, { 'mcp-method': undefined }, '(missing)', /Mcp-Method is missing/],
  ['no name', call, { 'mcp-name': undefined }, '(missing)', /"greet" as params\.name, .* Mcp-Name is missing/],
  ['no URI', read, { 'mcp-name': undefined }, '(missing)', /"a:\/\/b" as params\.uri/],
  ['no task', request('tasks/cancel', { taskId: 't' }), { 'mcp-name': undefined }, '(missing)', /params\.taskId/],
  ['another name', call, { 'mcp-name': 'other' }, 'other', /Mcp-Name is "other"/],
  ['another name, encoded', call, { 'mcp-name': '=?base64?eA==?=' }, '=?base64?eA==?=', /is "x"/],
  ['the name twice', call, { 'mcp-name': ['greet', 'greet'] }, 'greet, greet', /is "greet, greet"/],
  ['bad base64', call, { 'mcp-name': '=?base64?Z3JlZXQ?=' }, '=?base64?Z3JlZXQ?=', /neither ASCII nor/],
  ['bad base64 for no name', request('tools/call'), { 'mcp-name': '=?base64?!?=' }, '=?base64?!?=', /neither/],
  ['not ASCII', request('tools/call', { name: 'é' }), { 'mcp-name': 'é' }, 'é', /neither ASCII nor/],
  ['base64 taken literally', request('tools/call', { name: encodedGreet }), { 'mcp-name': encodedGreet }, '=', /gre/],
];

describe('checkStandardHeaders (M4)', () => {
  it.each(AGREEING)('checkStandardHeaders lets %s pass', (_, message, changed) => {
    expect(refusalOf(() => checkStandardHeaders(headersOf(message, changed), message))).toBeUndefined();
  });

  it.each(DISAGREEING)('checkStandardHeaders refuses %s', (_, message, changed, header, says) => {
    const error = refusalOf(() => checkStandardHeaders(headersOf(message, changed), message))!;
    expect(error).toMatchObject({ code: 'HEADER_MISMATCH', status: 400, rpcCode: -32020 });
    expect(error.message).toMatch(says);
    expect(error.message).toMatch(/^The headers of the request disagree .*\. Send .*\.$/);
    const { mismatch } = error.data as { mismatch: { header: string; body: string } };
    expect(mismatch.header).toContain(header);
    expect(error.message).toContain(mismatch.body);
  });

  it('checkStandardHeaders decides as the SDK does, but for what is not ASCII', async () => {
    for (const [what, message, changed] of AGREEING) {
      expect([what, await sdkAccepts(message, headersOf(message, changed))]).toEqual([what, true]);
    }
    for (const [what, message, changed] of DISAGREEING) {
      expect([what, await sdkAccepts(message, headersOf(message, changed))]).toEqual([what, what === 'not ASCII']);
    }
  });
});

const { headers: declarations } = paramHeadersOf(PARAMS) as { headers: readonly ParamHeader[] };

/** Arguments, headers, whether they agree; whether the SDK thinks so too. */
const CASES: [args: object | undefined, headers: RequestHeaders, passes: boolean, sdk?: boolean][] = [
  [{ region: 'eu' }, { 'Mcp-Param-Region': 'eu' }, true],
  [{ region: 'Hello' }, { 'Mcp-Param-Region': '=?base64?SGVsbG8=?=' }, true],
  [{ region: 'SGVsbG8=' }, { 'Mcp-Param-Region': 'SGVsbG8=' }, true],
  [{ region: '=?base64?SGVsbG8=' }, { 'Mcp-Param-Region': '=?base64?SGVsbG8=' }, true],
  [{ region: 'Hello' }, { 'Mcp-Param-Region': '=?base64?SGVsbG8?=' }, false],
  [{ region: 'Hello' }, { 'Mcp-Param-Region': '=?base64?SGVs!!!bG8=?=' }, false],
  [{ region: 'Hello' }, { 'Mcp-Param-Region': '=?base64?/w==?=' }, false],
  [{ region: 'test-value' }, {}, false],
  [{ region: 'eu' }, { 'Mcp-Param-Region': 'EU' }, false],
  [{ region: 'eu' }, { 'Mcp-Param-Region': '' }, false],
  [{ region: '' }, { 'Mcp-Param-Region': '' }, true],
  [{ region: '' }, {}, false],
  [{ region: null }, {}, true],
  [{ region: null }, { 'Mcp-Param-Region': 'eu' }, true],
  [{}, { 'Mcp-Param-Region': '=?base64?!?=' }, true],
  [undefined, {}, true],
  [{ region: ['eu'] }, { 'Mcp-Param-Region': 'us' }, true],
  [{ region: 5 }, { 'Mcp-Param-Region': '5' }, true],
  [{ region: 5 }, { 'Mcp-Param-Region': '5.0' }, false],
  [{ limit: 42 }, { 'Mcp-Param-Limit': '42' }, true],
  [{ limit: 42 }, { 'Mcp-Param-Limit': '42.0' }, true],
  [{ limit: 42 }, { 'Mcp-Param-Limit': '042' }, true],
  [{ limit: 42 }, { 'Mcp-Param-Limit': '=?base64?NDI=?=' }, true],
  [{ limit: 0 }, { 'Mcp-Param-Limit': '-0' }, true],
  [{ limit: 0 }, {}, false],
  [{ limit: -7 }, { 'Mcp-Param-Limit': '7' }, false],
  [{ limit: 42 }, { 'Mcp-Param-Limit': '42.5' }, false],
  [{ limit: 100 }, { 'Mcp-Param-Limit': '1e2' }, false],
  [{ limit: 100 }, { 'Mcp-Param-Limit': '0x64' }, false],
  [{ limit: 0 }, { 'Mcp-Param-Limit': '' }, false],
  [{ limit: '42' }, { 'Mcp-Param-Limit': '42' }, true],
  [{ limit: '42' }, { 'Mcp-Param-Limit': '42.0' }, false],
  [{ dry: true }, { 'Mcp-Param-Dry': 'true' }, true],
  [{ dry: false }, { 'Mcp-Param-Dry': 'false' }, true],
  [{ dry: false }, {}, false],
  [{ dry: true }, { 'Mcp-Param-Dry': 'TRUE' }, false],
  [{ dry: true }, { 'Mcp-Param-Dry': '1' }, false],
  [{ constructor: { name: 'x' } }, { 'Mcp-Param-Constructor': 'x' }, true],
  [{ constructor: { name: 'x' } }, {}, false],
  [{ nested: { 'a.b': 'x' } }, { 'Mcp-Param-Nested': 'x' }, true],
  [{ nested: { 'a.b': 'x' } }, { 'Mcp-Param-Nested': 'y' }, false],
  [{ nested: 'text' }, {}, true],
  [{ nested: { a: { b: 'x' } } }, {}, true],
  // Where we are stricter, and why, is said in modern-headers.ts.
  [{ limit: 2 ** 53 }, {}, false, true],
  [{ limit: 2 ** 53 }, { 'Mcp-Param-Limit': '9007199254740992' }, false, true],
  [{ limit: 42 }, { 'Mcp-Param-Limit': '42.00000000000000000001' }, false, true],
  [{ region: 'x' }, { 'Mcp-Param-Region': '=?base64?eB==?=' }, false, true],
  [{ region: 'é' }, { 'Mcp-Param-Region': 'é' }, false, true],
  // The SDK drops the byte order mark.
  [{ region: '\uFEFFa' }, { 'Mcp-Param-Region': '=?base64?77u/YQ==?=' }, true, false],
];

describe('paramHeadersFault (M4)', () => {
  it.each(CASES)('%j with %j: %j', (args, headers, passes) => {
    const error = paramHeadersFault(declarations, args, lowerCased(headers));
    expect(error === undefined).toBe(passes);
    if (!error) return;
    expect(error).toMatchObject({ code: 'HEADER_MISMATCH', status: 400, rpcCode: -32020 });
    expect(error.message).toMatch(/^The headers of the request disagree .*arguments\.|neither ASCII nor/);
    expect((error.data as { mismatch: { header: string } }).mismatch.header).toMatch(/^Mcp-Param-[A-Z]/);
  });

  it('paramHeadersFault decides as the SDK does, but for the cases that say otherwise', async () => {
    for (const [args, headers, passes, sdk = passes] of CASES) {
      // The SDK's validation of arguments trips over one that is called as a property of Object.
      if (args && Object.hasOwn(args, 'constructor')) continue;
      const message = request('tools/call', { name: 'greet', ...(args && { arguments: args }) });
      const accepted = await sdkAccepts(message, { ...mirrorHeaders(message), ...headers });
      expect([args, headers, accepted]).toEqual([args, headers, sdk]);
    }
  });

  it('paramHeadersFault joins several lines, so that no proxy reads another value than we do', () => {
    const twice = { 'mcp-param-region': ['eu', 'eu'] };
    expect(paramHeadersFault(declarations, { region: 'eu' }, twice)).toBeDefined();
    expect(paramHeadersFault(declarations, { region: 'eu, eu' }, twice)).toBeUndefined();
  });

  it('paramHeadersFault finds nothing on prototypes', () => {
    const paths = [
      ['constructor', 'name'],
      ['toString'],
      ['__proto__', 'constructor', 'name'],
      ['list', 'length', 'x'],
    ];
    const hostile = paths.map((path): ParamHeader => ({ path, headerName: 'X', type: 'string' }));
    for (const args of [{}, { list: [] }, [], 'text', null, undefined]) {
      expect(paramHeadersFault(hostile, args, {})).toBeUndefined();
    }
  });
});

describe('mirrorHeaders (C13)', () => {
  it('mirrorHeaders says what the body says', () => {
    const args = { region: 'süd', limit: 5, dry: null, nested: { 'a.b': ' x' } };
    expect(mirrorHeaders(request('tools/call', { name: 'greet', arguments: args }), declarations)).toEqual({
      'mcp-protocol-version': REVISION,
      'mcp-method': 'tools/call',
      'mcp-name': 'greet',
      'Mcp-Param-Region': '=?base64?c8O8ZA==?=',
      'Mcp-Param-Limit': '5',
      'Mcp-Param-Nested': '=?base64?IHg=?=',
    });
    expect(mirrorHeaders(read)).toMatchObject({ 'mcp-name': 'a://b' });
    expect(mirrorHeaders(request('tools/list', { '': 'x', name: 'y' }))).not.toHaveProperty('mcp-name');
    expect(mirrorHeaders({ jsonrpc: '2.0', id: 1, method: 'ping' })).toEqual({ 'mcp-method': 'ping' });
    expect(paramHeaderName('Region')).toBe('Mcp-Param-Region');
  });

  it('mirrorHeaders is what the checks let pass, whatever the values', () => {
    const texts = ['', ' ', 'eu', 'sü d', 'a\nb', '=?base64?eA==?=', '\uFEFF', '👩', 'x'.repeat(5000)];
    for (const region of texts) {
      for (const limit of [0, -0, -1, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER, null]) {
        const args = { region, limit, dry: limit === 0, nested: { 'a.b': region } };
        const message = request('tools/call', { name: region, arguments: args });
        const headers = lowerCased(mirrorHeaders(message, declarations));
        checkStandardHeaders(headers, message);
        expect(paramHeadersFault(declarations, args, headers)).toBeUndefined();
      }
    }
  });
});
