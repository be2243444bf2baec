import { isObject } from '../protocol/json-rpc.js';
import { authOf, type McpCall } from './mcp-call.js';
import type { McpCallInfo } from './mcp-instrumentation.js';

/** Describes a call to observers: one object for as long as the call lasts. */
export function infoOf(call: McpCall): McpCallInfo {
  return (call.described ??= new ObservedCall(call));
}

/** Describes a call. Its getters read the call, so that a description costs no copies of what only some observers need. */
class ObservedCall implements McpCallInfo {
  readonly era: McpCallInfo['era'];
  readonly method: string;
  readonly requestId: McpCallInfo['requestId'];
  readonly principal: string | undefined;
  readonly name: string | undefined;
  readonly uri: string | undefined;
  readonly sessionId: string | undefined;
  readonly protocolVersion: string;
  readonly meta: McpCallInfo['meta'];
  readonly #call: McpCall;

  constructor(call: McpCall) {
    const { name, uri, _meta: meta } = (call.message.params ?? {}) as Params;
    this.era = call.era;
    this.method = call.method;
    this.requestId = call.requestId;
    this.principal = call.principal;
    this.name = typeof name === 'string' ? name : undefined;
    this.uri = typeof uri === 'string' ? uri : undefined;
    this.sessionId = call.session?.id;
    this.protocolVersion = call.client.protocolVersion;
    this.meta = meta as McpCallInfo['meta'];
    this.#call = call;
  }

  get arguments(): McpCallInfo['arguments'] {
    const { arguments: args } = (this.#call.message.params ?? {}) as Params;
    return isObject(args) ? args : undefined;
  }

  get clientInfo(): McpCallInfo['clientInfo'] {
    return this.#call.client.clientInfo;
  }

  get scopes(): McpCallInfo['scopes'] {
    return authOf(this.#call.request)?.scopes;
  }
}

type Params = Readonly<Partial<Record<'name' | 'uri' | '_meta' | 'arguments', unknown>>>;
