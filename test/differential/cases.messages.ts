import { ask, clientInfo, envelope, group, http, message, post, version } from './case.js';

const request = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: envelope() } };
const listHeaders = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' };
const list = (members: Record<string, unknown>) => message({ ...request, ...members }, listHeaders);
const body = (text: string | Buffer, headers: Record<string, string | undefined> = {}) =>
  post(text, { ...listHeaders, ...headers });
const JSON_TEXT = JSON.stringify(request);
const typed = (type: string | undefined) => body(JSON_TEXT, { 'content-type': type });
const accepting = (accept: string | string[] | undefined) => post(JSON_TEXT, { ...listHeaders, accept });
const nested = (depth: number, of: 'arrays' | 'objects') =>
  of === 'arrays' ? '['.repeat(depth) + ']'.repeat(depth) : '{"a":'.repeat(depth) + '1' + '}'.repeat(depth);
const withNested = (text: string) => body(JSON_TEXT.replace('"_meta"', `"deep":${text},"_meta"`));

export const MESSAGES = group('messages', [
  ['an id that is null', list({ id: null })],
  ['an id with a fraction', list({ id: 1.5 })],
  ['an id that is 1.0', body(JSON_TEXT.replace('"id":1', '"id":1.0'))],
  ['an id that is an object', list({ id: {} })],
  ['an id that is an array', list({ id: [1] })],
  ['an id that is true', list({ id: true })],
  ['an id that is too large', body(JSON_TEXT.replace('"id":1', '"id":9007199254740993'))],
  ['an id that is huge', body(JSON_TEXT.replace('"id":1', '"id":1e400'))],
  ['an id that is a long text', list({ id: 'x'.repeat(2000) })],
  ['an id that looks like a number', list({ id: '1' })],
  ['no id', list({ id: undefined })],
  [
    'no id, of an unknown method',
    message({ ...request, id: undefined, method: 'no/such' }, { 'mcp-method': 'no/such' }),
  ],
  ['jsonrpc is missing', list({ jsonrpc: undefined })],
  ['jsonrpc is 1.0', list({ jsonrpc: '1.0' })],
  ['jsonrpc is a number', list({ jsonrpc: 2 })],
  ['a method that is a number', list({ method: 1 })],
  ['a method that is null', list({ method: null })],
  ['no method', list({ method: undefined })],
  ['parameters are an array', list({ params: [] })],
  ['parameters are null', list({ params: null })],
  ['parameters are a text', list({ params: 'x' })],
  ['parameters are missing', list({ params: undefined })],
  ['a member that JSON-RPC does not know', list({ more: 1 })],
  ['a method and a result', list({ result: {} })],
  ['a method and an error', list({ error: { code: 1, message: 'x' } })],
  ['a key that comes twice', body(JSON_TEXT.replace('"id":1', '"id":1,"id":2'))],
  ['a request with white space around', body(` \n${JSON_TEXT}\r\n\t `)],
  ['arrays nested a thousand deep', withNested(nested(1000, 'arrays'))],
  ['objects nested a thousand deep', withNested(nested(1000, 'objects'))],
  ['arrays nested a hundred thousand deep', withNested(nested(100_000, 'arrays'))],
  ['a message nested a hundred thousand deep', body(nested(100_000, 'arrays'))],
]);

const notify = (method: string, params?: unknown, headers = {}) =>
  message({ jsonrpc: '2.0', method, ...(params !== undefined && { params }) }, headers);
const cancelled = { requestId: 5, _meta: envelope() };

export const NOTIFICATIONS = group('notifications', [
  ['one with the header alone', notify('notifications/roots/list_changed')],
  ['one with an envelope', notify('notifications/cancelled', cancelled)],
  [
    'one with an envelope and no header',
    notify('notifications/cancelled', cancelled, { 'mcp-protocol-version': undefined }),
  ],
  [
    'one with the right Mcp-Method',
    notify('notifications/cancelled', cancelled, { 'mcp-method': 'notifications/cancelled' }),
  ],
  ['one with another Mcp-Method', notify('notifications/cancelled', cancelled, { 'mcp-method': 'tools/list' })],
  ['one with the header, and another Mcp-Method', notify('notifications/x', undefined, { 'mcp-method': 'tools/list' })],
  ['one with an empty _meta', notify('notifications/x', { _meta: {} })],
  [
    'one with an empty _meta, and another Mcp-Method',
    notify('notifications/x', { _meta: {} }, { 'mcp-method': 'tools/list' }),
  ],
  ['an unknown one', notify('notifications/unknown', { _meta: envelope() })],
  ['one of any name', notify('anything')],
  ['one with half an envelope', notify('notifications/x', { _meta: version('2026-07-28') })],
  ['one with a bad client info', notify('notifications/x', { _meta: { ...envelope(), ...clientInfo(1) } })],
  [
    'one of an unknown version',
    notify('notifications/x', { _meta: version('v999') }, { 'mcp-protocol-version': 'v999' }),
  ],
  [
    'one of an unknown version, and no header',
    notify('notifications/x', { _meta: version('v999') }, { 'mcp-protocol-version': undefined }),
  ],
  [
    'one of a legacy version',
    notify('notifications/x', { _meta: version('2025-11-25') }, { 'mcp-protocol-version': '2025-11-25' }),
  ],
  ['one whose versions differ', notify('notifications/x', { _meta: version('v999') })],
  ['one whose version is a number', notify('notifications/x', { _meta: version(1) })],
  ['one whose version is null', notify('notifications/x', { _meta: version(null) })],
  ['one whose parameters are an array', notify('notifications/x', [])],
  ['one whose _meta is null', notify('notifications/x', { _meta: null })],
  ['one without parameters that it needs', notify('notifications/cancelled', { _meta: envelope() })],
]);

const answer = { jsonrpc: '2.0', id: 1, result: { _meta: version('2026-07-28') } };
const failure = { jsonrpc: '2.0', id: 1, error: { code: -1, message: 'x' } };
const OLD = { 'mcp-protocol-version': undefined };
const claimless = { jsonrpc: '2.0', id: 2, method: 'tools/list' };

export const BATCHES = group('batches and responses', [
  ['a result', message(answer)],
  ['a result without a header', message({ ...answer, result: {} }, OLD)],
  ['an error', message(failure)],
  ['an error without an id', message({ ...failure, id: undefined })],
  ['a result without an id', message({ ...answer, id: undefined })],
  ['a result that is null', message({ ...answer, result: null })],
  ['a result that is a text', message({ ...answer, result: 'x' })],
  ['an error without a code', message({ ...failure, error: { message: 'x' } })],
  ['an error with a code that has a fraction', message({ ...failure, error: { code: 1.5, message: 'x' } })],
  ['a result and an error', message({ ...answer, error: failure.error })],
  ['an empty batch', message([])],
  ['an empty batch without a header', message([], OLD)],
  ['a batch of one request', message([request])],
  ['a batch of two requests', message([request, { ...request, id: 2 }])],
  ['a batch of a modern and a legacy request', message([request, claimless], OLD)],
  ['a batch of legacy requests', message([claimless], OLD)],
  ['a batch of legacy requests with a modern header', message([claimless])],
  ['a batch of notifications', message([{ jsonrpc: '2.0', method: 'notifications/x' }])],
  ['a batch of responses', message([failure])],
  ['a batch with something else', message([request, 1])],
  ['a batch in a batch', message([[request]])],
]);

export const BODIES = group('bodies', [
  ['an empty one', body('')],
  ['an empty one without headers', post('')],
  ['white space', body(' \n ')],
  ['not JSON', body('{"jsonrpc":')],
  ['two messages', body(`${JSON_TEXT}\n${JSON_TEXT}`)],
  ['a form', body('method=tools%2Flist')],
  ['null', body('null')],
  ['a number', body('1')],
  ['a text', body('"tools/list"')],
  ['true', body('true')],
  ['an empty object', body('{}')],
  ['an object that is no message', body('{"query":"{ tools }"}')],
  ['a comment in it', body(`/* x */ ${JSON_TEXT}`)],
  ['a byte order mark in front', body(`\ufeff${JSON_TEXT}`)],
  ['two byte order marks in front', body(`\ufeff\ufeff${JSON_TEXT}`)],
  ['not UTF-8', body(Buffer.from(JSON_TEXT.replace('"id":1', '"id":"\u00e9"'), 'latin1'))],
  ['UTF-16', body(Buffer.from(JSON_TEXT, 'utf16le'))],
  ['a lone surrogate', body(JSON_TEXT.replace('"id":1', '"id":"\\ud800"'))],
  ['a NUL', body(JSON_TEXT.replace('"id":1', '"id":"\\u0000"'))],
  ['characters of four bytes', body(JSON_TEXT.replace('"id":1', '"id":"\u{1f44b}"'))],
]);

export const MEDIA = group('media', [
  ['no type', typed(undefined)],
  ['an empty type', typed('')],
  ['text/plain', typed('text/plain')],
  ['application/json-rpc', typed('application/json-rpc')],
  ['application/vnd.api+json', typed('application/vnd.api+json')],
  ['a form', typed('application/x-www-form-urlencoded')],
  ['in capitals', typed('Application/JSON')],
  ['with a charset', typed('application/json; charset=utf-8')],
  ['with a charset in quotes', typed('application/json;charset="UTF-8"')],
  ['with another charset', typed('application/json; charset=iso-8859-1')],
  ['with white space before the parameter', typed('application/json ; charset=utf-8')],
  ['with an unknown parameter', typed('application/json; profile=x')],
  ['with an empty parameter', typed('application/json;')],
  ['two types', typed('application/json, text/plain')],
  ['two types, the other way', typed('text/plain, application/json')],
  ['a type that begins like it', typed('application/jsonx')],
  ['accepts nothing', accepting(undefined)],
  ['accepts everything', accepting('*/*')],
  ['accepts JSON', accepting('application/json')],
  ['accepts SSE', accepting('text/event-stream')],
  ['accepts HTML', accepting('text/html')],
  ['accepts both, with weights', accepting('application/json;q=0.5, text/event-stream;q=0.1')],
  ['accepts both, in two lines', accepting(['application/json', 'text/event-stream'])],
  ['accepts both, in capitals', accepting('Application/JSON, TEXT/event-stream')],
  ['accepts kinds of both', accepting('application/*, text/*')],
  ['refuses JSON', accepting('application/json;q=0, text/event-stream')],
  ['accepts an empty list', accepting('')],
]);

const found = ask('tools/list');

export const HTTP_METHODS = group('HTTP', [
  ['GET', http('GET')],
  ['GET that accepts SSE', http('GET', { accept: 'text/event-stream' })],
  ['GET that accepts HTML', http('GET', { accept: 'text/html' })],
  ['GET with a cursor', http('GET', { accept: 'text/event-stream', 'last-event-id': '0_0' })],
  ['HEAD', http('HEAD')],
  ['DELETE', http('DELETE')],
  ['DELETE with a session', http('DELETE', { 'mcp-session-id': 'x' })],
  ['PUT', { ...found, method: 'PUT' }],
  ['PATCH', { ...found, method: 'PATCH' }],
  ['QUERY', { ...found, method: 'QUERY' }],
  ['OPTIONS', http('OPTIONS')],
]);
