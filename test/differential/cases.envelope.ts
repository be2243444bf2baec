import {
  ask,
  call,
  capabilities,
  clientInfo,
  envelope,
  EVERYTHING,
  group,
  logLevel,
  message,
  version,
  type Tweak,
} from './case.js';

const list = (tweak: Tweak) => ask('tools/list', {}, tweak);
const meta = (more: Record<string, unknown>) => list({ meta: more });
const discover = { jsonrpc: '2.0', id: 1, method: 'server/discover' };
const asDiscover = { 'mcp-method': 'server/discover' };

export const ENVELOPE = group('envelope', [
  ['no parameters', message(discover, asDiscover)],
  ['no _meta', message({ ...discover, params: {} }, asDiscover)],
  ['an empty _meta', list({ instead: { meta: {} } })],
  ['_meta is null', list({ instead: { meta: null } })],
  ['_meta is an array', list({ instead: { meta: [] } })],
  ['_meta is a text', list({ instead: { meta: 'x' } })],
  ['no version', meta(version(undefined))],
  ['no capabilities', meta(capabilities(undefined))],
  ['no client info', meta(clientInfo(undefined))],
  ['the version alone', list({ instead: { meta: version('2026-07-28') } })],
  ['capabilities are null', meta(capabilities(null))],
  ['capabilities are an array', meta(capabilities([]))],
  ['capabilities are a text', meta(capabilities('all'))],
  ['a capability is true', meta(capabilities({ sampling: true }))],
  ['a capability is null', meta(capabilities({ elicitation: null }))],
  ['a capability is an array', meta(capabilities({ roots: [] }))],
  ['an unknown capability', call('client', {}, { capabilities: { 'example.com/x': { y: 1 } } })],
  ['an unknown capability that is a text', call('client', {}, { capabilities: { other: 'x' } })],
  ['an experimental capability', call('client', {}, { capabilities: { experimental: { x: {} } } })],
  ['an experimental capability that is a text', meta(capabilities({ experimental: { x: 'y' } }))],
  ['an extension', call('client', {}, { capabilities: { extensions: { 'example.com/x': {} } } })],
  ['a capability named constructor', call('client', {}, { capabilities: { constructor: {} } })],
  ['a capability named __proto__', call('client', {}, { capabilities: JSON.parse('{"__proto__":{"sampling":{}}}') })],
  ['client info is null', meta(clientInfo(null))],
  ['client info is a text', meta(clientInfo('raw 1.0'))],
  ['client info is empty', meta(clientInfo({}))],
  ['client info without a version', meta(clientInfo({ name: 'raw' }))],
  ['client info with a number as name', meta(clientInfo({ name: 1, version: '1' }))],
  ['client info with more', meta(clientInfo({ name: 'raw', version: '1', title: 'Raw', more: 1 }))],
  ['an unknown key', meta({ 'example.com/x': 1 })],
  ['an unknown key of the protocol', meta({ 'io.modelcontextprotocol/unknown': 1 })],
  [
    'a key named __proto__',
    list({ instead: { meta: JSON.parse(`{"__proto__":1,${JSON.stringify(envelope()).slice(1)}`) } }),
  ],
  ['all of it under __proto__', list({ instead: { meta: JSON.parse(`{"__proto__":${JSON.stringify(envelope())}}`) } })],
  ['a key named constructor', meta({ constructor: { name: 'x' } })],
  ['a trace', meta({ traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' })],
  ['a progress token that is a text', meta({ progressToken: 'p' })],
  ['a progress token that is a number', meta({ progressToken: 0 })],
  ['a progress token that is an object', meta({ progressToken: {} })],
  ['a progress token that is null', meta({ progressToken: null })],
  ['a progress token with a fraction', meta({ progressToken: 1.5 })],
  ['a related task', meta({ 'io.modelcontextprotocol/related-task': { taskId: 'x' } })],
  ['a related task without an id', meta({ 'io.modelcontextprotocol/related-task': {} })],
  ['a log level that does not exist', meta(logLevel('loud'))],
  ['a log level that is a number', meta(logLevel(7))],
  ['a log level that is null', meta(logLevel(null))],
  ['a bad capability, of an unknown method', ask('no/such', {}, { capabilities: { sampling: 1 } })],
  [
    'a bad capability, of a listener',
    ask('subscriptions/listen', { notifications: {} }, { capabilities: { sampling: 1 } }),
  ],
  [
    'a bad capability, and no Mcp-Name',
    call('plain', {}, { capabilities: { sampling: 1 }, headers: { 'mcp-name': undefined } }),
  ],
  ['bad icons', meta(clientInfo({ name: 'raw', version: '1', icons: 'x' }))],
  ['roots that change sometimes', meta(capabilities({ roots: { listChanged: 'sometimes' } }))],
  ['a form with bad defaults', meta(capabilities({ elicitation: { form: { applyDefaults: 'x' } } }))],
]);

const says = (inBody: unknown, inHeader: string | undefined, method = 'tools/list') =>
  ask(method, {}, { meta: version(inBody), headers: { 'mcp-protocol-version': inHeader } });
const legacy = (method: string, params?: object, header?: string) =>
  message({ jsonrpc: '2.0', id: 1, method, ...(params && { params }) }, { 'mcp-protocol-version': header });
const hello = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'old', version: '1' } };

export const VERSIONS = group('versions', [
  ['an unknown one', says('v999.0.0', 'v999.0.0')],
  ['an unknown one, of discover', says('v999.0.0', 'v999.0.0', 'server/discover')],
  ['an unknown one in the body alone', says('v999.0.0', undefined)],
  ['an unknown one in the body, the right one in the header', says('v999.0.0', '2026-07-28')],
  ['an unknown one in the header, the right one in the body', says('2026-07-28', 'v999.0.0')],
  ['a later one', says('2027-01-01', '2027-01-01')],
  ['a legacy one', says('2025-11-25', '2025-11-25')],
  ['a legacy one in the body, the right one in the header', says('2025-11-25', '2026-07-28')],
  ['a legacy one in the header, the right one in the body', says('2026-07-28', '2025-11-25')],
  ['no one in the header', says('2026-07-28', undefined)],
  ['an empty one in the header', says('2026-07-28', '')],
  ['an empty one', says('', '')],
  ['a number', says(20260728, '2026-07-28')],
  ['a number, and no header', says(20260728, undefined)],
  ['null', says(null, '2026-07-28')],
  ['an array', says(['2026-07-28'], '2026-07-28')],
  ['an object', says({ is: '2026-07-28' }, '2026-07-28')],
  ['with white space in the body', says('2026-07-28 ', '2026-07-28')],
  ['a legacy request without a version', legacy('tools/list')],
  ['a legacy request with a version', legacy('tools/list', {}, '2025-11-25')],
  ['a legacy request with an unknown version', legacy('tools/list', {}, '1.0')],
  ['a legacy request with a modern version', legacy('tools/list', {}, '2026-07-28')],
  ['a handshake', legacy('initialize', hello)],
  ['a handshake with a legacy header', legacy('initialize', hello, '2025-11-25')],
  ['a handshake with a modern header', legacy('initialize', hello, '2026-07-28')],
  ['a handshake for an unknown version', legacy('initialize', { ...hello, protocolVersion: 'x' })],
  ['a handshake without a version', legacy('initialize', { capabilities: {} })],
  ['a handshake whose version is a number', legacy('initialize', { ...hello, protocolVersion: 1 })],
  ['a handshake with a modern envelope', ask('initialize', hello)],
  ['a handshake with half an envelope', ask('initialize', hello, { meta: capabilities(undefined) })],
  ['a legacy ping', legacy('ping')],
  [
    'a legacy notification',
    message({ jsonrpc: '2.0', method: 'notifications/initialized' }, { 'mcp-protocol-version': undefined }),
  ],
  ['a session id', ask('tools/list', {}, { headers: { 'mcp-session-id': 'anything' } })],
  ['a cursor of a stream', ask('tools/list', {}, { headers: { 'last-event-id': '0_1' } })],
]);

const needless = ['initialize', 'ping', 'logging/setLevel', 'resources/subscribe', 'resources/unsubscribe'];
const others = [
  'tasks/get',
  'tasks/list',
  'tasks/result',
  'sampling/createMessage',
  'elicitation/create',
  'roots/list',
];
const wrong = [
  'unknown/method',
  'tools',
  'tools/call/',
  'TOOLS/LIST',
  'constructor',
  '__proto__',
  'notifications/x',
  'rpc.x',
];

export const METHODS = group('methods', [
  ...needless.map((method) => [`${method} is removed`, ask(method, { uri: 'app://text', level: 'info' })] as const),
  ...others.map(
    (method) =>
      [`${method} is not for servers`, ask(method, { taskId: 'x' }, { headers: { 'mcp-name': 'x' } })] as const,
  ),
  ...wrong.map((method) => [`${method} does not exist`, ask(method, {}, { capabilities: EVERYTHING })] as const),
  ['an empty one', ask('')],
  ['with white space around', ask(' tools/list ', {}, { headers: { 'mcp-method': 'tools/list' } })],
]);
