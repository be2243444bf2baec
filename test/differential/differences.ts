import { specTypeSchemas, type SpecTypeName } from '@modelcontextprotocol/server';
import { type Case, type Era, withoutNulls } from './case.js';
import { FIRST_PAGE } from './params.js';
import { MODERN } from '../support/modern-client.js';

/** What we answer and what the SDK does, in short; or where two answers of the same kind differ. */
export type Differs = readonly [ours: string, sdks: string] | string;

/** Cases that are answered otherwise than the SDK does, and why. */
export interface Difference {
  /** A rule of docs/protocol-rules.md, a clause of the specification (2026-07-28), or what it protects from. */
  readonly why: string;
  /** The era in which they differ. @default both, as far as it has the case */
  readonly era?: Era;
  /** By title. */
  readonly cases?: Readonly<Record<string, Differs>>;
  /** All of a kind, but for those that have a title above. */
  readonly every?: { readonly which: RegExp | ((row: Case) => boolean); readonly differs: Differs };
}

/** The SDK reports malformed parameters as a fault of its own. */
const MALFORMED = ['200 -32602', '200 -32603'] as const;
const CURSOR = ['200 -32602', '200 complete'] as const;
const TOTAL = 'messages.0.result.completion.total';
const NOT_ACCEPTABLE = ['406 -32000', '200 complete'] as const;
const ACCEPTABLE = ['200 complete', '406 -32000'] as const;
const HEADER_REFUSED = ['400 -32020', '200 complete'] as const;
const HEADER_TAKEN = ['200 complete', '400 -32020'] as const;
const ID = 'messages.0.id';
const REASON = 'messages.0.error.data.reason';
const LACKING = ['200 -32021', '200 isError'] as const;
const ASKED_ANYWAY = ['200 isError', '200 complete'] as const;

/** The type of each method's request in the specification. */
const TYPES: Readonly<Record<string, SpecTypeName>> = {
  initialize: 'InitializeRequest',
  ping: 'PingRequest',
  'logging/setLevel': 'SetLevelRequest',
  'resources/subscribe': 'SubscribeRequest',
  'resources/unsubscribe': 'UnsubscribeRequest',
  'subscriptions/listen': 'SubscriptionsListenRequest',
  'tools/list': 'ListToolsRequest',
  'tools/call': 'CallToolRequest',
  'resources/list': 'ListResourcesRequest',
  'resources/templates/list': 'ListResourceTemplatesRequest',
  'resources/read': 'ReadResourceRequest',
  'prompts/list': 'ListPromptsRequest',
  'prompts/get': 'GetPromptRequest',
  'completion/complete': 'CompleteRequest',
};

interface Message {
  readonly method: string;
  readonly params?: Record<string, unknown>;
}

/** The message of a case that is one request whose body is JSON, without optional members that are `null`. */
function messageOf({ steps }: Case): Message | undefined {
  if (steps.length > 1) return undefined;
  try {
    return JSON.parse(String(withoutNulls(steps[0]!(undefined)).body)) as Message;
  } catch {
    return undefined;
  }
}

function isOf(type: SpecTypeName, value: unknown): boolean {
  return specTypeSchemas[type]['~standard'].validate(value).issues === undefined;
}

/** What is JSON, and no message. */
function isNoMessage(row: Case): boolean {
  const message = messageOf(row);
  return message !== undefined && !Array.isArray(message) && !isOf('JSONRPCMessage', message);
}

/** A request whose parameters are not as the specification has them, though its envelope is. */
const isMalformed =
  (isMethod: (method: string) => boolean) =>
  (row: Case): boolean => {
    const { method, params } = messageOf(row) ?? { method: '' };
    const type = Object.hasOwn(TYPES, method) ? TYPES[method] : undefined;
    if (type === undefined || !isMethod(method) || isNoMessage(row) || lacksEnvelope(row)) return false;
    return !isOf(type, { method, params: params ?? {} });
  };

function lacksEnvelope(row: Case): boolean {
  const isModern = row.steps[0]!(undefined).headers['mcp-protocol-version'] === MODERN;
  return isModern && messageOf(row)?.params?.['_meta'] === undefined;
}

/** Those of which the SDK does not say the same as we do, in other words. */
const OTHERWISE = new Set(['initialize', 'tools/call', 'subscriptions/listen']);

/** A text that is no cursor, to a list. */
function isLost(row: Case): boolean {
  const { method, params } = messageOf(row) ?? { method: '' };
  const cursor = params?.['cursor'];
  return (
    Object.hasOwn(TYPES, method) && method.endsWith('/list') && typeof cursor === 'string' && cursor !== FIRST_PAGE
  );
}

export const DIFFERENCES: readonly Difference[] = [
  {
    why: 'JSON-RPC 2.0 §5.1: malformed parameters are invalid params, the fault of the sender.',
    every: { which: isMalformed((method) => !OTHERWISE.has(method)), differs: MALFORMED },
  },
  {
    why: 'The same; and the level stays as it was.',
    era: 'legacy',
    cases: {
      'talking: a log level that does not exist': ['200 -32602, 200 complete', '200 -32603, 200 complete'],
      'talking: a log level that is a number': ['200 -32602, 200 complete', '200 -32603, 200 complete'],
    },
  },
  {
    why: 'JSON-RPC 2.0 §5.1: what is JSON was parsed, so it is an invalid request (E8).',
    era: 'legacy',
    every: { which: isNoMessage, differs: ['400 -32600', '400 -32700'] },
  },
  {
    why: 'S1, S2: a malformed "initialize" has invalid params. The SDK takes it for a request that needs a session.',
    era: 'legacy',
    every: { which: isMalformed((method) => method === 'initialize'), differs: ['400 -32602', '400 -32000'] },
  },
  {
    why: 'M7: a subscription is refused by the endpoint, before any handler, as M2 is: HTTP says so too. The specification leaves the status open.',
    era: 'modern',
    every: {
      which: isMalformed((method) => method === 'subscriptions/listen'),
      differs: ['400 -32602', '200 -32602'],
    },
  },
  {
    why: 'Pagination, "Error Handling": an invalid cursor should result in -32602. The SDK has no pages and ignores it.',
    every: { which: isLost, differs: CURSOR },
  },
  {
    why: 'E2: OPTIONS belongs to the CORS of the app.',
    cases: { 'HTTP: OPTIONS': ['404', '405 -32000'] },
  },
  {
    why: 'E5, and Streamable HTTP, "Sending Messages" 2: a client must accept JSON and SSE, since it gets either.',
    cases: { 'media: refuses JSON': NOT_ACCEPTABLE },
  },
  {
    why: 'The same. The SDK does not look at what modern clients accept.',
    era: 'modern',
    cases: {
      'media: accepts nothing': NOT_ACCEPTABLE,
      'media: accepts JSON': NOT_ACCEPTABLE,
      'media: accepts SSE': NOT_ACCEPTABLE,
      'media: accepts HTML': NOT_ACCEPTABLE,
      'media: accepts an empty list': NOT_ACCEPTABLE,
    },
  },
  {
    why: 'E5, and RFC 9110 §12.5.1: ranges and any case. The SDK looks for two texts in the header.',
    era: 'legacy',
    cases: {
      'media: accepts everything': ACCEPTABLE,
      'media: accepts both, in capitals': ACCEPTABLE,
      'media: accepts kinds of both': ACCEPTABLE,
    },
  },
  {
    why: 'E7, and RFC 8259 §8.1: JSON is UTF-8. The SDK puts replacement characters where the sender had others.',
    cases: { 'bodies: not UTF-8': ['400 -32700', '200 complete'] },
  },
  {
    why: 'E8: a request method without an id is a mistake, and its sender waits. The SDK takes it for a notification.',
    cases: { 'messages: no id': ['400 -32600', '202'] },
  },
  {
    why: 'The id is echoed when it could be read (docs/protocol-rules.md, head), and no other: one with a fraction is none, one beyond 2^53 is not the one that was sent.',
    era: 'modern',
    cases: {
      'messages: an id with a fraction': ID,
      'messages: an id that is too large': ID,
      'messages: a method that is a number': ID,
      'messages: a method that is null': ID,
      'messages: no method': ID,
    },
  },
  {
    why: 'The same: a refusal names the request, and the versions that there are.',
    era: 'legacy',
    cases: {
      'sessions: a second handshake': ID,
      'sessions: a request without a session': ID,
      'sessions: an unknown version in the header': `${ID}, messages.0.error.data`,
      'sessions: an empty version in the header': `${ID}, messages.0.error.data`,
    },
  },
  {
    why: 'S10: the version in the header is the one that was agreed on.',
    era: 'legacy',
    cases: { 'sessions: another version in the header': ['400 -32000', '200 complete'] },
  },
  {
    why: 'README: the oldest revision that is served is 2025-03-26, the first with this transport.',
    era: 'legacy',
    cases: { 'sessions: of 2024-11-05': 'messages.0.result.protocolVersion' },
  },
  {
    why: 'E9: revisions since 2025-06-18 have no batches. The SDK takes them in every revision, and empty ones.',
    era: 'legacy',
    cases: {
      'sessions: a batch of one request': ['400 -32600', '200 complete'],
      'sessions: a batch of notifications': ['400 -32600', '202'],
      'sessions: an empty batch': ['400 -32600', '202'],
      'sessions: a batch with something else': ['400 -32600', '400 -32700'],
      'sessions: a batch in a batch': ['400 -32600', '400 -32700'],
      'messages: a message nested a hundred thousand deep': ['400 -32600', '400 -32700'],
    },
  },
  {
    why: 'E8: ids have at most 256 characters, and bodies at most 512 levels.',
    cases: {
      'messages: an id that is a long text': ['400 -32600', '200 complete'],
      'messages: arrays nested a thousand deep': ['400 -32600', '200 complete'],
      'messages: objects nested a thousand deep': ['400 -32600', '200 complete'],
    },
  },
  {
    why: 'E16: a body has at most 100,000 values.',
    cases: { 'messages: arrays nested a hundred thousand deep': ['413 -32000', '200 complete'] },
  },
  {
    why: 'S4: "initialize" in a session is refused whatever its parameters are.',
    era: 'legacy',
    cases: { 'methods: initialize is removed': ['400 -32600', '200 -32603'] },
  },
  {
    why: 'Members that JSON-RPC does not define are dropped (src/core/protocol/json-rpc.ts): JSON-RPC 2.0 does not forbid them, and clients send them.',
    era: 'modern',
    cases: { 'messages: a member that JSON-RPC does not know': ['200 complete', '400 -32600'] },
  },
  {
    why: 'The same.',
    era: 'legacy',
    cases: { 'messages: a member that JSON-RPC does not know': ['200 complete', '400 -32700'] },
  },
  {
    why: 'Security: a key "__proto__" is dropped wherever it stands. The SDK passes it on: answers that come under it are taken for own ones.',
    era: 'modern',
    cases: {
      'envelope: a capability named __proto__': 'messages.0.result.content.0.text',
      'rounds: answers under __proto__': ['200 input_required, 200 input_required', '200 input_required, 200 complete'],
    },
  },
  {
    why: 'Behaviour §0: "initialize" without a modern claim is legacy, whatever its headers; an endpoint without sessions then says which revision it serves (M3).',
    era: 'modern',
    cases: { 'versions: a handshake with a modern header': ['400 -32022', '400 -32020'] },
  },
  {
    why: 'Security (M4): one text for one value (RFC 4648 §3.5), and nothing taken off it: what a proxy decodes and what the tool gets are the same.',
    era: 'modern',
    cases: {
      'headers: Mcp-Name in base64, with stray bits': HEADER_REFUSED,
      'parameters: in base64, with stray bits': HEADER_REFUSED,
      'parameters: in base64, with a byte order mark that the body has not': HEADER_REFUSED,
      'parameters: in base64, with a byte order mark': HEADER_TAKEN,
    },
  },
  {
    why: 'Security (M4): a client must not say such an integer in a header (Streamable HTTP, "Schema Extension"), so the tool would get what no proxy has seen.',
    era: 'modern',
    cases: {
      'parameters: an integer, too large': HEADER_REFUSED,
      'parameters: an integer, too large, and no header': HEADER_REFUSED,
    },
  },
  {
    why: 'A handler that throws a ProtocolError of the SDK means the protocol (src/core/handlers/results/handler-failure.ts); McpServer makes a result even of that.',
    cases: { 'tools: a handler throws a protocol error': ['200 -32602', '200 isError'] },
  },
  {
    why: 'D24: the code with which a client answers a question is not the code of what its caller gets.',
    era: 'legacy',
    cases: {
      'asking: a resource, an error': ['200 -32603', '200 -5'],
      'asking: a prompt, an error': ['200 -32603', '200 -5'],
    },
  },
  {
    why: 'P7: nothing is asked that the client did not declare. The SDK asks for models and roots all the same.',
    era: 'legacy',
    every: {
      which: /^asking: ask_(capital|roots) of a client (that cannot|with (forms|pages))/,
      differs: ['200 -32021', '200 complete'],
    },
  },
  {
    why: 'P7: a client that lacks a capability gets the code of revision 2026-07-28, in the legacy era too.',
    era: 'legacy',
    cases: {
      'tools: a handler returns questions': LACKING,
      'asking: a prompt, a client that cannot': ['200 -32021', '200 -32603'],
      'asking: D28: returned questions, a client that cannot': LACKING,
      'asking: ask_page of a client with forms before modes': LACKING,
      'asking: ask_page of a client with forms only': LACKING,
    },
    every: {
      which:
        /^asking: (ask_(name|page) of a client (that cannot|with models and roots)|ask_name of a client with pages only)/,
      differs: LACKING,
    },
  },
  {
    why: 'E19: a person who opens the endpoint in a browser reads a text.',
    era: 'modern',
    cases: { 'HTTP: GET that accepts HTML': ['405', '405 -32000'] },
  },
  {
    why: 'D23: content that was accepted fits what was asked for, also when there is none.',
    era: 'legacy',
    cases: { 'asking: ask_name is given an accepted form without content': ASKED_ANYWAY },
  },
  {
    why: 'D23: the content of a model may be a list since 2025-11-25. Where no tools were offered, the SDK takes a single block only.',
    era: 'legacy',
    cases: { 'asking: ask_capital is given a message with several contents': ['200 complete', '200 isError'] },
  },
  {
    why: 'Security: the numbers and texts of other errors, as of a database, are not told to clients.',
    cases: { 'prompts: a handler throws number': ['200 -32603', '200 11000'] },
  },
  {
    why: 'What a method returns becomes a result (src/core/handlers/results/tool-result.ts): an object that is none is structured content; a result with a mistake in it is the fault of the server, which the client is not told of as if it were its own.',
    cases: {
      'tools: a handler returns no result': ['200 complete', '200 -32602'],
      'tools: a handler returns half a result': ['200 isError', '200 -32602'],
      'tools: a handler returns no content':
        'messages.0.result.content.0, messages.0.result.structuredContent.structuredContent, messages.0.result.structuredContent.seen',
    },
  },
  {
    why: 'D41: contents have the spelling of the client. The SDK parses and rewrites the URI.',
    cases: { 'resources: a URI in other letters': 'messages.0.result.contents.0.uri' },
  },
  {
    why: 'D42: the variables of a template are decoded.',
    cases: { 'resources: of a template, with an escaped value': 'messages.0.result.contents.0.text' },
  },
  {
    why: 'The same: what is not a URI is not found either; in "Resources", "Error Handling", the data is the "uri" alone.',
    cases: {
      'resources: not a URI': REASON,
      'resources: an empty URI': REASON,
      'resources: a URI named like a property': REASON,
    },
    every: { which: /resources\/read: params\.uri is (a|an empty) text$/, differs: REASON },
  },
  {
    why: 'Completion, "Completion Results": where there is nothing to complete, "total" is known. It is 0.',
    cases: {
      'completion: of an argument without completions': TOTAL,
      'completion: of an unknown argument': TOTAL,
      'completion: of an argument named like a property': TOTAL,
      'completion: of a prompt without arguments': TOTAL,
      'completion: of an unknown variable of a template': TOTAL,
      'completion: of a resource': TOTAL,
    },
    every: { which: /completion\/complete: params\.argument\.name is (a|an empty) text$/, differs: TOTAL },
  },
  {
    why: "M8, security: a state belongs to its method, name or URI, and arguments. The SDK's codec binds it only to what its user tells it to.",
    era: 'modern',
    cases: {
      'state: of another tool': ['200 input_required, 200 -32602', '200 input_required, 200 input_required'],
      'state: of another method': ['200 input_required, 200 -32602', '200 input_required, 200 complete'],
      'state: of other arguments': ['200 input_required, 200 -32602', '200 input_required, 200 complete'],
    },
  },
  {
    why: 'M8: a state belongs to a tool, so first there must be one: the same code, for the other reason.',
    era: 'modern',
    cases: { 'state: to an unknown tool': 'messages.0.error.data' },
  },
  {
    why: 'M7: the acknowledgement names what will be heard of, once; never a resource that is not there for this caller.',
    era: 'modern',
    cases: {
      'subscriptions: to a resource twice': 'messages.0.params.notifications.resourceSubscriptions.1',
      'subscriptions: to a resource that does not exist': 'messages.0.params.notifications.resourceSubscriptions',
    },
    every: {
      which: /listen: params\.notifications\.resourceSubscriptions\.0 is (a|an empty) text$/,
      differs: 'messages.0.params.notifications.resourceSubscriptions',
    },
  },
];

/** How each row is expected to differ; rows that are not in it are the same. */
export function listedFor(era: Era, rows: readonly Case[]): ReadonlyMap<string, Differs> {
  const listed = new Map<string, Differs>();
  const differences = DIFFERENCES.filter((each) => each.era === undefined || each.era === era);
  for (const row of rows) {
    const titled = differences.flatMap(({ cases = {} }) =>
      Object.hasOwn(cases, row.title) ? [cases[row.title]!] : [],
    );
    const kinds = differences.flatMap(({ every }) => (every && isIn(every, row) ? [every.differs] : []));
    const [differs] = [...titled, ...kinds];
    if (differs !== undefined) listed.set(row.title, differs);
  }
  return listed;
}

export function isIn({ which }: NonNullable<Difference['every']>, row: Case): boolean {
  return which instanceof RegExp ? which.test(row.title) : which(row);
}
