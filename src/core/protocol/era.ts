import type { RequestMeta } from '@modelcontextprotocol/server';
import { type IncomingBody, isInitializeRequest, isObject, type JsonRpcMessage } from './json-rpc.js';
import { isLogLevel } from './log-levels.js';
import type { McpEra } from './methods.js';
import { isModernRevision } from './revisions.js';

export type { McpEra } from './methods.js';

/** An era differs from the other in these rules, outside of the endpoint that serves it. @internal */
interface EraRules {
  /** The client is asked while a handler waits; otherwise a call is answered with the questions (M8). */
  readonly asksAtOnce: boolean;
  /** `tools/call` has a parameter `task`. */
  readonly hasTaskParam: boolean;
  /** Results have a type, and the name of the server. */
  readonly typesResults: boolean;
  /** Structured content is any JSON, and so is what an output schema describes; otherwise an object (D18). */
  readonly hasAnyStructure: boolean;
  /** Results of lists and reads say how long they may be kept. */
  readonly hasCacheHints: boolean;
  /** HTTP says it too when a request is refused before its handler runs (M5); otherwise its status is 200 (P5). */
  readonly refusesByStatus: boolean;
  /** Each request declares the capabilities of its client, and there is an error for one that is missing (M6). */
  readonly declaresPerRequest: boolean;
}

/** The rules of both eras, outside of the endpoint that serves them. @internal */
export const ERAS: Readonly<Record<McpEra, EraRules>> = {
  legacy: {
    asksAtOnce: true,
    hasTaskParam: true,
    typesResults: false,
    hasAnyStructure: false,
    hasCacheHints: false,
    refusesByStatus: false,
    declaresPerRequest: false,
  },
  modern: {
    asksAtOnce: false,
    hasTaskParam: false,
    typesResults: true,
    hasAnyStructure: true,
    hasCacheHints: true,
    refusesByStatus: true,
    declaresPerRequest: true,
  },
};

/** The `_meta` key that makes a message modern: the protocol revision of the request. @internal */
export const PROTOCOL_VERSION_META_KEY = 'io.modelcontextprotocol/protocolVersion';

/** The `_meta` key under which a modern request names the client software. @internal */
export const CLIENT_INFO_META_KEY = 'io.modelcontextprotocol/clientInfo';

/** The `_meta` key under which a modern request states the client's capabilities. @internal */
export const CLIENT_CAPABILITIES_META_KEY = 'io.modelcontextprotocol/clientCapabilities';

/** The `_meta` key under which a modern request asks for log messages, from this level up. @internal */
export const LOG_LEVEL_META_KEY = 'io.modelcontextprotocol/logLevel';

/** Returns the `_meta` of a request without the keys of the protocol, for handlers (D1). @internal */
export function withoutEnvelope(meta: RequestMeta = {}): RequestMeta {
  const {
    [PROTOCOL_VERSION_META_KEY]: _version,
    [CLIENT_INFO_META_KEY]: _info,
    [CLIENT_CAPABILITIES_META_KEY]: _capabilities,
    [LOG_LEVEL_META_KEY]: _level,
    ...rest
  } = meta;
  return rest;
}

/** The `_meta` key under which a modern result names the server software. @internal */
export const SERVER_INFO_META_KEY = 'io.modelcontextprotocol/serverInfo';

/** The `_meta` key that ties a notification to the `subscriptions/listen` request it is sent for. @internal */
export const SUBSCRIPTION_ID_META_KEY = 'io.modelcontextprotocol/subscriptionId';

/**
 * Decides the era of a POST (§0): modern if a message claims it by its `_meta`, with whatever value, or if the header
 * names a modern revision; legacy otherwise.
 *
 * An unusable claim is modern too, so that it gets the modern error instead of being served by the wrong rules.
 *
 * A single `initialize` is legacy with any header: the modern era has no `initialize`, and a client that falls back to
 * it may still send the modern header.
 *
 * @param headers `protocolVersion`: the `MCP-Protocol-Version` header
 * @param body what was read; one modern message makes all of a batch modern
 * @internal
 */
export function classifyPost(headers: { protocolVersion: string | undefined }, body: IncomingBody): McpEra {
  if (body.messages.some(claimsModern)) return 'modern';
  return isModernRevision(headers.protocolVersion) && !isHandshake(body) ? 'modern' : 'legacy';
}

function isHandshake({ batch, messages }: IncomingBody): boolean {
  return !batch && isInitializeRequest(messages[0]!);
}

function claimsModern(message: JsonRpcMessage): boolean {
  const { params, result } = message as { params?: WithMeta; result?: WithMeta };
  const meta = (params ?? result)?._meta;
  return meta !== undefined && Object.hasOwn(meta, PROTOCOL_VERSION_META_KEY);
}

interface WithMeta {
  _meta?: object;
}

/**
 * Tells whether the `_meta` of a request, except its version, is certainly a valid envelope (M2).
 *
 * It never takes what the schema of the specification does not; it may not take what the schema does. The schema is the
 * SDK's, and is asked only then: on the path of every request it would take as long as the call itself.
 *
 * @internal
 */
export function isPlainEnvelope(meta: Readonly<Record<string, unknown>>): boolean {
  const { [CLIENT_INFO_META_KEY]: info, [LOG_LEVEL_META_KEY]: level } = meta;
  return (
    arePlainCapabilities(meta[CLIENT_CAPABILITIES_META_KEY]) &&
    (info === undefined || isPlainInfo(info)) &&
    (level === undefined || isLogLevel(level))
  );
}

/** Tells the same of the capabilities of a client. @internal */
export function arePlainCapabilities(capabilities: unknown): boolean {
  return isObject(capabilities) && Object.entries(capabilities).every(isPlainCapability);
}

function isPlainCapability([name, capability]: [string, unknown]): boolean {
  if (!isObject(capability)) return false;
  if (name === 'roots') return isFlag(capability['listChanged']);
  if (!Object.values(capability).every(isObject)) return false;
  const { form } = capability;
  return name !== 'elicitation' || form === undefined || isFlag((form as JsonObject)['applyDefaults']);
}

/** Tells the same of the name and version of a client. @internal */
export function isPlainInfo(info: unknown): boolean {
  if (!isObject(info) || info['icons'] !== undefined) return false;
  const { name, version } = info;
  return name !== undefined && version !== undefined && Object.values(info).every((value) => typeof value === 'string');
}

function isFlag(value: unknown): boolean {
  return value === undefined || typeof value === 'boolean';
}

type JsonObject = Readonly<Record<string, unknown>>;
