import { type Case, envelope, type Era, type Exchange, NAMED_BY, post } from './case.js';
import { MODERN } from '../support/modern-client.js';

/** A cursor of ours, of the page that begins with the first entry; the SDK has no pages. */
export const FIRST_PAGE = Buffer.from('4:0:0').toString('base64url');

/** A message as a well-behaved client sends it, with every field that its method has. */
interface Sound {
  readonly method: string;
  readonly params: Record<string, unknown>;
  readonly notification?: true;
  /** The era that it is sent in. @default both */
  readonly era?: Era;
  /** Messages after which the client goes away. */
  readonly reads?: number;
}

const capabilities = {
  roots: { listChanged: true },
  sampling: { context: {}, tools: {} },
  elicitation: { form: { applyDefaults: true }, url: {} },
  experimental: { x: { y: 1 } },
};
const icons = [{ src: 'https://example.com/a.png', mimeType: 'image/png', sizes: ['48x48'], theme: 'light' }];
const clientInfo = { name: 'raw', title: 'Raw', version: '1.0.0', websiteUrl: 'https://example.com', icons };
const inputResponses = { name: { action: 'accept', content: { name: 'Anna' } } };
const filter = {
  toolsListChanged: true,
  promptsListChanged: true,
  resourcesListChanged: true,
  resourceSubscriptions: ['app://text'],
};

const REQUESTS: readonly Sound[] = [
  { method: 'initialize', era: 'legacy', params: { protocolVersion: '2025-11-25', capabilities, clientInfo } },
  { method: 'ping', era: 'legacy', params: {} },
  { method: 'logging/setLevel', era: 'legacy', params: { level: 'debug' } },
  { method: 'resources/subscribe', era: 'legacy', params: { uri: 'app://text' } },
  { method: 'resources/unsubscribe', era: 'legacy', params: { uri: 'app://text' } },
  { method: 'server/discover', params: {} },
  { method: 'subscriptions/listen', era: 'modern', params: { notifications: filter }, reads: 1 },
  { method: 'tools/list', params: { cursor: FIRST_PAGE } },
  { method: 'resources/list', params: { cursor: FIRST_PAGE } },
  { method: 'resources/templates/list', params: { cursor: FIRST_PAGE } },
  { method: 'prompts/list', params: { cursor: FIRST_PAGE } },
  { method: 'tools/call', params: { name: 'strict', arguments: { word: 'one' }, task: { ttl: 1000 } } },
  { method: 'tools/call', params: { name: 'plain', inputResponses, requestState: undefined } },
  { method: 'resources/read', params: { uri: 'app://text' } },
  { method: 'prompts/get', params: { name: 'greet', arguments: { name: 'Anna', tone: 'curt' } } },
  {
    method: 'completion/complete',
    params: {
      ref: { type: 'ref/prompt', name: 'greet' },
      argument: { name: 'name', value: 'an' },
      context: { arguments: { tone: 'curt' } },
    },
  },
  {
    method: 'completion/complete',
    params: { ref: { type: 'ref/resource', uri: 'app://items/{id}' }, argument: { name: 'id', value: '' } },
  },
  // Methods that no server has: that there are none comes before what is wrong with their parameters.
  { method: 'tasks/get', params: { taskId: 'x' } },
  { method: 'sampling/createMessage', params: { messages: [], maxTokens: 1 } },
  { method: 'no/such', params: { x: 1 } },
];

const NOTIFICATIONS: readonly Sound[] = [
  { method: 'notifications/initialized', era: 'legacy', params: {} },
  { method: 'notifications/roots/list_changed', era: 'legacy', params: {} },
  { method: 'notifications/cancelled', params: { requestId: 5, reason: 'no need' } },
  { method: 'notifications/progress', params: { progressToken: 5, progress: 1, total: 2, message: 'half' } },
  { method: 'notifications/unknown', params: { x: 1 } },
].map((sound) => ({ ...sound, notification: true }) as Sound);

/** What may stand at a field. */
const VALUES: Readonly<Record<string, unknown>> = {
  missing: undefined,
  null: null,
  true: true,
  zero: 0,
  'a fraction': 1.5,
  'an empty text': '',
  'a text': 'x',
  'an empty array': [],
  'an array': [1],
  'an empty object': {},
  'an object': { x: 1 },
};

const nested = '{"a":['.repeat(200) + '1' + ']}'.repeat(200);

/** What may be added to an object, as JSON. */
const ADDED: Readonly<Record<string, string>> = {
  'and an unknown key': '"more":1',
  'and a key "__proto__"': '"__proto__":{"more":1}',
  'and a key "constructor"': '"constructor":{"prototype":{"more":1}}',
  'and a deep value': `"deep":${nested}`,
};

/**
 * Every message of an era with each field of its parameters as it should not be, one at a time: left out, of each wrong type,
 * with unknown and with dangerous keys.
 */
export function casesOfParams(era: Era): Case[] {
  let id = 1_000;
  return [...REQUESTS, ...NOTIFICATIONS]
    .filter((sound) => sound.era === undefined || sound.era === era)
    .flatMap((sound, index) =>
      [...spoilt(sound, era)].map(([what, params]) => {
        // An id of its own: they are sent side by side, in one session.
        const exchange = sent(sound, params, era, id++);
        return {
          steps: [() => exchange],
          title: `params ${index}: ${sound.method}: ${what}`,
          free: ['text' as const],
          ...(sound.reads !== undefined && { reads: sound.reads }),
          ...(sound.method === 'initialize' && { session: 'none' as const }),
        };
      }),
    );
}

function sent({ method, notification }: Sound, params: unknown, era: Era, id: number): Exchange {
  const message = { jsonrpc: '2.0', ...(!notification && { id }), method, params };
  if (era === 'legacy') return post(JSON.stringify(message));
  const named = ((params ?? {}) as Record<string, unknown>)[NAMED_BY[method] ?? ''];
  return post(JSON.stringify(message), {
    'mcp-protocol-version': MODERN,
    'mcp-method': method,
    'mcp-name': typeof named === 'string' ? named : undefined,
  });
}

function* spoilt({ params, notification }: Sound, era: Era): Generator<[what: string, params: unknown]> {
  const _meta = { ...(!notification && { progressToken: 'p' }), ...(era === 'modern' && envelope()) };
  const sound = { ...params, _meta };
  yield ['as it should be', sound];
  for (const path of [[], ...pathsOf(sound)]) {
    const at = ['params', ...path].join('.');
    for (const [name, value] of Object.entries(VALUES)) yield [`${at} is ${name}`, replaced(sound, path, value)];
    if (!isObject(valueAt(sound, path))) continue;
    for (const [name, text] of Object.entries(ADDED)) yield [`${at} ${name}`, extended(sound, path, text)];
  }
}

function* pathsOf(value: unknown, at: readonly string[] = []): Generator<readonly string[]> {
  if (typeof value !== 'object' || value === null) return;
  for (const [key, member] of Object.entries(value)) {
    yield [...at, key];
    yield* pathsOf(member, [...at, key]);
  }
}

function valueAt(value: unknown, path: readonly string[]): unknown {
  return path.reduce((at, key) => (at as Record<string, unknown>)[key], value);
}

function replaced(value: unknown, [key, ...rest]: readonly string[], by: unknown): unknown {
  if (key === undefined) return by;
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<string, unknown>;
  copy[key] = replaced(copy[key], rest, by);
  return copy;
}

const MARK = '<added>';

/** By its text, since no literal has a key "__proto__". */
function extended(value: unknown, path: readonly string[], text: string): unknown {
  const marked = replaced(value, [...path, MARK], 0);
  return JSON.parse(JSON.stringify(marked).replace(`"${MARK}":0`, () => text));
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Rows by the message that they spoil, for a test each. */
export function methodsOf(rows: readonly Case[]): [title: string, rows: Case[]][] {
  const groups = new Map<string, Case[]>();
  for (const row of rows) {
    const title = row.title.split(': ', 2).join(' ');
    groups.set(title, [...(groups.get(title) ?? []), row]);
  }
  return [...groups];
}
