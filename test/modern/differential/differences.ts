/** Cases that are answered otherwise than the SDK does, and why. */
export interface Difference {
  /** A row of behaviour.md, a clause of the specification (2026-07-28), or what it protects from. */
  readonly why: string;
  /** By title: what we answer and what the SDK does, in short; or where two answers of the same kind differ. */
  readonly cases: Readonly<Record<string, readonly [ours: string, sdks: string] | string>>;
}

/** The SDK reports malformed parameters as a fault of its own. */
const MALFORMED = ['200 -32602', '200 -32603'] as const;
const CURSOR = ['200 -32602', '200 complete'] as const;
const TOTAL = 'messages.0.result.completion.total';
const NOT_ACCEPTABLE = ['406 -32000', '200 complete'] as const;
const HEADER_REFUSED = ['400 -32020', '200 complete'] as const;
const HEADER_TAKEN = ['200 complete', '400 -32020'] as const;
const BAD_FILTER = ['400 -32602', '200 -32602'] as const;
const ID = 'messages.0.id';
const REASON = 'messages.0.error.data.reason';

export const DIFFERENCES: readonly Difference[] = [
  {
    why: 'E5, and Streamable HTTP, "Sending Messages" 2: a client must accept JSON and SSE, since it gets either.',
    cases: {
      'media: accepts nothing': NOT_ACCEPTABLE,
      'media: accepts JSON': NOT_ACCEPTABLE,
      'media: accepts SSE': NOT_ACCEPTABLE,
      'media: accepts HTML': NOT_ACCEPTABLE,
      'media: refuses JSON': NOT_ACCEPTABLE,
      'media: accepts an empty list': NOT_ACCEPTABLE,
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
    why: 'The id is echoed when it could be read (behaviour.md, head), and no other: one with a fraction is none, one beyond 2^53 is not the one that was sent.',
    cases: {
      'messages: an id with a fraction': ID,
      'messages: an id that is too large': ID,
      'messages: a method that is a number': ID,
      'messages: a method that is null': ID,
      'messages: no method': ID,
    },
  },
  {
    why: 'Members that JSON-RPC does not define are dropped (src/wire/json-rpc.ts): JSON-RPC 2.0 does not forbid them, and clients send them.',
    cases: { 'messages: a member that JSON-RPC does not know': ['200 complete', '400 -32600'] },
  },
  {
    why: 'Security: a key "__proto__" is dropped wherever it stands. The SDK passes it on: answers that come under it are taken for own ones.',
    cases: {
      'envelope: a capability named __proto__': 'messages.0.result.content.0.text',
      'rounds: answers under __proto__': ['200 input_required, 200 input_required', '200 input_required, 200 complete'],
    },
  },
  {
    why: 'Behaviour §0: "initialize" without a modern claim is legacy, whatever its headers; an endpoint without sessions then says which revision it serves (M3).',
    cases: { 'versions: a handshake with a modern header': ['400 -32022', '400 -32020'] },
  },
  {
    why: 'Security (M4): one text for one value (RFC 4648 §3.5), and nothing taken off it: what a proxy decodes and what the tool gets are the same.',
    cases: {
      'headers: Mcp-Name in base64, with stray bits': HEADER_REFUSED,
      'parameters: in base64, with stray bits': HEADER_REFUSED,
      'parameters: in base64, with a byte order mark that the body has not': HEADER_REFUSED,
      'parameters: in base64, with a byte order mark': HEADER_TAKEN,
    },
  },
  {
    why: 'Security (M4): a client must not say such an integer in a header (Streamable HTTP, "Schema Extension"), so the tool would get what no proxy has seen.',
    cases: {
      'parameters: an integer, too large': HEADER_REFUSED,
      'parameters: an integer, too large, and no header': HEADER_REFUSED,
    },
  },
  {
    why: 'Pagination, "Error Handling": an invalid cursor should result in -32602. The SDK has no pages and ignores it.',
    cases: {
      'tools: the list, with an empty cursor': CURSOR,
      'tools: the list, with an unknown cursor': CURSOR,
      'resources: the list, with an unknown cursor': CURSOR,
      'resources: the templates, with an unknown cursor': CURSOR,
      'prompts: the list, with an unknown cursor': CURSOR,
    },
  },
  {
    why: 'JSON-RPC 2.0 §5.1: malformed parameters are invalid params, the fault of the sender.',
    cases: {
      'tools: the list, with a cursor that is a number': MALFORMED,
      'tools: the list, with a cursor that is null': MALFORMED,
      'resources: no URI': MALFORMED,
      'resources: a URI that is a number': MALFORMED,
      'prompts: an argument is a number': MALFORMED,
      'prompts: arguments are an array': MALFORMED,
      'prompts: arguments are null': MALFORMED,
      'prompts: no name': MALFORMED,
      'prompts: a name that is an object': MALFORMED,
      'completion: of an unknown kind': MALFORMED,
      'completion: no reference': MALFORMED,
      'completion: no argument': MALFORMED,
      'completion: a value that is a number': MALFORMED,
      'completion: a context that is a text': MALFORMED,
    },
  },
  {
    why: 'A handler that throws a ProtocolError of the SDK means the protocol (src/handlers/results/handler-failure.ts); McpServer makes a result even of that.',
    cases: { 'tools: a handler throws a protocol error': ['200 -32602', '200 isError'] },
  },
  {
    why: 'What a method returns becomes a result (src/handlers/results/tool-result.ts): an object that is none is structured content; a result with a mistake in it is the fault of the server, which the client is not told of as if it were its own.',
    cases: {
      'tools: a handler returns no result': ['200 complete', '200 -32602'],
      'tools: a handler returns half a result': ['200 isError', '200 -32602'],
    },
  },
  {
    why: 'Security: URIs are compared as they are (RFC 3986 §6.2.1), as a proxy and a guard do that decide by Mcp-Name. The SDK parses and rewrites them first.',
    cases: { 'resources: a URI in other letters': ['200 -32602', '200 complete'] },
  },
  {
    why: 'The same: what is not a URI is not found either; in "Resources", "Error Handling", the data is the "uri" alone.',
    cases: {
      'resources: not a URI': REASON,
      'resources: an empty URI': REASON,
      'resources: a URI named like a property': REASON,
    },
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
  },
  {
    why: "M8, security: a state belongs to its method, name or URI, and arguments. The SDK's codec binds it only to what its user tells it to.",
    cases: {
      'state: of another tool': ['200 input_required, 200 -32602', '200 input_required, 200 input_required'],
      'state: of another method': ['200 input_required, 200 -32602', '200 input_required, 200 complete'],
      'state: of other arguments': ['200 input_required, 200 -32602', '200 input_required, 200 complete'],
    },
  },
  {
    why: 'M8: a state belongs to a tool, so first there must be one: the same code, for the other reason.',
    cases: { 'state: to an unknown tool': 'messages.0.error.data' },
  },
  {
    why: 'M7: the acknowledgement names what will be heard of, once; never a resource that is not there for this caller.',
    cases: {
      'subscriptions: to a resource twice': 'messages.0.params.notifications.resourceSubscriptions.1',
      'subscriptions: to a resource that does not exist': 'messages.0.params.notifications.resourceSubscriptions',
    },
  },
  {
    why: 'M7: a subscription is refused by the endpoint, before any handler, as M2 is: HTTP says so too. The specification leaves the status open.',
    cases: {
      'subscriptions: without a filter': BAD_FILTER,
      'subscriptions: with a filter that is null': BAD_FILTER,
      'subscriptions: with a filter that is an array': BAD_FILTER,
      'subscriptions: with a filter that is a text': BAD_FILTER,
      'subscriptions: with a flag that is a text': BAD_FILTER,
      'subscriptions: with a flag that is null': BAD_FILTER,
      'subscriptions: with resources that are a text': BAD_FILTER,
      'subscriptions: with resources that are numbers': BAD_FILTER,
    },
  },
];
