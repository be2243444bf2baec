import { MODERN } from '../support/modern-client.js';

/** One HTTP request of the table. */
export interface Exchange {
  readonly method: string;
  readonly headers: Record<string, string | string[]>;
  readonly body?: string | Buffer;
}

export type Era = 'legacy' | 'modern';

/** What is left out of a comparison, beside what always is (see outcome.ts). */
export type Free = 'text';

/** A row of the table: one request, or several of which each answers the result of the one before. */
export interface Case {
  readonly title: string;
  readonly steps: readonly Step[];
  readonly free: readonly Free[];
  /** Messages after which the client goes away; else it reads to the end. */
  readonly reads?: number;
  /**
   * Of the legacy era: the client's capabilities in a session of this row alone; `none` for no session. By default the
   * session that all rows share, whose client has none.
   */
  readonly session?: Record<string, unknown> | 'none';
  /** What the client answers when it is asked on the stream of its request: `result` or `error`. */
  readonly answers?: Answers;
}

export type Answers = (question: { method: string; params?: Record<string, unknown> }) => object;

/** @param before the result before */
export type Step = (before: Result | undefined) => Exchange;
export type Result = Readonly<Record<string, unknown>>;

/** What a row says of a request, instead of what a well-behaved client sends. `undefined` leaves out. */
export interface Tweak {
  id?: unknown;
  /** Members of `_meta`. */
  meta?: Record<string, unknown>;
  /** All of `_meta`. */
  instead?: { meta: unknown };
  headers?: Record<string, string | string[] | undefined>;
  /** Members of the message. */
  members?: Record<string, unknown>;
  capabilities?: unknown;
}

const PREFIX = 'io.modelcontextprotocol/';
/** What `Mcp-Name` repeats. */
export const NAMED_BY: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
};

export const version = (value: unknown): Record<string, unknown> => ({ [`${PREFIX}protocolVersion`]: value });
export const clientInfo = (value: unknown): Record<string, unknown> => ({ [`${PREFIX}clientInfo`]: value });
export const capabilities = (value: unknown): Record<string, unknown> => ({ [`${PREFIX}clientCapabilities`]: value });
export const logLevel = (value: unknown): Record<string, unknown> => ({ [`${PREFIX}logLevel`]: value });

export function envelope(declared: unknown = {}): Record<string, unknown> {
  return { ...version(MODERN), ...clientInfo({ name: 'raw', version: '1.0.0' }), ...capabilities(declared) };
}

/** The request of a well-behaved client, with the headers that belong to it. */
export function ask(method: string, params: Record<string, unknown> = {}, tweak: Tweak = {}): Exchange {
  const { id = 1, meta = {}, instead, headers = {}, members = {} } = tweak;
  const _meta = instead ? instead.meta : { ...envelope(tweak.capabilities), ...meta };
  const message = { jsonrpc: '2.0', id, method, params: { ...params, _meta }, ...members };
  const name = params[NAMED_BY[method] ?? ''];
  const usual = {
    'mcp-protocol-version': MODERN,
    'mcp-method': method,
    ...(typeof name === 'string' && { 'mcp-name': name }),
  };
  return post(JSON.stringify(message), { ...usual, ...headers });
}

export function call(name: unknown, args?: unknown, tweak?: Tweak): Exchange {
  return ask('tools/call', { name, arguments: args }, tweak);
}

/** A request of the legacy era; the headers of its session are added when it is sent. */
export function old(method: string, params?: unknown, members: Record<string, unknown> = {}): Exchange {
  return post(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params, ...members }));
}

/** A body as it is. */
export function post(body: string | Buffer, headers: Tweak['headers'] = {}): Exchange {
  const usual = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  return { method: 'POST', body, headers: defined({ ...usual, ...headers }) };
}

/** A message as it is, with the headers of a modern one. */
export function message(value: unknown, headers: Tweak['headers'] = {}): Exchange {
  return post(JSON.stringify(value), { 'mcp-protocol-version': MODERN, ...headers });
}

export function http(method: string, headers: Tweak['headers'] = {}): Exchange {
  const usual = { accept: 'application/json, text/event-stream', 'mcp-protocol-version': MODERN };
  return { method, headers: defined({ ...usual, ...headers }) };
}

type Row = readonly [
  title: string,
  exchange: Exchange | readonly Step[],
  options?: Partial<Pick<Case, 'free' | 'reads' | 'session' | 'answers'>>,
];

export function group(name: string, rows: readonly Row[]): Case[] {
  return rows.map(([title, exchange, options]) => ({
    title: `${name}: ${title}`,
    steps: 'method' in exchange ? [() => exchange] : exchange,
    free: [],
    ...options,
  }));
}

/** A request, and its repetitions with what each adds to the parameters; the state comes back as it was given. */
export function rounds(
  [method, params]: readonly [method: string, params: Record<string, unknown>],
  additions: readonly (Record<string, unknown> | undefined)[],
  tweak: Tweak = {},
): readonly Step[] {
  const allows = { capabilities: EVERYTHING, ...tweak };
  return [
    () => ask(method, params, allows),
    ...additions.map((added): Step => (before) => {
      const { requestState } = before ?? {};
      return ask(
        method,
        { ...params, ...(requestState !== undefined && { requestState }), ...added },
        { id: 2, ...allows },
      );
    }),
  ];
}

/** Capabilities of a client that can be asked everything. */
export const EVERYTHING = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };

function defined(headers: NonNullable<Tweak['headers']>): Record<string, string | string[]> {
  const entries = Object.entries(headers).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as Record<string, string | string[]>;
}

const OPTIONAL = ['_meta', 'arguments', 'cursor', 'inputResponses', 'requestState'];

/** The same request without optional members that are `null`, which the SDK refuses and our endpoint drops (E8). */
export function withoutNulls(exchange: Exchange): Exchange {
  const { body } = exchange;
  if (typeof body !== 'string' || !body.includes(':null')) return exchange;
  const { params, ...message } = JSON.parse(body) as { params?: Record<string, unknown> | null };
  for (const name of OPTIONAL) if (params?.[name] === null) Reflect.deleteProperty(params, name);
  const meta = params?.['_meta'] as Record<string, unknown> | undefined;
  if (meta?.['progressToken'] === null) delete meta['progressToken'];
  return { ...exchange, body: JSON.stringify({ ...message, params: params ?? undefined }) };
}
