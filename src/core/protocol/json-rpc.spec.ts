import {
  isJSONRPCErrorResponse,
  isJSONRPCNotification,
  isJSONRPCRequest,
  isJSONRPCResultResponse,
} from '@modelcontextprotocol/server';
import { describe, expect, it } from 'vitest';

import { McpError } from './errors.js';
import {
  isInitializeRequest,
  isNotification,
  isRequest,
  isResponse,
  type JsonRpcMessage,
  type JsonRpcRequest,
  readMessages,
} from './json-rpc.js';

function refusalOf(text: string, maxValues?: number): McpError {
  try {
    readMessages(text, maxValues);
  } catch (error) {
    if (error instanceof McpError) return error;
    throw error;
  }
  throw new Error(`taken: ${text}`);
}

const read = (value: unknown) => readMessages(JSON.stringify(value));
const refusal = (value: unknown) => refusalOf(JSON.stringify(value));

const request = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'x' } };
const notification = { jsonrpc: '2.0', method: 'notifications/initialized' };
const result = { jsonrpc: '2.0', id: 'a', result: {} };
const error = { jsonrpc: '2.0', id: 0, error: { code: -1, message: 'no' } };
/** One character more than an id or a progress token may have. */
const LONG = 'x'.repeat(257);
const anonymousError = { jsonrpc: '2.0', error: { code: -32700, message: 'no', data: null } };

describe('readMessages', () => {
  it.each([
    request,
    notification,
    result,
    error,
    anonymousError,
    { jsonrpc: '2.0', id: -5, method: 'ping' },
    { jsonrpc: '2.0', id: '', method: '' },
    { jsonrpc: '2.0', id: Number.MAX_SAFE_INTEGER, method: 'mine', params: {} },
    { jsonrpc: '2.0', method: 'mine/without-id', params: { _meta: { progressToken: 1 } } },
    { jsonrpc: '2.0', method: 'notifications/tasks/status' },
    { jsonrpc: '2.0', id: 1, result: { _meta: {}, constructor: 1 } },
  ])('readMessages takes %j', (message) => {
    expect(read(message)).toEqual({ batch: false, messages: [message] });
    expect(read([message])).toEqual({ batch: true, messages: [message] });
  });

  it('readMessages takes a batch in order', () => {
    expect(read([notification, request, result, error])).toEqual({
      batch: true,
      messages: [notification, request, result, error],
    });
  });

  it('readMessages tolerates a byte order mark and white space', () => {
    expect(readMessages(`\uFEFF \r\n${JSON.stringify(request)}\n`).messages).toEqual([request]);
  });

  it('readMessages drops members that JSON-RPC does not define', () => {
    expect(read({ ...request, extra: 1, _meta: {} }).messages).toEqual([request]);
    expect(read({ ...result, params: {} }).messages).toEqual([result]);
  });

  it.each([
    '',
    ' ',
    '\n',
    '\uFEFF',
    '{',
    'hello',
    "{'a':1}",
    '{"jsonrpc":"2.0"}x',
    'undefined',
    '\uFEFF\uFEFF{}',
    '[1,]',
  ])('readMessages refuses %j: not JSON (E7)', (text) => {
    expect(refusalOf(text)).toMatchObject({ code: 'PARSE_ERROR', status: 400, rpcCode: -32700, requestId: null });
  });

  it('readMessages shows the text that is not JSON, shortened', () => {
    expect(refusalOf('hello').message).toContain('"hello"');
    expect(refusalOf('x'.repeat(1_000_000)).message.length).toBeLessThan(250);
    expect(refusalOf('').message).toContain('empty');
  });

  it.each([
    ['lists', '[', ']'],
    ['objects', '{"a":', '}'],
  ])(
    'readMessages takes %s nested 512 levels deep, and refuses one level more with the id of the request (E8)',
    (_, open, close) => {
      const body = (levels: number) =>
        `{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":${open.repeat(levels)}1${close.repeat(levels)}}}`;
      expect(readMessages(body(510)).messages).toHaveLength(1);
      expect(refusalOf(body(511))).toMatchObject({ code: 'INVALID_REQUEST', requestId: 7 });
    },
  );

  it('readMessages takes an id and a progress token of 256 characters (E8)', () => {
    const longest = 'x'.repeat(256);
    const message = { ...request, id: longest, params: { _meta: { progressToken: longest } } };
    expect(read(message).messages[0]).toEqual(message);
  });

  it.each<[what: string, sent: object, read: object]>([
    ['params of a request', { ...request, params: null }, { jsonrpc: '2.0', id: 1, method: request.method }],
    ['params of a notification', { ...notification, params: null }, { jsonrpc: '2.0', method: notification.method }],
    [
      'the members of params',
      { ...request, params: { _meta: null, arguments: null, cursor: null, inputResponses: null, requestState: null } },
      { ...request, params: {} },
    ],
    [
      'a progress token in _meta',
      { ...request, params: { _meta: { progressToken: null, 'com.example/trace': null } } },
      { ...request, params: { _meta: { 'com.example/trace': null } } },
    ],
    [
      'none of the arguments',
      { ...request, params: { name: null, arguments: { _meta: null, arguments: null, cursor: null } } },
      { ...request, params: { name: null, arguments: { _meta: null, arguments: null, cursor: null } } },
    ],
    [
      '_meta of a result',
      { ...result, result: { _meta: null, cursor: null } },
      { ...result, result: { cursor: null } },
    ],
  ])('E8: readMessages drops optional members that are null, and no others: %s', (_, sent, expected) => {
    expect(JSON.stringify(read(sent).messages[0])).toBe(JSON.stringify(expected));
  });

  it.each<[unknown, unknown, RegExp]>([
    [[], null, /empty/],
    ['text', null, /"text"/],
    [7, null, /7/],
    [null, null, /null/],
    [{}, null, /"jsonrpc".*nothing/],
    [{ ...request, jsonrpc: '1.0' }, 1, /"1\.0"/],
    [{ ...request, jsonrpc: 2 }, 1, /it is 2\b/],
    [{ id: 'q', method: 'ping' }, 'q', /"jsonrpc"/],
    [{ ...request, id: null }, null, /"id".*null/],
    [{ ...request, id: 1.5 }, null, /1\.5/],
    [{ ...request, id: 2 ** 53 }, null, /9007199254740992/],
    [{ ...request, id: true }, null, /true/],
    [{ ...request, id: {} }, null, /\{\}/],
    [{ ...request, id: [1] }, null, /\[1\]/],
    [{ ...error, id: null }, null, /"id".*null/],
    [{ jsonrpc: '2.0', id: 1 }, 1, /neither/],
    [{ jsonrpc: '2.0', id: 1, params: {} }, 1, /neither/],
    [{ ...request, method: 7 }, 1, /"method".*7/],
    [{ ...request, method: null }, 1, /"method".*null/],
    [{ ...request, params: [1] }, 1, /"params".*\[1\]/],
    [{ ...request, params: 'x' }, 1, /"params".*"x"/],
    [{ ...notification, params: [] }, null, /"params".*\[\]/],
    [{ ...request, result: {} }, 1, /more than one/],
    [{ ...request, error: null }, 1, /more than one/],
    [{ ...result, error: { code: 1, message: 'x' } }, null, /more than one/],
    [{ ...result, result: [] }, null, /"result".*\[\]/],
    [{ ...result, result: null }, null, /"result".*null/],
    [{ ...result, result: 'done' }, null, /"result".*"done"/],
    [{ jsonrpc: '2.0', result: {} }, null, /"id" is missing/],
    [{ ...error, error: null }, null, /"error".*null/],
    [{ ...error, error: [] }, null, /"error"/],
    [{ ...error, error: { code: 1.5, message: 'x' } }, null, /1\.5/],
    [{ ...error, error: { code: '1', message: 'x' } }, null, /"error"/],
    [{ ...error, error: { code: 1 } }, null, /"error"/],
    [{ ...request, params: { _meta: [] } }, 1, /"_meta".*\[\]/],
    [{ ...request, params: { _meta: { progressToken: {} } } }, 1, /progressToken.*\{\}/],
    [{ ...request, params: { _meta: { progressToken: 1.5 } } }, 1, /progressToken.*1\.5/],
    [{ ...request, params: { _meta: { 'io.modelcontextprotocol/related-task': { taskId: 1 } } } }, 1, /taskId/],
    [{ ...result, result: { _meta: [] } }, null, /"_meta".*\[\]/],
    [{ ...request, id: LONG }, null, /"id".*256.*257 characters/],
    [{ ...result, id: LONG }, null, /"id".*256.*257 characters/],
    [{ ...error, id: LONG }, null, /"id".*256.*257 characters/],
    [{ ...request, params: { _meta: { progressToken: LONG } } }, 1, /progressToken.*256.*257 characters/],
    [{ ...notification, params: { requestId: LONG } }, null, /"params\.requestId".*256.*257 characters/],
    [{ ...notification, params: { progressToken: LONG } }, null, /"params\.progressToken".*256.*257 characters/],
  ])('readMessages refuses %j (E8)', (value, requestId, message) => {
    const refused = refusal(value);
    expect(refused).toMatchObject({ code: 'INVALID_REQUEST', status: 400, rpcCode: -32600, requestId });
    expect(refused.message).toMatch(message);
  });

  it.each([
    'initialize',
    'ping',
    'server/discover',
    'subscriptions/listen',
    'tools/list',
    'tools/call',
    'resources/list',
    'resources/templates/list',
    'resources/read',
    'resources/subscribe',
    'resources/unsubscribe',
    'prompts/list',
    'prompts/get',
    'completion/complete',
    'logging/setLevel',
    'sampling/createMessage',
    'elicitation/create',
    'roots/list',
    'tasks/get',
    'tasks/list',
    'tasks/result',
    'tasks/update',
    'tasks/cancel',
  ])('readMessages refuses %s without an id (E8)', (method) => {
    expect(refusal({ jsonrpc: '2.0', method })).toMatchObject({ code: 'INVALID_REQUEST', requestId: null });
    expect(refusal({ jsonrpc: '2.0', method }).message).toContain(method);
  });

  it('readMessages refuses a batch for one bad message, names its place and echoes no id', () => {
    const refused = refusal([request, { ...request, jsonrpc: '1.0' }]);
    expect(refused).toMatchObject({ code: 'INVALID_REQUEST', requestId: null });
    expect(refused.message).toMatch(/^Message 1 of the batch .*"1\.0"/);
    for (const element of [1, null, 'x', [], [request]])
      expect(refusal([element]).message).toContain('must be an object');
  });

  it('readMessages shortens what it shows', () => {
    expect(refusal({ ...request, jsonrpc: 'x'.repeat(1_000_000) }).message.length).toBeLessThan(250);
  });

  it.each([
    ['list', '['.repeat(50_000) + ']'.repeat(50_000)],
    ['version', `{"jsonrpc":${'[{"a":'.repeat(20_000)}1${'}]'.repeat(20_000)}}`],
    ['escaped key', `{"jsonrpc":${'[{"\\u005f":'.repeat(20_000)}1${'}]'.repeat(20_000)}}`],
  ])('readMessages stays upright under deep nesting: %s', (_, text) => {
    expect(refusalOf(text, 1e6)).toMatchObject({ code: 'INVALID_REQUEST' });
  });
});

describe('__proto__ in a body', () => {
  const spellings = ['__proto__', '\\u005f_proto__', '__\\u0070roto__', '__pr\\u006Fto_\\u005F'];

  it.each(spellings)('__proto__ in a body is dropped at any depth: %s', (key) => {
    const { messages } = readMessages(
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","${key}":{"result":{}},"params":{"${key}":{"admin":true},` +
        `"name":"x","arguments":{"list":[{"${key}":{"admin":true},"kept":"${key}"}]}}}`,
    );
    const { params } = messages[0] as JsonRpcRequest;
    const copy: Record<string, unknown> = Object.assign({}, params);
    expect(copy.admin).toBeUndefined();
    expect(copy).toEqual({ name: 'x', arguments: { list: [{ kept: JSON.parse(`"${key}"`) }] } });
    expect(JSON.stringify(copy)).not.toContain('admin');
    expect(({} as Record<string, unknown>).admin).toBeUndefined();
  });

  it('__proto__ in a body supplies no member that the message lacks', () => {
    const refused = refusalOf('{"__proto__":{"jsonrpc":"2.0","id":1,"method":"ping"}}');
    expect(refused).toMatchObject({ code: 'INVALID_REQUEST', requestId: null });
    expect(() => readMessages('{"jsonrpc":"2.0","__proto__":{"id":1},"method":"ping"}')).toThrow(/no "id"/);
  });

  it('__proto__ in a body leaves other names alone', () => {
    const params = { constructor: { prototype: 1 }, prototype: 2, _proto_: 3, toString: 4 };
    expect(read({ ...request, params }).messages[0]).toEqual({ ...request, params });
  });
});

describe('guards', () => {
  const kinds: [object, string[]][] = [
    [request, ['request']],
    [{ jsonrpc: '2.0', id: 0, method: 'initialize' }, ['request', 'initialize']],
    [{ jsonrpc: '2.0', id: '', method: 'x' }, ['request']],
    [notification, ['notification']],
    [{ jsonrpc: '2.0', method: 'initialize' }, ['notification']],
    [{ ...notification, id: undefined }, ['notification']],
    [result, ['response']],
    [error, ['response']],
    [anonymousError, ['response']],
  ];

  it.each(kinds)('%j is %j', (message, expected) => {
    const guards = {
      request: isRequest,
      initialize: isInitializeRequest,
      notification: isNotification,
      response: isResponse,
    };
    const seen = Object.entries(guards).filter(([, guard]) => guard(message as JsonRpcMessage));
    expect(new Set(seen.map(([kind]) => kind))).toEqual(new Set(expected));
  });
});

function sdkKind(value: unknown): string {
  if (isJSONRPCResultResponse(value)) return 'result';
  if (isJSONRPCErrorResponse(value)) return 'error';
  if (isJSONRPCRequest(value)) return 'request';
  return isJSONRPCNotification(value) ? 'notification' : 'refused';
}

function ourKind(text: string): string {
  try {
    const message = readMessages(text).messages[0]!;
    if (isResponse(message)) return 'error' in message ? 'error' : 'result';
    return isRequest(message) ? 'request' : 'notification';
  } catch {
    return 'refused';
  }
}

describe('beside the SDK', () => {
  // The SDK drops what it does not take for a message, without an answer: we must never be more tolerant than it is.
  const values = [undefined, null, 0, 1, 1.5, 2 ** 53, '', 'x', [], [1], {}];
  const metas = [...values, ...values.map((progressToken) => ({ progressToken }))];
  const errors = [...values, ...values.flatMap((code) => values.map((message) => ({ code, message })))];
  const candidates = [
    ...values.flatMap((id) => values.flatMap((method) => values.map((params) => ({ id, method, params })))),
    ...values.flatMap((id) => [...values, ...metas.map((_meta) => ({ _meta }))].map((result) => ({ id, result }))),
    ...values.flatMap((id) => errors.map((error) => ({ id, error }))),
    ...metas.flatMap((_meta) => [
      { id: 1, method: 'x', params: { _meta } },
      { method: 'x', params: { _meta } },
    ]),
    ...values.map((task) => ({
      id: 1,
      method: 'x',
      params: { _meta: { 'io.modelcontextprotocol/related-task': task } },
    })),
    ...values.flatMap((a) => values.map((b) => ({ id: 1, method: 'x', result: a, error: b }))),
    ...values.map((extra) => ({ id: 1, method: 'x', extra })),
  ].map((members) => JSON.stringify({ jsonrpc: '2.0', ...members }));

  it(`agrees on ${candidates.length} messages`, () => {
    const surprises: string[] = [];
    for (const text of candidates) {
      const theirs = sdkKind(JSON.parse(text));
      const ours = ourKind(text);
      // We tolerate members that JSON-RPC does not define, and optional ones that are null; both are dropped before the SDK
      // sees the message.
      const tolerated = /"extra"|"(?:params|_meta|progressToken)":null/.test(text);
      if (ours !== theirs && !tolerated) surprises.push(`${text}: ${ours}, SDK ${theirs}`);
    }
    expect(surprises).toEqual([]);
  });

  it('readMessages hands over nothing that the SDK would drop', () => {
    for (const text of candidates) {
      if (ourKind(text) === 'refused') continue;
      expect(sdkKind(readMessages(text).messages[0])).toBe(ourKind(text));
    }
  });

  describe('with many values', () => {
    const many = (count: number): number[] => Array.from({ length: count }, () => 1);
    const call = (args: object, more: object = {}) => ({ ...request, params: { name: 'x', arguments: args }, ...more });

    it('E16: many values are refused before they are parsed, and as many as allowed are taken', () => {
      // Beside the list: four members, two parameters, and one argument.
      const text = JSON.stringify(call({ list: many(1_000) }));
      expect(readMessages(text, 1_007).messages).toHaveLength(1);
      const refused = refusalOf(text, 1_006);
      expect(refused).toMatchObject({ code: 'PAYLOAD_TOO_LARGE', status: 413, option: 'maxBodyValues' });
      expect(refused.message).toMatch(/more than 1006 values .*as one text.*"maxBodyValues"/);
      expect(refusalOf(`${text.slice(0, -1)}, no JSON`, 1_006).code).toBe('PAYLOAD_TOO_LARGE');
    });

    it('E16: many values by default are 100,000', () => {
      expect(read(call({ list: many(99_900) })).messages).toHaveLength(1);
      expect(refusal(call({ list: many(100_001) })).code).toBe('PAYLOAD_TOO_LARGE');
    });

    it('E16: many values are refused with the id of a lone request, wherever it stands', () => {
      const params = { list: many(1_000) };
      const of = (message: object): unknown => refusalOf(JSON.stringify(message), 1_000).requestId;
      expect(of({ jsonrpc: '2.0', id: 'a"b', method: 'x', params })).toBe('a"b');
      expect(of({ method: 'x', params: { ...params, id: 5 }, jsonrpc: '2.0', id: 7 })).toBe(7);
      expect(of({ params, id: 7, method: 'é'.repeat(100) })).toBe(7);
      expect(of({ jsonrpc: '2.0', id: { id: 7 }, method: 'x', params })).toBeNull();
      expect(of({ jsonrpc: '2.0', method: 'x', params: { ...params, id: 5 } })).toBeNull();
      // With the id of a response, the client would take it for the answer to a request of its own.
      expect(of({ jsonrpc: '2.0', id: 7, result: { ...params, method: 'x' } })).toBeNull();
      expect(of([{ jsonrpc: '2.0', id: 7, method: 'x', params }])).toBeNull();
    });

    it('E16: many values in "_meta" are refused alone, in a batch, and in a notification', () => {
      const withMeta = (count: number) => ({ params: { _meta: { list: many(count) } } });
      expect(read({ ...request, ...withMeta(990) }).messages).toHaveLength(1);
      const refused = refusal({ ...request, ...withMeta(1_001) });
      expect(refused).toMatchObject({ code: 'INVALID_REQUEST', requestId: request.id });
      expect(refused.message).toContain('"_meta" must have at most 1000 values');
      expect(refusal([request, { ...notification, ...withMeta(1_001) }]).message).toMatch(
        /^Message 1 of the batch.*"_meta"/,
      );
      expect(read({ ...request, params: { name: 'x', list: many(2_000), _meta: { a: 1 } } }).messages).toHaveLength(1);
    });
  });
});
