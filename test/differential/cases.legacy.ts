import { type Answers, type Case, type Exchange, envelope, EVERYTHING, group, http, old, post } from './case.js';
import { METHODS } from './cases.envelope.js';
import * as handlers from './cases.handlers.js';
import { BODIES, MEDIA, MESSAGES } from './cases.messages.js';

const FREE = ['text'] as const;
const ENVELOPES = [envelope(), envelope(EVERYTHING)].map((each) => JSON.stringify(each).slice(1, -1));

/** The table of the modern era as far as it is about messages and handlers, as a client of the legacy era says it. */
const SAME = [...Object.values(handlers).flat(), ...METHODS, ...MESSAGES, ...BODIES, ...MEDIA].map((row): Case => {
  return { ...row, steps: row.steps.map((step) => (before) => withoutEnvelope(step(before))) };
});

/** By its text: some rows are about how a body is written. */
function withoutEnvelope({ headers, body, ...rest }: Exchange): Exchange {
  const { 'mcp-protocol-version': _, 'mcp-method': __, 'mcp-name': ___, ...others } = headers;
  const without = (text: string) => ENVELOPES.reduce((left, each) => left.replaceAll(each, ''), text);
  const plain = Buffer.isBuffer(body) ? Buffer.from(without(body.toString('latin1')), 'latin1') : without(body ?? '');
  return { ...rest, headers: others, body: plain };
}

const ALONE = { session: 'none' } as const;
const clientInfo = { name: 'old', version: '1' };
const hello = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo };
const initialize = (params: object) => old('initialize', { ...hello, ...params });
const begin = (protocolVersion: unknown) =>
  [`of ${String(protocolVersion)}`, initialize({ protocolVersion }), ALONE] as const;
const list = old('tools/list');
const notified = { jsonrpc: '2.0', method: 'notifications/x' };
const answer = { jsonrpc: '2.0', id: 1, result: {} };
const headers = (more: Record<string, string>): Exchange => ({ ...list, headers: { ...list.headers, ...more } });

const SESSIONS = group('sessions', [
  ...['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05', '2026-07-28', 'x', ''].map(begin),
  ['with parameters that it does not know', initialize({ more: 1 }), ALONE],
  ['a second handshake', initialize({})],
  ['a request without a session', list, ALONE],
  ['a notification without a session', old('notifications/initialized', {}, { id: undefined }), ALONE],
  ['ping', old('ping')],
  ['ping with parameters', old('ping', { more: 1 })],
  ['an unknown version in the header', headers({ 'mcp-protocol-version': '1.0' })],
  ['an empty version in the header', headers({ 'mcp-protocol-version': '' })],
  ['another version in the header', headers({ 'mcp-protocol-version': '2025-06-18' })],
  ['GET that accepts JSON', http('GET', { accept: 'application/json', 'mcp-protocol-version': undefined })],
  ['GET without a session', http('GET', { 'mcp-protocol-version': undefined }), ALONE],
  ['DELETE without a session', http('DELETE', { 'mcp-protocol-version': undefined }), ALONE],
  ['PUT', { ...list, method: 'PUT' }],
  ['PATCH', { ...list, method: 'PATCH' }],
  ['a batch of one request', post(JSON.stringify([{ jsonrpc: '2.0', id: 1, method: 'tools/list' }]))],
  ['a batch of notifications', post(JSON.stringify([notified, notified]))],
  ['an empty batch', post('[]')],
  ['a batch with something else', post(JSON.stringify([notified, 1]))],
  ['a batch in a batch', post(JSON.stringify([[notified]]))],
  ['an answer to nothing', post(JSON.stringify(answer))],
  ['an answer that is null', post(JSON.stringify({ ...answer, result: null }))],
  [
    'an answer that is an error',
    post(JSON.stringify({ ...answer, result: undefined, error: { code: 1, message: '' } })),
  ],
  ['an error without a code', post(JSON.stringify({ ...answer, result: undefined, error: { message: 'x' } }))],
]);

const call = (name: string, args?: unknown, more?: object) => old('tools/call', { name, arguments: args, ...more });
const levels = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];
const talkAt = (level: unknown) => [() => old('logging/setLevel', { level }), () => call('talks')];
const OWN = { session: {} } as const;

const TALKING = group('talking', [
  ['no log level', call('talks'), OWN],
  ...levels.map((level) => [`log level ${level}`, talkAt(level), OWN] as const),
  ['a log level that does not exist', talkAt('loud'), OWN],
  ['a log level that is a number', talkAt(3), OWN],
  ['a log level in the envelope', call('talks', {}, { _meta: { 'io.modelcontextprotocol/logLevel': 'error' } }), OWN],
  ['no progress token', call('steps')],
  ...['p', 0, '', -1].map((progressToken) => {
    return [
      `the progress token ${JSON.stringify(progressToken)}`,
      call('steps', {}, { _meta: { progressToken } }),
    ] as const;
  }),
  [
    'a subscription',
    [
      () => old('resources/subscribe', { uri: 'app://text' }),
      () => old('resources/unsubscribe', { uri: 'app://text' }),
    ],
    OWN,
  ],
  ['a subscription to what is not there', old('resources/subscribe', { uri: 'app://no' })],
  ['an end of a subscription that never was', old('resources/unsubscribe', { uri: 'app://no' })],
]);

const form = { action: 'accept', content: { name: 'Anna', colour: 'red' } };
const model = { role: 'assistant', content: { type: 'text', text: 'Paris' }, model: 'm', stopReason: 'endTurn' };
const roots = { roots: [{ uri: 'file:///home', name: 'home' }] };
const GOOD: Record<string, object> = {
  'elicitation/create': form,
  'sampling/createMessage': model,
  'roots/list': roots,
};
/** A client that can be asked everything. */
const answering = (answers: Answers) => ({ session: EVERYTHING, answers, free: FREE });
const answered = (result: unknown) => answering(() => ({ result }));
const GIVEN = answering(({ method }) => ({ result: GOOD[method] }));
const failing = (code: number, data?: unknown) => answering(() => ({ error: { code, message: 'no', data } }));
const only = (method: string) =>
  answering((question) =>
    question.method === method ? { error: { code: -1, message: 'no' } } : { result: GOOD[question.method] },
  );

const RESULTS: Readonly<Record<string, unknown>> = {
  'an accepted form': form,
  'an accepted form with more': { action: 'accept', content: { name: 'Anna', age: 3 } },
  'an accepted form without content': { action: 'accept' },
  'a declined form': { action: 'decline' },
  'a cancelled form': { action: 'cancel' },
  'an unknown action': { action: 'maybe' },
  'a field of another type': { action: 'accept', content: { name: 1 } },
  'a field that is missing': { action: 'accept', content: {} },
  'content that is a text': { action: 'accept', content: 'Anna' },
  'a message': model,
  'a message with several contents': { ...model, content: [model.content, model.content] },
  'a message without a model': { ...model, model: undefined },
  'a message of an unknown role': { ...model, role: 'system' },
  roots,
  'no roots': { roots: [] },
  'roots that are a text': { roots: 'all' },
  'a root without a URI': { roots: [{ name: 'x' }] },
  'an empty object': {},
};
const ASKING_TOOLS = ['ask_name', 'ask_capital', 'ask_roots', 'ask_page'];

const ASKING = group('asking', [
  ...ASKING_TOOLS.flatMap((name) => [
    ...Object.entries(RESULTS).map(
      ([what, result]) => [`${name} is given ${what}`, call(name), answered(result)] as const,
    ),
    [`${name} is given an error`, call(name), failing(-32_600, { why: 'x' })] as const,
    ...Object.entries(CLIENTS()).map(
      ([who, session]) => [`${name} of ${who}`, call(name), { ...GIVEN, session }] as const,
    ),
  ]),
  ['several', call('ask_many'), GIVEN],
  ...Object.keys(GOOD).map((method) => [`several, no ${method}`, call('ask_many'), only(method)] as const),
  ['twice', call('ask_twice'), GIVEN],
  ['twice, and declined', call('ask_twice'), answered({ action: 'decline' })],
  ['a resource', old('resources/read', { uri: 'app://asked/1' }), GIVEN],
  ['a resource, an error', old('resources/read', { uri: 'app://asked/1' }), failing(-5)],
  ['a resource, a bad answer', old('resources/read', { uri: 'app://asked/1' }), answered({})],
  ['a prompt', old('prompts/get', { name: 'ask_prompt' }), GIVEN],
  ['a prompt, an error', old('prompts/get', { name: 'ask_prompt' }), failing(-5)],
  ['a prompt, a client that cannot', old('prompts/get', { name: 'ask_prompt' }), { ...GIVEN, session: {} }],
  ['after a progress report', call('talks_and_asks', {}, { _meta: { progressToken: 1 } }), GIVEN],
  ['D28: returned questions', call('returned'), GIVEN],
  [
    'D28: returned questions, one declined',
    call('returned'),
    answering(({ method }) => ({ result: method === 'roots/list' ? roots : { action: 'decline' } })),
  ],
  ['D28: returned questions, one failed', call('returned'), only('elicitation/create')],
  ['D28: returned questions, a client that cannot', call('returned'), { ...GIVEN, session: { elicitation: {} } }],
  ['D28: returned questions, answered in the request', call('returned', {}, { inputResponses: { name: form } }), GIVEN],
  ['D28: a returned state', call('keeps')],
  ['D7: a state of the client', call('keeps', {}, { requestState: 'x' })],
  ['D7: a state that is a number', call('keeps', {}, { requestState: 1 })],
]);

function CLIENTS(): Record<string, Record<string, unknown>> {
  return {
    'a client that cannot': {},
    'a client with forms before modes': { elicitation: {} },
    'a client with forms only': { elicitation: { form: {} } },
    'a client with pages only': { elicitation: { url: {} } },
    'a client with models and roots': { sampling: {}, roots: {} },
  };
}
export const LEGACY_CASES: readonly Case[] = [...SAME, ...SESSIONS, ...TALKING, ...ASKING];
