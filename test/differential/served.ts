import {
  inputRequired,
  ProtocolError,
  UrlElicitationRequiredError,
  type CallToolResult,
  type GetPromptResult,
  type InputRequiredResult,
  type ReadResourceResult,
} from '@modelcontextprotocol/server';
import { z } from 'zod';

/** What both servers of the differential test serve: schemas, results and questions, so that only the serving differs. */

export const SERVER_INFO = { name: 'differential', version: '1.0.0' };

export const Numbers = z.object({ a: z.number(), b: z.number().int().min(0) });
export const Strict = z.strictObject({ word: z.enum(['one', 'two']) });
export const Optional = z.object({ times: z.number().default(3), note: z.string().optional() });
export const Sum = z.object({ sum: z.number() });
export const Greeting = z.object({ name: z.string(), tone: z.string().optional() });

/** Every type that `x-mcp-header` may stand at, and one that is nested. */
export const HEADERS = {
  type: 'object',
  properties: {
    region: { type: 'string', 'x-mcp-header': 'Region' },
    count: { type: 'integer', 'x-mcp-header': 'Count' },
    flag: { type: 'boolean', 'x-mcp-header': 'Flag' },
    place: { type: 'object', properties: { city: { type: 'string', 'x-mcp-header': 'City' } } },
    free: { type: 'string' },
  },
};

export const DIALECT = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: { address: { $anchor: 'addressDef', type: 'object', properties: { street: { type: 'string' } } } },
  properties: { name: { type: 'string' }, address: { $ref: '#/$defs/address' }, phone: { type: 'string' } },
  required: ['name'],
  additionalProperties: false,
};

export const text = (value: string) => ({ type: 'text' as const, text: value });
export const said = (value: string): CallToolResult => ({ content: [text(value)] });
/** The JSON of a value, whatever the order of its keys. */
export const echoed = (value: unknown): CallToolResult => said(JSON.stringify(sorted(value)));

function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(sorted);
  const entries = Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(entries.map(([key, member]) => [key, sorted(member)]));
}

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
const image = { type: 'image' as const, data: PNG, mimeType: 'image/png' };
const embedded = { uri: 'app://embedded', mimeType: 'application/json', text: '{"a":1}' };

/** Tools without arguments, by their results. */
export const RESULTS: Readonly<Record<string, CallToolResult>> = {
  plain: said('plain'),
  silent: { content: [] },
  picture: { content: [image] },
  sound: { content: [{ type: 'audio', data: 'UklGRg==', mimeType: 'audio/wav' }] },
  document: { content: [{ type: 'resource', resource: embedded }] },
  link: { content: [{ type: 'resource_link', uri: 'app://text', name: 'text', mimeType: 'text/plain' }] },
  mixed: { content: [text('a'), image, { type: 'resource', resource: embedded }], _meta: { 'example.com/x': 1 } },
  annotated: { content: [{ ...text('a'), annotations: { audience: ['user'], priority: 0.5 }, _meta: { seen: true } }] },
  failed: { content: [text('It did not work.')], isError: true },
  unicode: said('Grüße, 世界 👋 \u2028 "\\'),
  list_alone: { content: [text('[1,null]')], structuredContent: [1, null] },
  null_alone: { content: [text('null')], structuredContent: null },
  object: { content: [text('{"b":[1,null]}')], structuredContent: { b: [1, null] } },
};

/** Results that are no object (D18): SDK and package wrap them for clients of 2025. */
export const ANY_ROOT: Readonly<Record<string, { schema: Record<string, unknown>; values: readonly unknown[] }>> = {
  list: { schema: { type: 'array', items: { type: 'number' } }, values: [[1, 2], []] },
  text: { schema: { type: 'string' }, values: ['a', ''] },
  maybe: {
    schema: { type: ['object', 'null'], properties: { sum: { type: 'number' } } },
    values: [null, { sum: 1 }],
  },
  objects: { schema: { anyOf: [Sum, Greeting].map((each) => z.toJSONSchema(each)) }, values: [{ sum: 1 }] },
  either: {
    schema: { anyOf: [{ $ref: '#/$defs/a' }, { type: 'null' }], $defs: { a: { type: 'object' } } },
    values: [{}],
  },
  tree: {
    schema: {
      type: 'array',
      items: { $ref: '#/$defs/node' },
      $defs: { node: { type: 'object', properties: { nodes: { $ref: '#' }, const: { $ref: '#/$defs/node' } } } },
      default: [{ $ref: '#' }],
    },
    values: [[{ nodes: [{}] }]],
  },
  document: {
    schema: { $id: 'https://example.com/list', type: 'array', items: { $ref: '#/$defs/item' }, $defs: { item: {} } },
    values: [[1]],
  },
  bundle: {
    schema: {
      type: 'array',
      items: { $ref: 'https://example.com/item' },
      $defs: {
        item: {
          $id: 'https://example.com/item',
          properties: { name: { $ref: '#/$defs/name' } },
          $defs: { name: { type: 'string' } },
        },
      },
    },
    values: [[{ name: 'a' }]],
  },
};
export const anyRoot = (value: unknown): CallToolResult => ({
  content: [text(JSON.stringify(value))],
  structuredContent: value,
});
/** A tool of {@link ANY_ROOT} for each of its values. */
export const ANY_TOOLS = Object.entries(ANY_ROOT).flatMap(([name, { schema, values }]) =>
  values.map((value, at) => ({ name: `${name}_${at}`, schema, result: anyRoot(value) })),
);

export const CONTENTS: Readonly<Record<string, ReadResourceResult>> = {
  'app://text': { contents: [{ uri: 'app://text', mimeType: 'text/plain', text: 'text' }] },
  'app://binary': { contents: [{ uri: 'app://binary', mimeType: 'image/png', blob: PNG }] },
  'app://two': {
    contents: [
      { uri: 'app://two/1', mimeType: 'text/plain', text: 'one' },
      { uri: 'app://two/2', mimeType: 'text/plain', text: 'two' },
    ],
  },
};

export const itemContents = (uri: string, id: string): ReadResourceResult => ({
  contents: [{ uri, mimeType: 'application/json', text: JSON.stringify({ id }) }],
});

export const greeting = ({ name, tone = 'kind' }: z.infer<typeof Greeting>): GetPromptResult => ({
  description: 'A greeting',
  messages: [{ role: 'user', content: text(`Greet ${name}, ${tone}.`) }],
});
export const SIMPLE_PROMPT: GetPromptResult = { messages: [{ role: 'user', content: text('Be simple.') }] };

export const completed = (value: string): string[] =>
  ['anna', 'anton', 'berta'].filter((name) => name.startsWith(value));
export const manyCompleted = (): string[] => Array.from({ length: 150 }, (_, index) => `id${index}`);

/** What is thrown, by the name of the prompt that throws it. */
export const THROWN: Readonly<Record<string, () => unknown>> = {
  throws_code: () => new ProtocolError(-32050, 'not now', { retry: true }),
  throws_not_found: () => new ProtocolError(-32002, 'no such thing', { uri: 'app://nothing' }),
  throws_page: () =>
    new UrlElicitationRequiredError([
      { mode: 'url', message: 'Please sign in', url: 'https://example.com/sign-in', elicitationId: 'e1' },
    ]),
  throws_number: () => Object.assign(new Error('duplicate key'), { code: 11_000 }),
};

// ---- Questions -------------------------------------------------------------------------------------------------------

const form = (message: string, name: string) =>
  inputRequired.elicit({
    message,
    requestedSchema: { type: 'object', properties: { [name]: { type: 'string' } }, required: [name] },
  });

export const QUESTIONS = {
  name: form('What is your name?', 'name'),
  colour: form('Which colour?', 'colour'),
  capital: inputRequired.createMessage({
    messages: [{ role: 'user', content: text('What is the capital of France?') }],
    maxTokens: 100,
  }),
  // Clients in Go need the parameters (D22); the SDK leaves them out unless they are given.
  roots: { method: 'roots/list' as const, params: {} },
  page: inputRequired.elicitUrl({ message: 'Please sign in', url: 'https://example.com/sign-in' }),
};

/** Tools that ask; the keys of what they ask, one array per round. */
export const ASKING: Readonly<Record<string, readonly (readonly (keyof typeof QUESTIONS)[])[]>> = {
  ask_name: [['name']],
  ask_capital: [['capital']],
  ask_roots: [['roots']],
  ask_page: [['page']],
  ask_many: [['name', 'capital', 'roots']],
  ask_twice: [['name'], ['colour']],
};

/** A handler that returns its questions itself, as the SDK's examples do. */
export function returned(
  responses: Readonly<Record<string, unknown>> | undefined,
): CallToolResult | InputRequiredResult {
  if (responses?.['name'] !== undefined) return echoed(responses);
  return inputRequired({ inputRequests: { name: QUESTIONS.name, roots: QUESTIONS.roots } });
}
