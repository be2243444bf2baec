import { randomBytes } from 'node:crypto';
import { BadRequestException, ForbiddenException, InternalServerErrorException, Logger } from '@nestjs/common';
import { inputRequired, UrlElicitationRequiredError } from '@modelcontextprotocol/server';
import { of, throwError } from 'rxjs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import {
  type CallingClient,
  type ClientIdentity,
  McpCall,
  type OutboundMessage,
  runInCall,
} from '../calls/mcp-call.js';
import type { McpContext } from '../calls/mcp-context.js';
import { McpServerRequestError } from '../calls/server-request.error.js';
import { EndpointSources } from '../handlers/registry/endpoint-sources.js';
import { HandlerTable } from '../handlers/registry/handler-table.js';
import { McpRegistry } from '../handlers/registry/mcp-registry.js';
import { RegisteredEntries } from '../handlers/registry/registered-entries.js';
import { toolLog, toolProgress } from '../handlers/results/tool-event.js';
import { RequestStates } from '../questions/request-state.js';
import { registryParts } from '../../../test/support/registry-parts.js';
import { share, seededRandom } from '../../../test/support/share.js';
import { type McpEra, SERVER_INFO_META_KEY } from '../protocol/era.js';
import { errorResponse, McpError, rpcErrorOf } from '../protocol/errors.js';
import { type JsonRpcRequest, readMessages } from '../protocol/json-rpc.js';
import { checkedBySpec, sdk, type SpecTypeName } from '../protocol/spec.js';
import type { CachePolicy } from './cache-hints.js';
import { EndpointCapabilities } from './capabilities.js';
import { HandlerCalls } from './handler-calls.js';
import { lifecycleMethods, sessionMethods } from './lifecycle.js';
import { listMethods } from './lists.js';
import { MethodDispatcher } from './method-dispatcher.js';
import { promptMethods } from './prompts.js';
import { resourceMethods, subscriptionMethods } from './resources.js';
import { toolMethods } from './tools.js';

/**
 * # The dispatcher under random requests
 *
 * Each seed is a client of one era with one request: a right one, a right one that was changed here and there, or anything.
 * A client of revision 2026-07-28 that is asked repeats its request, with answers that are right or not; one with a session
 * answers while its handler runs. The handlers do everything that handlers should not. Whatever happens:
 *
 * - nothing leaves but by the promise (or throw) of `request()`: no rejection is left unhandled;
 * - an error has a JSON-RPC code, and neither it nor a result quotes what a client must not see;
 * - a result, as JSON, is one that the specification has for the method, in that era.
 *
 * A failure names its seed: `FUZZ_SEED=<seed> FUZZ_RUNS=1 npx vitest run src/core/methods/method-dispatcher.fuzz.spec.ts`
 */
const SEED = Number(process.env['FUZZ_SEED'] ?? 1);
const RUNS = share(100_000, process.env['FUZZ_RUNS']);

const SERVER_INFO = { name: 'fuzzed', version: '1.0.0' };
const SECRET = 'the password is hunter2';
/** Matches texts of the inside: stacks, paths, and texts of the language and of Node. */
const INTERNAL = new RegExp(
  [
    SECRET,
    '\\n\\s+at ',
    'node:internal',
    'node_modules',
    process.cwd(),
    '\\.[cm]?[jt]s:\\d',
    'is not a function',
    'is not iterable',
    'Cannot (?:read|convert|set|assign|destructure)',
    'call stack',
    'circular structure',
    'serialize a BigInt',
    'Unexpected token',
    'is not defined',
    '\\[object ',
  ].join('|'),
);

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
type Fields = Record<string, Json>;

class Random {
  readonly #next: () => number;
  constructor(seed: number) {
    this.#next = seededRandom(seed);
  }
  int(below: number): number {
    return Math.floor(this.#next() * below);
  }
  chance(likelihood: number): boolean {
    return this.#next() < likelihood;
  }
  pick<T>(from: readonly T[]): T {
    return from[this.int(from.length)]!;
  }
}

// ---- what the application does --------------------------------------------------------------------------------------

const trap = (): never => {
  throw new Error(SECRET);
};
const unreadable = (): object => new Proxy({}, { get: trap, has: trap, ownKeys: trap, getOwnPropertyDescriptor: trap });
const cyclic = (): object => {
  const value: Record<string, unknown> = { name: 'cyclic' };
  value['self'] = value;
  return value;
};
const text = (value: unknown): object => ({ type: 'text', text: value });

/** Arrays in arrays: deeper than `JSON.stringify` goes. */
const DEPTH = 10_000;
const NESTED: unknown = JSON.parse('['.repeat(DEPTH) + ']'.repeat(DEPTH));

class Account {
  readonly #hidden = SECRET;
  name = 'account';
  get length(): number {
    return this.#hidden.length;
  }
}
class Dated {
  constructor(readonly at = new Date(0)) {}
  toJSON(): object {
    return { at: this.at };
  }
}

/** Handlers throw these. */
const THROWN: Readonly<Record<string, () => unknown>> = {
  error: () => new Error(SECRET),
  typeError: () => new TypeError(SECRET),
  proxy: unreadable,
  proxyOfError: () => new Proxy(new Error(SECRET), { get: trap }),
  opaqueProxy: () => new Proxy({}, { get: trap, getPrototypeOf: trap }),
  getters: () => Object.defineProperties(new Error(SECRET), { message: { get: trap }, code: { get: trap } }),
  text: () => SECRET,
  nothing: () => undefined,
  null: () => null,
  symbol: () => Symbol(SECRET),
  number: () => 7,
  coded: () => ({ code: -32000, message: SECRET }),
  codedError: () => Object.assign(new Error(SECRET), { code: -32000, data: SECRET }),
  nodeError: () => Object.assign(new Error(SECRET), { code: 'ENOENT', errno: -2, path: SECRET }),
  cyclic: () => Object.assign(new Error(SECRET), { cause: cyclic() }),
  aggregate: () => new AggregateError([new Error(SECRET)], SECRET),
  badRequest: () => new BadRequestException('told'),
  forbidden: () => new ForbiddenException('told'),
  serverError: () => new InternalServerErrorException(SECRET),
  protocol: () => new sdk.ProtocolError(-32050, 'told', { told: true }),
  protocolData: () => new sdk.ProtocolError(-32050, 'told', cyclic()),
  oddCode: () => new sdk.ProtocolError(NaN, SECRET),
  textCode: () => new sdk.ProtocolError('E1' as never, SECRET),
  notFound: () => new sdk.ProtocolError(-32002, 'told'),
  refusal: () => new McpError('NOT_ACCEPTABLE', 'told', { cause: new Error(SECRET) }),
  url: () =>
    new UrlElicitationRequiredError([{ mode: 'url', message: 'told', url: 'https://a.example', elicitationId: '1' }]),
  serverRequest: () => new McpServerRequestError('NO_STREAM', 'told'),
};

/** Handlers return these. */
const RETURNED: Readonly<Record<string, () => unknown>> = {
  text: () => 'text',
  nothing: () => undefined,
  null: () => null,
  true: () => true,
  nan: () => NaN,
  bigint: () => 7n,
  symbol: () => Symbol('s'),
  function: () => trap,
  date: () => new Date(0),
  badDate: () => new Date(NaN),
  regexp: () => /x/,
  map: () => new Map([['a', 1n]]),
  set: () => new Set([1]),
  bytes: () => new Uint8Array([1, 2]),
  account: () => new Account(),
  dated: () => new Dated(),
  error: () => new Error(SECRET),
  cyclic,
  holdsBigint: () => ({ a: [{ b: 7n }] }),
  holdsFunction: () => ({ a: trap, b: [trap], c: undefined, d: Symbol('s') }),
  throwingToJson: () => ({ toJSON: trap }),
  silentToJson: () => ({ toJSON: () => undefined }),
  throwingGetter: () => Object.defineProperty({}, 'content', { enumerable: true, get: trap }),
  innerGetter: () => ({ content: [Object.defineProperty({ type: 'text' }, 'text', { enumerable: true, get: trap })] }),
  proxy: unreadable,
  // oxlint-disable-next-line unicorn/no-thenable -- meant
  thenable: () => ({ then: trap }),
  frozen: () => Object.freeze({ a: Object.freeze([1]) }),
  bare: () => Object.assign(Object.create(null) as object, { a: 1 }),
  sparse: () => Object.assign([], { 3: 'x' }),
  deep: () => ({ deep: NESTED }),
  deepResult: () => ({ content: [text('x')], structuredContent: { deep: NESTED } }),
  promise: () => Promise.resolve('text'),
  rejection: () => Promise.reject(new Error(SECRET)),
  observable: () => of(toolProgress(1), toolLog('info', 'x'), 'text'),
  twoResults: () => of('one', 'two'),
  brokenObservable: () => throwError(() => new Error(SECRET)),
  async *iterable() {
    yield toolProgress(1, 2);
    yield 'text';
  },
  async *brokenIterable() {
    yield toolProgress(1);
    throw new Error(SECRET);
  },
  generator: () =>
    (function* () {
      yield 1;
    })(),
  block: () => text('x'),
  badBlock: () => text(5),
  blocks: () => [text('x'), { type: 'image', data: 'AA==', mimeType: 'image/png' }],
  badBlocks: () => ({ content: [{ type: 'image', data: 'not base64!', mimeType: 'image/png' }] }),
  unknownBlock: () => ({ content: [{ type: 'video' }] }),
  annotated: () => ({ content: [{ ...text('x'), annotations: { priority: 7 } }] }),
  toolResult: () => ({ content: [text('x')], structuredContent: { sum: 1 }, _meta: { own: true } }),
  failedResult: () => ({ content: [text('x')], isError: true }),
  oddFailure: () => ({ content: [text('x')], isError: 'yes' }),
  noInfo: () => ({ content: [text('x')], contents: [], messages: [], _meta: { [SERVER_INFO_META_KEY]: undefined } }),
  ownInfo: () => ({ content: [text('x')], _meta: { [SERVER_INFO_META_KEY]: { name: 'own', version: '2' } } }),
  badInfo: () => ({ content: [text('x')], contents: [], messages: [], _meta: { [SERVER_INFO_META_KEY]: 5 } }),
  badMeta: () => ({ content: [text('x')], _meta: 5 }),
  structuredText: () => ({ content: [text('x')], structuredContent: 'text' }),
  structuredBigint: () => ({ content: [text('x')], structuredContent: { sum: 7n } }),
  otherType: () => ({ content: [text('x')], contents: [], messages: [], resultType: 'other' }),
  task: () => ({ content: [text('x')], contents: [], messages: [], resultType: 'task', task: {} }),
  ownType: () => ({ content: [text('x')], contents: [], messages: [], resultType: 'complete' }),
  ownToJson: () => ({ content: [text('x')], contents: [], messages: [], toJSON: () => 5 }),
  contents: () => ({ contents: [{ text: 'x' }, { uri: 'a://b', blob: 'AA==' }], ttlMs: 5, cacheScope: 'public' }),
  badContents: () => ({ contents: [{ uri: 5, mimeType: 7, text: 'x' }] }),
  badContentsMeta: () => ({ contents: [{ uri: 'a://b', text: 'x', _meta: 5 }], _meta: [] }),
  badHints: () => ({ contents: [{ text: 'x' }], ttlMs: -1, cacheScope: 'all' }),
  badBlob: () => ({ contents: [{ uri: 'a://b', blob: '!!' }] }),
  messages: () => ({ messages: ['x', { role: 'assistant', content: text('y') }], description: 'd' }),
  badMessages: () => ({ messages: [{ role: 'system', content: text('y') }] }),
  badDescription: () => ({ messages: ['x'], description: 5, _meta: 'x' }),
  completion: () => ({ values: ['a', 'b'], total: 7, hasMore: true }),
  completions: () => Array.from({ length: 150 }, (_, index) => `v${index}`),
  badCompletion: () => ({ values: ['a'], total: 'many', hasMore: 5 }),
  asks: () => inputRequired({ inputRequests: { name: FORM } }),
  asksAll: () =>
    inputRequired({ inputRequests: { name: FORM, page: PAGE, model: MODEL, roots: ROOTS }, requestState: 'own' }),
  waits: () => inputRequired({ requestState: 'own' }),
  asksNothing: () => ({ resultType: 'input_required' }),
  asksOddly: () => ({ resultType: 'input_required', inputRequests: { name: { method: 'no/such' } } }),
  asksBadly: () => ({ resultType: 'input_required', inputRequests: 'name', requestState: 5 }),
  asksBadForm: () => ({
    resultType: 'input_required',
    inputRequests: { '': FORM, __proto__: FORM, f: { ...FORM, params: {} } },
  }),
  asksUnreadable: () => ({ resultType: 'input_required', inputRequests: { name: unreadable() } }),
  asksBigint: () => ({ resultType: 'input_required', inputRequests: { name: FORM }, _meta: { a: 7n } }),
};

const FORM = inputRequired.elicit({
  message: 'Who?',
  requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
});
const PAGE = inputRequired.elicitUrl({ message: 'Sign in', url: 'https://a.example' });
const MODEL = inputRequired.createMessage({
  messages: [{ role: 'user', content: { type: 'text', text: 'x' } }],
  maxTokens: 5,
});
const ROOTS = inputRequired.listRoots();
const QUESTIONS = { name: FORM, page: PAGE, model: MODEL, roots: ROOTS };

/** Throws or returns as the client wishes; asks until it is answered. */
async function act(wish: unknown, ctx: McpContext): Promise<unknown> {
  const [what = '', key = ''] = typeof wish === 'string' ? wish.split('.') : [];
  if (what === 'throw' && Object.hasOwn(THROWN, key)) throw THROWN[key]!();
  if (what === 'return' && Object.hasOwn(RETURNED, key)) {
    if (key.startsWith('asks') && ctx.inputResponses && 'name' in ctx.inputResponses) return 'answered';
    return key === 'waits' && ctx.requestState ? 'waited' : RETURNED[key]!();
  }
  if (what === 'say') return say(key, ctx);
  if (what === 'ask') return ask(key, ctx);
  return 'nothing special';
}

async function ask(key: string, ctx: McpContext): Promise<unknown> {
  const done = await ctx.once('before', () => ({ at: 1 }));
  const question = QUESTIONS[key as keyof typeof QUESTIONS];
  if (question) return { done, answer: (await ctx.ask({ [key]: question as never }))[key] };
  if (key === 'both') return ctx.ask({ name: FORM as never, roots: ROOTS as never });
  if (key === 'twice') return [await ctx.ask({ name: FORM as never }), await ctx.ask({ model: MODEL as never })];
  if (key === 'caught') return ctx.ask({ page: PAGE as never }).catch(() => 'caught');
  if (key === 'dropped') void ctx.elicit('name', FORM.params as never);
  if (key === 'wrongly') return ctx.ask({ '': unreadable() as never });
  return ctx.elicit('bad', { message: 'x', requestedSchema: { type: 'nothing' } as never });
}

async function say(key: string, ctx: McpContext): Promise<unknown> {
  if (key === 'odd') void ctx.log('info', 7n);
  if (key === 'foreign') void ctx.notify('notifications/initialized');
  if (key === 'late') setImmediate(() => void ctx.progress(3));
  if (key === 'cyclic') await ctx.notify('notifications/own', { cyclic: cyclic() }).catch(() => undefined);
  await ctx.progress(1, 2, 'half');
  await ctx.log('warning', { a: 1 }, 'logger');
  return 'said';
}

const WISHES: readonly string[] = [
  ...Object.keys(THROWN).map((key) => `throw.${key}`),
  ...Object.keys(RETURNED).map((key) => `return.${key}`),
  ...['odd', 'foreign', 'late', 'cyclic', 'plainly'].map((key) => `say.${key}`),
  ...['name', 'page', 'model', 'roots', 'both', 'twice', 'caught', 'dropped', 'wrongly', 'schema'].map(
    (key) => `ask.${key}`,
  ),
];

const ENDPOINT = { find: () => undefined, offer: { assertHandlers: () => {} } as never, path: 'mcp' };
const CACHE: CachePolicy = { list: { ttlMs: 1_000, scope: 'public' }, guarded: () => false };

function dispatcher(): MethodDispatcher {
  const table = new HandlerTable();
  const failures = { errorDetails: false, denials: 'result' } as const;
  const sources = new EndpointSources(table);
  const entries = new RegisteredEntries(table, failures, ...registryParts());
  registerHandlers(new McpRegistry(table, ENDPOINT, sources, entries));
  const options = {
    secrets: [randomBytes(32)],
    ttlMs: 1_000,
    clockToleranceMs: 0,
    maxBytes: 16_384,
    endpoint: { name: undefined, path: '/' },
  };
  const states = new RequestStates(options, { now: () => 1_000_000 });
  const calls = new HandlerCalls(states, {} as never);
  const declared = new EndpointCapabilities({ extensions: {}, sessions: 'required' });
  return new MethodDispatcher(SERVER_INFO, declared)
    .add(lifecycleMethods({ serverInfo: SERVER_INFO, instructions: 'Be random.' }, CACHE, declared))
    .add(sessionMethods())
    .add(subscriptionMethods(sources, calls))
    .add(listMethods(sources, calls, { pageSize: 2, cache: CACHE }))
    .add(toolMethods(sources, calls))
    .add(resourceMethods(sources, calls, CACHE))
    .add(promptMethods(sources, calls));
}

function registerHandlers(registry: McpRegistry): void {
  const wish = ({ what }: { what?: unknown }, ctx: McpContext): Promise<unknown> => act(what, ctx);
  registry.registerTool({ name: 'act', handler: wish });
  registry.registerTool({ name: 'echo', handler: (args: object) => args });
  registry.registerTool({
    name: 'typed',
    inputSchema: z.object({
      what: z.string().optional(),
      count: z.number().int().max(9),
      list: z.array(z.string()).optional(),
    }),
    handler: ({ what, count }: { what?: string; count: number }, ctx: McpContext) =>
      what ? act(what, ctx) : { count },
  });
  registry.registerTool({
    name: 'schema',
    inputSchema: { type: 'object', properties: { what: { type: 'string' } }, required: ['what'] },
    handler: wish,
  });
  registry.registerTool({ name: 'sum', outputSchema: z.object({ sum: z.number() }), handler: wish });
  const cache = { ttlMs: 500, scope: 'public' } as const;
  registry.registerResource({ uri: 'app://text', name: 'text', cache, handler: () => 'text' });
  for (const key of WISHES) {
    registry.registerResource({ uri: `app://${key}`, name: key, handler: (_args, ctx) => act(key, ctx) });
  }
  registry.registerResourceTemplate({
    uriTemplate: 'fuzz://{what}',
    name: 'wishes',
    handler: ({ what }, ctx) => act(what, ctx),
    complete: { what: (value, _others, ctx) => act(value, ctx) as never },
  });
  registry.registerPrompt({
    name: 'wish',
    arguments: [{ name: 'what', required: true }, { name: 'other' }],
    handler: wish,
    complete: { what: (value, _others, ctx) => act(value, ctx) as never, other: () => ['one', 'two'] },
  });
  registry.registerPrompt({ name: 'plain', handler: () => 'plain' });
  registry.registerPrompt({
    name: 'typed',
    inputSchema: z.object({ count: z.coerce.number() }),
    handler: ({ count }) => `${count}`,
  });
}

// ---- what the client does ------------------------------------------------------------------------------------------

/** The methods with right parameters. */
const RIGHT: Readonly<Record<string, (random: Random) => Fields>> = {
  initialize: (random) => ({
    protocolVersion: random.pick(['2025-11-25', '2025-03-26', '1999-01-01', '']),
    capabilities: random.pick<Json>([
      {},
      { elicitation: {} },
      { roots: { listChanged: true }, experimental: { a: {} } },
    ]),
    clientInfo: { name: 'fuzz', version: '1' },
  }),
  ping: () => ({}),
  'server/discover': () => ({}),
  'logging/setLevel': (random) => ({ level: random.pick(['debug', 'warning', 'emergency']) }),
  'tools/list': cursor,
  'resources/list': cursor,
  'resources/templates/list': cursor,
  'prompts/list': cursor,
  'tools/call': (random) => {
    const name = random.pick(['act', 'act', 'act', 'echo', 'typed', 'schema', 'sum']);
    const what = random.pick(WISHES);
    return { name, arguments: { what, ...(name === 'typed' && { count: random.int(12) }) } };
  },
  'resources/read': uri,
  'resources/subscribe': uri,
  'resources/unsubscribe': uri,
  'prompts/get': (random) => {
    const name = random.pick(['wish', 'wish', 'plain', 'typed']);
    return { name, arguments: { ...(random.chance(0.8) && { what: random.pick(WISHES), count: '5' }) } };
  },
  'completion/complete': (random) => ({
    ref: random.pick<Json>([
      { type: 'ref/prompt', name: 'wish' },
      { type: 'ref/prompt', name: 'plain' },
      { type: 'ref/resource', uri: 'fuzz://{what}' },
      { type: 'ref/resource', uri: 'app://text' },
    ]),
    argument: { name: random.pick(['what', 'what', 'other']), value: random.pick(WISHES) },
    ...(random.chance(0.3) && { context: { arguments: { other: 'x' } } }),
  }),
};
const METHODS = Object.keys(RIGHT);
const BUSY_METHODS = ['tools/call', 'resources/read', 'prompts/get', 'completion/complete'];
const NO_METHODS = [
  '',
  'no/such',
  'constructor',
  '__proto__',
  'toString',
  'tasks/list',
  'subscriptions/listen',
  'roots/list',
];

function cursor(random: Random): Fields {
  if (random.chance(0.5)) return {};
  return { cursor: Buffer.from(random.pick(['1:1', '1:3', '1:999', '2:1', ''])).toString('base64url') };
}

function uri(random: Random): Fields {
  const what = random.pick(WISHES);
  return { uri: random.pick(['app://text', `app://${what}`, `fuzz://${what}`, `fuzz://${what}`, 'no://such']) };
}

/** Stands for {@link NESTED}, and is replaced in the text. */
const DEEP = '@deep';
const DEEP_TEXT = JSON.stringify(DEEP);
const KEYS = [
  'name',
  'uri',
  'arguments',
  'what',
  'cursor',
  '_meta',
  'progressToken',
  'inputResponses',
  'requestState',
  'task',
  '__proto__',
  'constructor',
  'toString',
  '',
  'level',
  'ref',
  'type',
  'argument',
  'value',
  'context',
  'length',
  'io.modelcontextprotocol/logLevel',
  'io.modelcontextprotocol/related-task',
  'then',
  'toJSON',
  'resultType',
];

function anything(random: Random, depth = 0): Json {
  const kind = random.int(depth > 3 ? 6 : 9);
  if (kind === 0) return random.pick([null, true, false]);
  if (kind <= 2) return random.pick([0, -1, 1.5, 1e308, -0, 2 ** 53, random.int(1_000)]);
  if (kind <= 5) {
    if (random.chance(0.002)) return DEEP;
    return random.pick([
      '',
      'x',
      'act',
      'app://text',
      'debug',
      '\u2028\ud800',
      'ü👋',
      '%00../..',
      '5',
      random.pick(WISHES),
      random.pick(KEYS),
    ]);
  }
  if (kind === 6) return Array.from({ length: random.int(4) }, () => anything(random, depth + 1));
  return fields(random, depth);
}

function fields(random: Random, depth = 0): Fields {
  const entries = Array.from(
    { length: random.int(4) },
    () => [random.pick(KEYS), anything(random, depth + 1)] as const,
  );
  return Object.fromEntries(entries);
}

/** Changes a value somewhere inside. */
function mutated(value: Json, random: Random): Json {
  const inside = typeof value === 'object' && value !== null && Object.keys(value).length > 0 && random.chance(0.8);
  if (!inside) return random.chance(0.3) && typeof value === 'string' ? value.slice(random.int(3)) : anything(random);
  if (Array.isArray(value)) return value.map((member) => (random.chance(0.5) ? mutated(member, random) : member));
  const key = random.pick(Object.keys(value));
  if (random.chance(0.2)) return Object.fromEntries(Object.entries(value).filter(([other]) => other !== key));
  if (random.chance(0.3)) return Object.fromEntries([...Object.entries(value), [random.pick(KEYS), anything(random)]]);
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, name === key ? mutated(member, random) : member]),
  );
}

/** Does the same for parameters: without an object they would not be looked at. */
function changed(params: Fields, random: Random): Fields {
  const result = mutated(params, random);
  return typeof result === 'object' && result !== null && !Array.isArray(result) ? result : params;
}

const CAPABILITIES: readonly ClientIdentity['capabilities'][] = [
  {},
  { elicitation: {} },
  { elicitation: { url: {} } },
  { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} },
  { elicitation: { form: {}, url: {} }, sampling: { tools: {} }, roots: {} },
];

/** Right answers to {@link QUESTIONS}. */
const ANSWERS: Readonly<Record<string, Json>> = {
  name: { action: 'accept', content: { name: 'Ann' } },
  page: { action: 'decline' },
  model: { role: 'assistant', content: { type: 'text', text: 'Paris' }, model: 'm' },
  roots: { roots: [{ uri: 'file:///x' }] },
};

interface Asked {
  readonly method: string;
  readonly params?: Fields;
}

/** The message of a seed. */
function requestOf(random: Random): Asked {
  const kind = random.int(10);
  const method = random.pick(random.chance(0.6) ? BUSY_METHODS : METHODS);
  if (kind === 9) {
    const params = { params: fields(random) };
    return { method: random.chance(0.3) ? random.pick(NO_METHODS) : method, ...(random.chance(0.8) && params) };
  }
  let params = RIGHT[method]!(random);
  if (random.chance(0.2)) params = { ...params, _meta: { progressToken: random.pick(['t', 7, 1.5]) } };
  if (random.chance(0.05)) params = { ...params, inputResponses: anything(random) };
  if (random.chance(0.03)) params = { ...params, requestState: random.pick<Json>(['', 'x', 5, null, 'AQ'.repeat(40)]) };
  if (kind > 4) for (let changes = 1 + random.int(3); changes > 0; changes--) params = changed(params, random);
  return { method: random.chance(0.02) ? random.pick(NO_METHODS) : method, params };
}

/** The request as the edge lets it through. @returns `undefined`: it does not */
function received(asked: Asked, random: Random): JsonRpcRequest | undefined {
  const json = JSON.stringify({ jsonrpc: '2.0', id: random.pick([1, 0, '', 'x']), ...asked });
  const body = json.includes(DEEP_TEXT) ? json.replaceAll(DEEP_TEXT, '['.repeat(DEPTH) + ']'.repeat(DEPTH)) : json;
  try {
    const [message] = readMessages(body).messages;
    return message as JsonRpcRequest;
  } catch (error) {
    if (error instanceof McpError) return undefined;
    throw error;
  }
}

/** The client of a request: in a session, or not; it does as it likes. */
class FuzzedClient implements CallingClient {
  readonly info?: NonNullable<CallingClient['info']>;
  readonly #identity: ClientIdentity;
  /** Collects what the server has asked that it must not. */
  fault: string | undefined;

  constructor(
    era: McpEra,
    readonly principal: string | undefined,
    private readonly random: Random,
  ) {
    const protocolVersion = era === 'legacy' ? '2025-11-25' : '2026-07-28';
    const clientInfo = { name: 'fuzz', version: '1' };
    const capabilities = random.pick(CAPABILITIES);
    this.#identity = { protocolVersion, capabilities, clientInfo };
    if (era === 'legacy') {
      this.info = { id: 's', principal, protocolVersion, clientInfo, clientCapabilities: capabilities };
    }
  }

  identity(): ClientIdentity {
    return this.#identity;
  }

  wantsLog(): boolean {
    return this.random.chance(0.5);
  }

  async notify(notification: OutboundMessage): Promise<void> {
    JSON.stringify(notification);
  }

  async request(question: OutboundMessage, _options: unknown, call: McpCall): Promise<unknown> {
    const { method } = question;
    const type = REQUEST_TYPES[method];
    if (call.era === 'modern' || !type) this.fault ??= `it was asked: ${method}`;
    else if (checkedBySpec(type, JSON.parse(JSON.stringify(question))).problem) this.fault ??= `a malformed ${method}`;
    await Promise.resolve();
    const dice = this.random.int(10);
    if (dice === 0) throw new sdk.ProtocolError(-32050, 'told by the client');
    if (dice === 1) throw new McpServerRequestError('NO_STREAM', 'told');
    if (dice === 2) cancel(call);
    if (dice <= 4) return anything(this.random);
    const key = method === 'roots/list' ? 'roots' : method === 'sampling/createMessage' ? 'model' : 'name';
    return question.params?.['mode'] === 'url' ? ANSWERS['page'] : ANSWERS[key];
  }
}

function cancel(call: McpCall): void {
  call.cancelled(new Error('The client does not want it any more.'));
}

const REQUEST_TYPES: Readonly<Record<string, SpecTypeName>> = {
  'elicitation/create': 'ElicitRequest',
  'sampling/createMessage': 'CreateMessageRequest',
  'roots/list': 'ListRootsRequest',
};

// ---- what must hold -------------------------------------------------------------------------------------------------

const RESULT_TYPES: Readonly<Record<string, SpecTypeName>> = {
  initialize: 'InitializeResult',
  ping: 'EmptyResult',
  'server/discover': 'DiscoverResult',
  'logging/setLevel': 'EmptyResult',
  'tools/list': 'ListToolsResult',
  'tools/call': 'CallToolResult',
  'resources/list': 'ListResourcesResult',
  'resources/templates/list': 'ListResourceTemplatesResult',
  'resources/read': 'ReadResourceResult',
  'resources/subscribe': 'EmptyResult',
  'resources/unsubscribe': 'EmptyResult',
  'prompts/list': 'ListPromptsResult',
  'prompts/get': 'GetPromptResult',
  'completion/complete': 'CompleteResult',
};
const ASKING = ['tools/call', 'resources/read', 'prompts/get'];
const CACHED = [
  'tools/list',
  'resources/list',
  'resources/templates/list',
  'prompts/list',
  'resources/read',
  'server/discover',
];

type Result = Record<string, unknown>;

/** A response as the transport writes it, also when JSON has no words for it. */
function textOf(response: object): string {
  try {
    return JSON.stringify(response);
  } catch {
    return JSON.stringify(errorResponse(1, -32603, 'unwritable'));
  }
}

/** @returns what is wrong with a result */
function resultProblem(era: McpEra, method: string, result: Result): string | undefined {
  const type = RESULT_TYPES[method];
  if (!type) return 'there is no such method';
  if (era === 'legacy') return 'inputRequests' in result ? 'questions in a result' : specProblem(type, result);
  const info = (result['_meta'] as Result | undefined)?.[SERVER_INFO_META_KEY];
  // What a handler says of itself is its own: clients overlook what is none.
  if (info === undefined) return 'no serverInfo';
  if (result['resultType'] === 'input_required') return questionsProblem(method, result);
  if (result['resultType'] !== 'complete') return `resultType: ${String(result['resultType'])}`;
  const { ttlMs, cacheScope } = result;
  const hints =
    Number.isSafeInteger(ttlMs) && (ttlMs as number) >= 0 && ['public', 'private'].includes(cacheScope as string);
  if (CACHED.includes(method) && !hints) return 'no cache hints';
  return specProblem(type, result);
}

function questionsProblem(method: string, { inputRequests = {}, requestState }: Result): string | undefined {
  if (!ASKING.includes(method)) return 'it must not ask';
  if (requestState !== undefined && typeof requestState !== 'string') return 'a requestState that is no text';
  const questions = Object.values(inputRequests as Record<string, { method: string; params?: object }>);
  if (questions.length === 0 && requestState === undefined) return 'it asks nothing';
  for (const question of questions) {
    const type = REQUEST_TYPES[question.method];
    // The schema is that of both eras, and wants the id of the legacy one.
    const asked = { ...question, params: { elicitationId: 'legacy', ...question.params } };
    const problem = type ? specProblem(type, asked) : question.method;
    if (problem) return `a question: ${problem}`;
  }
  return undefined;
}

function specProblem(type: SpecTypeName, value: unknown): string | undefined {
  const { problem } = checkedBySpec(type, value);
  return problem && `${type}: ${problem.path}: ${problem.message}`;
}

describe('the dispatcher, by itself', () => {
  const served = dispatcher();
  const unhandled: unknown[] = [];
  const note = (reason: unknown): void => void unhandled.push(reason);
  /** Counts how often each kind of outcome was seen: what is never seen is not tested. */
  const seen = new Map<string, number>();
  const see = (kind: string): undefined => {
    seen.set(kind, (seen.get(kind) ?? 0) + 1);
    return undefined;
  };

  beforeAll(() => {
    Logger.overrideLogger(false);
    // Stacks are most of the time otherwise; two lines are as good as ten to see that they stay inside.
    Error.stackTraceLimit = 2;
    process.on('unhandledRejection', note);
    console.log(`The dispatcher's seeds: ${SEED} to ${SEED + RUNS - 1} (FUZZ_SEED, FUZZ_RUNS)`);
  });
  afterAll(() => {
    Logger.overrideLogger(['error']);
    Error.stackTraceLimit = 10;
    process.off('unhandledRejection', note);
  });

  /** @returns the result, if there is one @throws Error that says what is wrong */
  async function judged(call: McpCall, client: FuzzedClient): Promise<Result | undefined> {
    const outcome = await outcomeOf(call);
    if (client.fault) throw new Error(client.fault);
    if (call.aborted) return see('cancelled');
    return 'result' in outcome ? judgedResult(call, outcome.result) : judgedError(call, outcome.error);
  }

  async function outcomeOf(call: McpCall): Promise<{ result: object } | { error: unknown }> {
    try {
      call.target = await served.find(call);
      return { result: await runInCall(call, () => served.request(call)) };
    } catch (error) {
      return { error };
    }
  }

  function judgedResult({ era, method }: McpCall, returned: object): Result | undefined {
    const text = textOf({ jsonrpc: '2.0', id: 1, result: returned });
    const { result } = JSON.parse(text) as { result?: Result };
    if (!result) return see('unwritable');
    const problem = resultProblem(era, method, result);
    const quoted = INTERNAL.exec(text);
    if (problem ?? quoted) throw new Error(`The result is none: ${problem ?? `it has "${quoted![0]}"`}\n${text}`);
    const { resultType, isError } = result;
    see(`${era} ${method} ${resultType === 'input_required' ? 'asks' : isError ? 'failed' : 'done'}`);
    return result;
  }

  function judgedError({ era }: McpCall, error: unknown): undefined {
    const told = rpcErrorOf(error);
    if (!told) {
      // A handler said "protocol error", with a code that is none: the transport says -32603.
      if (error instanceof sdk.ProtocolError) return see('no code');
      throw new Error(`The error has no code: ${(error as Error)?.stack ?? String(error)}`);
    }
    const text = textOf({ jsonrpc: '2.0', id: 1, error: told });
    const quoted = INTERNAL.exec(text);
    if (quoted) throw new Error(`The error has "${quoted[0]}":\n${text}`);
    if (!Number.isSafeInteger(told.code)) throw new Error(`The code is ${told.code}.`);
    return see(`${era} ${told.code}`);
  }

  /** A modern client repeats what it was asked about. */
  function repeated({ method, params }: Asked, result: Result, random: Random): Asked {
    const asked = Object.keys((result['inputRequests'] as object | undefined) ?? {});
    const inputResponses = Object.fromEntries(asked.map((key) => [key, ANSWERS[key] ?? anything(random)]));
    const state = result['requestState'] as string | undefined;
    const again: Fields = { ...params, inputResponses, ...(state !== undefined && { requestState: state }) };
    if (random.chance(0.6)) return { method, params: again };
    if (random.chance(0.3) && state) return { method, params: { ...again, requestState: `${state.slice(0, -2)}AA` } };
    return { method, params: changed(again, random) };
  }

  async function run(seed: number): Promise<number> {
    const random = new Random(seed);
    const era: McpEra = random.chance(0.5) ? 'legacy' : 'modern';
    let asked = requestOf(random);
    for (let round = 0; ; round++) {
      const message = received(asked, random);
      if (!message) {
        see('refused');
        return round;
      }
      const client = new FuzzedClient(era, random.pick([undefined, 'ann']), random);
      const call = new McpCall({ era, principal: client.principal, request: undefined }, message, client);
      if (random.chance(0.03)) setImmediate(() => cancel(call));
      const result = await judged(call, client).catch((error: unknown) => {
        throw new Error(`Seed ${seed}, ${era}: ${String(error)}\n${JSON.stringify(asked)}`, { cause: error });
      });
      if (result?.['resultType'] !== 'input_required' || round === 4) return round + 1;
      asked = repeated(asked, result, random);
    }
  }

  it(`the dispatcher keeps its promises in ${RUNS} requests`, { timeout: 180_000 }, async () => {
    for (let requests = 0, seed = SEED; requests < RUNS; seed++) {
      requests += Math.max(1, await run(seed));
      if (seed % 200 === 0) await new Promise(setImmediate);
      const [cause] = unhandled;
      if (cause) throw new Error(`Left unhandled, at seed ${seed} or shortly before`, { cause });
    }
    await new Promise(setImmediate);
    expect(unhandled).toEqual([]);
  });

  it.runIf(RUNS >= 10_000)('the dispatcher has seen every kind of outcome', () => {
    const wanted = Object.keys(RESULT_TYPES).flatMap((method) => {
      const eras: McpEra[] =
        method === 'server/discover' ? ['modern'] : LEGACY_ONLY.has(method) ? ['legacy'] : ['legacy', 'modern'];
      return eras.map((era) => `${era} ${method} done`);
    });
    const asks = ASKING.map((method) => `modern ${method} asks`);
    const errors = [-32601, -32602, -32603, -32050].flatMap((code) => [`legacy ${code}`, `modern ${code}`]);
    const others = ['legacy -32042', 'modern -32021', 'legacy tools/call failed', 'modern tools/call failed'];
    const kinds = [...wanted, ...asks, ...errors, ...others, 'cancelled', 'unwritable', 'no code'];
    expect(kinds.filter((kind) => !seen.has(kind))).toEqual([]);
    expect(seen.get('refused')).toBeLessThan(RUNS / 10);
  });
});

const LEGACY_ONLY = new Set(['initialize', 'ping', 'logging/setLevel', 'resources/subscribe', 'resources/unsubscribe']);
