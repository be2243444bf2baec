import { ERAS, SERVER_INFO_META_KEY } from '../protocol/era.js';
import { isObject } from '../protocol/json-rpc.js';
import type { Implementation, ServerCapabilities } from '@modelcontextprotocol/server';
import { type MaybePromise, settle } from '../common/promises.js';
import type { McpCall, McpHttpCall } from '../calls/mcp-call.js';
import type { McpDispatcher } from '../calls/mcp-dispatcher.js';
import type { McpTarget } from '../calls/mcp-target.js';
import { McpError, shown } from '../protocol/errors.js';
import type { JsonRpcRequest } from '../protocol/json-rpc.js';
import { type MethodFacts, METHODS } from '../protocol/methods.js';
import { sdk, withoutUrlRequired } from '../protocol/spec.js';
import type { EndpointCapabilities } from './capabilities.js';
import { assertExtension, type ServedMethod, type ServedMethods } from '../plugins/served-method.js';

/**
 * # Serves decorated handlers: a table from method to function
 *
 * One dispatcher serves all sessions and requests of an endpoint, in both eras, without state:
 *
 *     request ─▶ method of the era? ─▶ client has its extension? ─▶ parameters ─▶ the method ─▶ result as the era has it
 *                      └─ -32601                └─ -32021               └─ -32602
 *
 * The envelope of modern requests is checked before, at the endpoint. The table is open: an extension adds its methods
 * with {@link add}.
 */
export class MethodDispatcher implements McpDispatcher {
  readonly #methods = new Map<string, KnownMethod>();

  constructor(
    private readonly serverInfo: Implementation,
    private readonly declared: EndpointCapabilities,
    readonly admitsResource?: McpDispatcher['admitsResource'],
  ) {}

  capabilities({ era }: McpHttpCall): ServerCapabilities {
    return this.declared.of(era);
  }

  /** Adds methods. @throws Error when there is a method of that name */
  add(methods: ServedMethods): this {
    for (const [name, method] of Object.entries(methods)) {
      if (this.#methods.has(name)) throw new Error(`There are two methods with the name "${name}".`);
      const { era, asks }: MethodFacts = METHODS.get(name) ?? {};
      this.#methods.set(name, { era, ...method, asks, target: { kind: 'method', key: name } });
    }
    return this;
  }

  find(call: McpCall): MaybePromise<McpTarget | undefined> {
    const method = this.#methods.get(call.method);
    if (!method || (method.era && method.era !== call.era)) return undefined;
    return method.find ? method.find(call.message.params ?? NO_PARAMS, call) : method.target;
  }

  request(call: McpCall): object | Promise<object> {
    const method = this.#methods.get(call.method);
    if (!method || (method.era && method.era !== call.era)) {
      throw new McpError('METHOD_NOT_FOUND', 'Method not found');
    }
    if (method.extension !== undefined) assertExtension(method.extension, call);
    const params = method.read(call.message as JsonRpcRequest, call.era);
    if (!ERAS[call.era].typesResults) return method.serve(params, call);
    return settle(
      () => method.serve(params, call),
      (result) => this.#modern(result, method, call),
      (error) => {
        throw method.asks ? withoutUrlRequired(error) : error;
      },
    );
  }

  /** Returns the result of revision 2026-07-28 with its type and the name of the server. */
  #modern(result: object, method: KnownMethod, { method: name, handle }: McpCall): object {
    const { resultType = 'complete', _meta } = result as { resultType?: unknown; _meta?: unknown };
    const other = result === handle || (method.asks && sdk.isInputRequiredResult(result));
    if (resultType !== 'complete' && !other) {
      throw new sdk.ProtocolError(
        sdk.ProtocolErrorCode.InternalError,
        `The handler of "${name}" returned the resultType ${shown(resultType)}, which the method does not support.`,
      );
    }
    if (_meta !== undefined && !isObject(_meta)) return { ...result, resultType };
    if (_meta?.[SERVER_INFO_META_KEY] !== undefined) return { ...result, resultType };
    return { ...result, resultType, _meta: { ..._meta, [SERVER_INFO_META_KEY]: this.serverInfo } };
  }
}

/** A method, whether its result may ask, and the target of calls that have no other. */
type KnownMethod = ServedMethod & Pick<MethodFacts, 'asks'> & { readonly target: McpTarget };

const NO_PARAMS = Object.freeze({});
