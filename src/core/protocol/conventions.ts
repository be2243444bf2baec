import { hash } from 'node:crypto';
import { isKnownCode } from './errors.js';
import { METHODS } from './methods.js';
import { isLegacyRevision, isModernRevision } from './revisions.js';

/*
 * # The names of the semantic conventions for MCP
 *
 * Status: Development. They are in the repository open-telemetry/semantic-conventions-genai (docs/gen-ai/mcp.md), not
 * in a released package, and may change: this file decides which names are sent, as of its commit 0393513.
 *
 * @see https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md
 */

export const ATTR = {
  METHOD: 'mcp.method.name',
  PROTOCOL_VERSION: 'mcp.protocol.version',
  SESSION_ID: 'mcp.session.id',
  RESOURCE_URI: 'mcp.resource.uri',
  REQUEST_ID: 'jsonrpc.request.id',
  STATUS_CODE: 'rpc.response.status_code',
  ERROR_TYPE: 'error.type',
  OPERATION: 'gen_ai.operation.name',
  TOOL: 'gen_ai.tool.name',
  PROMPT: 'gen_ai.prompt.name',
  TOOL_ARGUMENTS: 'gen_ai.tool.call.arguments',
  TOOL_RESULT: 'gen_ai.tool.call.result',
  NETWORK_TRANSPORT: 'network.transport',
  NETWORK_PROTOCOL: 'network.protocol.name',
  CLIENT_ADDRESS: 'client.address',
  CLIENT_PORT: 'client.port',
  SERVER_ADDRESS: 'server.address',
  SERVER_PORT: 'server.port',
} as const;

/** The names of histograms, which are in seconds. */
export const OPERATION_DURATION = 'mcp.server.operation.duration';
export const SESSION_DURATION = 'mcp.server.session.duration';
/** The duration of a request as its sender sees it: our client, or a server that asks its client. */
export const CLIENT_OPERATION_DURATION = 'mcp.client.operation.duration';
export const BUCKETS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];

const EXECUTE_TOOL = 'execute_tool';
/** Replaces what clients choose: unknown methods, and, as `error.type`, codes that no specification has. */
const OTHER = '_OTHER';

/** The keys of `_meta` without a prefix, as SEP-414 has them. */
export const TRACE_CONTEXT = ['traceparent', 'tracestate'];
export const BAGGAGE = 'baggage';

/** The attributes of everything that goes over Streamable HTTP. */
export const NETWORK = { [ATTR.NETWORK_TRANSPORT]: 'tcp', [ATTR.NETWORK_PROTOCOL]: 'http' };

const NAMED: Readonly<Record<string, string>> = { 'tools/call': ATTR.TOOL, 'prompts/get': ATTR.PROMPT };

/** Makes the name of a span: `tools/call add`; the URI of a resource is not for names. */
export function spanNameOf(method: string, name: string | undefined): string {
  return shortened(name !== undefined && Object.hasOwn(NAMED, method) ? `${method} ${name}` : method);
}

/**
 * Returns the id of a session as an attribute, unless it is anonymous: its id is its only credential, and a reader of
 * the spans could use the session with it.
 */
export function sessionIdOf(sessionId: string, principal: string | undefined): string {
  if (principal !== undefined) return sessionId;
  return `sha256:${hash('sha256', sessionId, 'hex').slice(0, 32)}`;
}

/** Returns the attributes of the tool or prompt that a method names. */
export function namedAttributes(method: string, name: string | undefined): Record<string, string> {
  const attributes: Record<string, string> = {};
  if (name !== undefined && Object.hasOwn(NAMED, method)) attributes[NAMED[method]!] = shortened(name);
  if (method === 'tools/call') attributes[ATTR.OPERATION] = EXECUTE_TOOL;
  return attributes;
}

/** Returns how a request ended, for its sender: each JSON-RPC error is an error. */
export function outcomeForSender(outcome: number | string): Record<string, string> {
  if (outcome === 'ok') return {};
  return { ...statusOf(outcome), [ATTR.ERROR_TYPE]: typeOf(outcome) };
}

/** Returns how a call ended: an error unless the outcome is a mistake of the client. */
export function outcomeForServer(outcome: number | string): Record<string, string> {
  if (outcome === 'ok') return {};
  return { ...statusOf(outcome), ...(!MISTAKES_OF_CLIENTS.has(outcome) && { [ATTR.ERROR_TYPE]: typeOf(outcome) }) };
}

const statusOf = (outcome: number | string) =>
  typeof outcome === 'number' ? { [ATTR.STATUS_CODE]: typeOf(outcome) } : undefined;

/**
 * Returns an error type. Codes come from a closed list, since they are labels of metrics: each other value would be
 * another series.
 */
function typeOf(outcome: number | string): string {
  return typeof outcome === 'string' || isKnownCode(outcome) ? String(outcome) : OTHER;
}

/**
 * Returns a revision as a label of metrics: a server of the option `server` may have answered `initialize` with any
 * text.
 */
export function revisionOf(protocolVersion: string): string {
  return isLegacyRevision(protocolVersion) || isModernRevision(protocolVersion) ? protocolVersion : OTHER;
}

/** The part of the end of a call that names what it was for. */
interface NamedEnd {
  readonly call: { readonly method: string; readonly name?: string | undefined };
  readonly handled: boolean;
  readonly source?: string | undefined;
}

/** Returns the method of a call as the name of a span: all unknown methods share one, with any outcome. */
export function methodOf({ call: { method }, handled }: NamedEnd): string {
  return handled || METHODS.has(method) ? method : OTHER;
}

/** Metrics have at most so many names of tools, prompts and methods that no specification has: each is a series for ever. */
const MOST_NAMES = 1_000;

/**
 * Decides which names are labels of metrics. All tools of a catalogue share one, since each caller may have others. The number of
 * all others is bounded: a server of the option `server` may answer to any name that a client sends.
 */
export class LabelNames {
  readonly #known = new Set<string>();

  /** @returns `_OTHER` for unknown methods */
  method(end: NamedEnd): string {
    const method = methodOf(end);
    return method === OTHER || METHODS.has(method) ? method : this.bounded(method);
  }

  /** Returns the name of the tool or prompt; `undefined` where none is called, or none is known. */
  name({ call: { method, name }, handled, source }: NamedEnd): string | undefined {
    if (!handled || name === undefined || !Object.hasOwn(NAMED, method)) return undefined;
    // No name of a tool has a dot and a star.
    return source === undefined ? this.bounded(name) : `${source}.*`;
  }

  /** Returns a name, shortened, or `_OTHER` if there are too many. */
  bounded(text: string): string {
    const name = shortened(text);
    if (!this.#known.has(name)) {
      if (this.#known.size >= MOST_NAMES) return OTHER;
      this.#known.add(name);
    }
    return name;
  }
}

/** An attribute of a client has at most this many characters: names, URIs and ids have no other limit than the body. */
const MAX_CHARACTERS = 1_024;

/** Shortens a text of a client, for an attribute. */
export function shortened(text: string): string {
  return text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}…` : text;
}

/** JSON-RPC codes for mistakes of clients, which are not errors of the server. */
const MISTAKES_OF_CLIENTS: ReadonlySet<unknown> = new Set([-32700, -32600, -32601, -32602, -32002]);
