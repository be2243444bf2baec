import { isInitializeRequest, type IncomingBody, type JsonRpcMessage } from './json-rpc.js';
import { isModernRevision } from './revisions.js';

/** `legacy`: the 2025 revisions, with sessions. `modern`: 2026-07-28, without. @publicApi */
export type Era = 'legacy' | 'modern';

/** The `_meta` key that makes a message modern: the protocol revision of the request. @internal */
export const PROTOCOL_VERSION_META_KEY = 'io.modelcontextprotocol/protocolVersion';

/** The `_meta` key under which a modern request names the client software. @internal */
export const CLIENT_INFO_META_KEY = 'io.modelcontextprotocol/clientInfo';

/** The `_meta` key under which a modern request states the client's capabilities. @internal */
export const CLIENT_CAPABILITIES_META_KEY = 'io.modelcontextprotocol/clientCapabilities';

/** The `_meta` key under which a modern request asks for log messages, from this level up. @internal */
export const LOG_LEVEL_META_KEY = 'io.modelcontextprotocol/logLevel';

/** The `_meta` key under which a modern result names the server software. @internal */
export const SERVER_INFO_META_KEY = 'io.modelcontextprotocol/serverInfo';

/** The `_meta` key that ties a notification to the `subscriptions/listen` request it is sent for. @internal */
export const SUBSCRIPTION_ID_META_KEY = 'io.modelcontextprotocol/subscriptionId';

/**
 * The era of a POST (behaviour.md §0): modern if a message claims it by its `_meta`, with whatever value, or if the
 * header names a modern revision; legacy otherwise.
 *
 * An unusable claim is modern too, so that it gets the modern error instead of being served by the wrong rules.
 *
 * A lone `initialize` is what it says, whatever the header: there is none in the modern era, and a client that falls back
 * to it on a transport which it has used before sends the old header along (facts.md).
 *
 * @param headers `protocolVersion`: the `MCP-Protocol-Version` header
 * @param body what was read; one modern message makes all of a batch modern
 * @internal
 */
export function classifyPost(headers: { protocolVersion: string | undefined }, body: IncomingBody): Era {
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
