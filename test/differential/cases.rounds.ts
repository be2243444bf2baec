import { ask, call, EVERYTHING, group, logLevel, rounds, type Tweak } from './case.js';

const FREE = { free: ['text'] } as const;
const tool = (name: string) => ['tools/call', { name, arguments: {} }] as const;
const accept = (content: unknown) => ({ action: 'accept', content });
const given = (inputResponses: unknown) => ({ inputResponses });
const byAnna = { name: accept({ name: 'Anna' }) };
const anna = given(byAnna);
const model = { role: 'assistant', content: { type: 'text', text: 'Paris' }, model: 'm', stopReason: 'endTurn' };
const roots = { roots: [{ uri: 'file:///home', name: 'home' }] };
const byName = (...additions: (Record<string, unknown> | undefined)[]) => rounds(tool('ask_name'), additions);
const able = (name: string, capabilities: unknown) => call(name, {}, { capabilities });

export const ROUNDS = group('rounds', [
  ['a form', able('ask_name', EVERYTHING)],
  ['a form, answered', byName(anna)],
  ['a form, declined', byName(given({ name: { action: 'decline' } }))],
  ['a form, cancelled', byName(given({ name: { action: 'cancel' } }))],
  ['a form, answered at once', rounds(tool('ask_name'), [{ ...anna, requestState: undefined }])],
  ['a form, not answered', byName({})],
  ['a form, another key', byName(given({ other: accept({ name: 'Anna' }) }))],
  ['a form, another key too', byName(given({ name: accept({ name: 'Anna' }), other: accept({}) }))],
  ['a form, an answer that is not of its type', byName(given({ name: accept({ name: 12345 }) }))],
  ['a form, an answer without its field', byName(given({ name: accept({}) }))],
  ['a form, an answer without content', byName(given({ name: { action: 'accept' } }))],
  ['a form, an answer with more fields', byName(given({ name: accept({ name: 'Anna', age: 3 }) }))],
  ['a form, a bad answer and then a good one', byName(given({ name: accept({}) }), anna)],
  ['a form, an unknown action', byName(given({ name: { action: 'maybe' } }))],
  ['a form, an answer that is a number', byName(given({ name: 12345 }))],
  ['a form, an answer that is null', byName(given({ name: null }))],
  ['a form, an answer that is an array', byName(given({ name: [] }))],
  ['a form, an answer of another kind', byName(given({ name: roots }))],
  ['answers are null', byName(given(null))],
  ['answers are an array', byName(given([]))],
  ['answers are a text', byName(given('Anna'))],
  ['answers are empty', byName(given({}))],
  [
    'answers under __proto__',
    byName(given(JSON.parse('{"__proto__":{"name":{"action":"accept","content":{"name":"x"}}}}'))),
  ],
  ['answers where nothing is asked', call('plain', {}, { members: {} })],
  ['answers to a tool that asks nothing', ask('tools/call', { name: 'plain', ...anna })],
  ['answers to a list', ask('tools/list', { ...anna })],
  ['a model', able('ask_capital', EVERYTHING)],
  ['a model, answered', rounds(tool('ask_capital'), [given({ capital: model })])],
  ['a model, answered badly', rounds(tool('ask_capital'), [given({ capital: { role: 'assistant' } })])],
  ['roots', able('ask_roots', EVERYTHING)],
  ['roots, answered', rounds(tool('ask_roots'), [given({ roots })])],
  ['roots, none', rounds(tool('ask_roots'), [given({ roots: { roots: [] } })])],
  ['roots, answered badly', rounds(tool('ask_roots'), [given({ roots: { roots: 'all' } })])],
  ['roots, one of them bad', rounds(tool('ask_roots'), [given({ roots: { roots: [{ uri: 1 }] } })])],
  ['a page', able('ask_page', EVERYTHING)],
  ['a page, visited', rounds(tool('ask_page'), [given({ page: { action: 'accept' } })])],
  ['several', able('ask_many', EVERYTHING)],
  ['several, all answered', rounds(tool('ask_many'), [given({ ...byAnna, capital: model, roots })])],
  ['several, one answered', rounds(tool('ask_many'), [anna])],
  ['several, one by one', rounds(tool('ask_many'), [anna, given({ capital: model }), given({ roots })])],
  ['twice', rounds(tool('ask_twice'), [anna, given({ colour: accept({ colour: 'red' }) })])],
  ['twice, the second too early', rounds(tool('ask_twice'), [given({ colour: accept({ colour: 'red' }) })])],
  ['twice, the first again', rounds(tool('ask_twice'), [anna, given({ name: accept({ name: 'Berta' }) })])],
  ['a resource', rounds(['resources/read', { uri: 'app://asked/1' }], [anna])],
  ['a prompt', rounds(['prompts/get', { name: 'ask_prompt' }], [anna])],
  ["the SDK's own result", rounds(tool('keeps'), [{}])],
  ['a progress report first', rounds(tool('talks_and_asks'), [anna], { meta: { progressToken: 1 } })],
]);

const state = (requestState: unknown) => byName({ ...anna, requestState });
const other = (first: string, second: readonly [string, Record<string, unknown>]) => {
  const [begin] = rounds(tool(first), []);
  const [, proceed] = rounds(second, [anna]);
  return [begin!, proceed!];
};

export const STATE = group('state', [
  ['tampered', state('tampered')],
  [
    'with an end',
    [
      ...byName(),
      (before: Record<string, unknown> | undefined) =>
        retry({ requestState: `${before!['requestState'] as string}-TAMPERED` }),
    ],
  ],
  ['empty', state('')],
  ['a number', state(1)],
  ['null', state(null)],
  ['an object', state({})],
  ['of another tool', other('ask_name', tool('ask_twice'))],
  ['of another method', other('ask_name', ['prompts/get', { name: 'ask_prompt' }])],
  ['of other arguments', other('ask_name', ['tools/call', { name: 'ask_name', arguments: { more: 1 } }])],
  ['to a tool that asks nothing', ask('tools/call', { name: 'plain', arguments: {}, requestState: 'x' })],
  ['to a list', ask('tools/list', { requestState: 'x' })],
  ['to an unknown tool', ask('tools/call', { name: 'nobody', requestState: 'x' })],
]);

function retry(more: Record<string, unknown>) {
  return ask('tools/call', { name: 'ask_name', arguments: {}, ...anna, ...more }, { capabilities: EVERYTHING });
}

export const CAPABILITIES = group('capabilities', [
  ['a form, none', able('ask_name', {})],
  ['a form, other ones', able('ask_name', { sampling: {}, roots: {} })],
  ['a form, elicitation as it was before modes', able('ask_name', { elicitation: {} })],
  ['a form, URLs only', able('ask_name', { elicitation: { url: {} } })],
  ['a page, none', able('ask_page', {})],
  ['a page, forms only', able('ask_page', { elicitation: { form: {} } })],
  ['a page, elicitation as it was before modes', able('ask_page', { elicitation: {} })],
  ['a model, none', able('ask_capital', {})],
  ['roots, none', able('ask_roots', {})],
  ['several, one of them not', able('ask_many', { elicitation: {}, sampling: {} })],
  ['a form, none, after a progress report', call('talks_and_asks', {}, { meta: { progressToken: 1 } })],
  ['a form, answered, none', ask('tools/call', { name: 'ask_name', arguments: {}, ...anna })],
]);

const talk = (level?: unknown) => call('talks', {}, level === undefined ? {} : { meta: logLevel(level) });

export const TALKING = group('talking', [
  ['no log level', talk()],
  ...['debug', 'info', 'warning', 'error'].map((level) => [`log level ${level}`, talk(level)] as const),
  ['a log level that does not exist', talk('loud'), FREE],
  ['no progress token', call('steps', {})],
  ['a progress token that is a text', call('steps', {}, { meta: { progressToken: 'p' } })],
  ['a progress token that is 0', call('steps', {}, { meta: { progressToken: 0 } })],
  ['an empty progress token', call('steps', {}, { meta: { progressToken: '' } })],
  ['a progress token to a tool that reports nothing', call('plain', {}, { meta: { progressToken: 'p' } })],
]);

const listen = (notifications: unknown, tweak?: Tweak) => ask('subscriptions/listen', { notifications }, tweak);
const ACKNOWLEDGED = { reads: 1 } as const;

export const SUBSCRIPTIONS = group('subscriptions', [
  ['to tools', listen({ toolsListChanged: true }), ACKNOWLEDGED],
  [
    'to everything',
    listen({ toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true }),
    ACKNOWLEDGED,
  ],
  ['with a text as id', listen({ toolsListChanged: true }, { id: 'first' }), ACKNOWLEDGED],
  ['to tools, and not to prompts', listen({ toolsListChanged: true, promptsListChanged: false }), ACKNOWLEDGED],
  ['to a resource', listen({ resourceSubscriptions: ['app://text'] }), ACKNOWLEDGED],
  ['to a resource twice', listen({ resourceSubscriptions: ['app://text', 'app://text'] }), ACKNOWLEDGED],
  ['to a resource of a template', listen({ resourceSubscriptions: ['app://items/1'] }), ACKNOWLEDGED],
  [
    'to a resource that does not exist',
    listen({ toolsListChanged: true, resourceSubscriptions: ['app://no'] }),
    ACKNOWLEDGED,
  ],
  ['to what it does not know', listen({ toolsListChanged: true, more: true }), ACKNOWLEDGED],
  ['to nothing', listen({})],
  ['to no resource', listen({ resourceSubscriptions: [] })],
  ['to nothing but falsehoods', listen({ toolsListChanged: false })],
  ['without a filter', listen(undefined)],
  ['with a filter that is null', listen(null)],
  ['with a filter that is an array', listen([])],
  ['with a filter that is a text', listen('tools')],
  ['with a flag that is a text', listen({ toolsListChanged: 'yes' })],
  ['with a flag that is null', listen({ toolsListChanged: null })],
  ['with resources that are a text', listen({ resourceSubscriptions: 'app://text' })],
  ['with resources that are numbers', listen({ resourceSubscriptions: [1] })],
  ['without Mcp-Method', listen({ toolsListChanged: true }, { headers: { 'mcp-method': undefined } })],
]);
