import type { MaybePromise } from '../common/promises.js';
import type { McpCall } from '../calls/mcp-call.js';
import type { McpTarget } from '../calls/mcp-target.js';
import type { McpEra } from '../protocol/era.js';
import type { JsonRpcRequest } from '../protocol/json-rpc.js';
import type { ListedKind } from './handler-source.js';

/** A method that an endpoint serves. */
export interface ServedMethod<Params = unknown> {
  /** The era that has the method. @default that of its row in `METHODS`, else both */
  readonly era?: McpEra | undefined;
  /** The id of its extension: a client that did not declare it is refused. */
  readonly extension?: string | undefined;
  /** Its results have the cache hints of this list, which it shows in another form: a method of a plugin has it. */
  readonly listHints?: ListedKind;
  /**
   * Reads the parameters, with the fields that the method has and no others.
   *
   * @throws ProtocolError -32602 that names the field
   */
  read(request: JsonRpcRequest, era: McpEra): Params;
  /**
   * Finds what a call is for. Its parameters are unchecked.
   *
   * @returns `undefined`: there is no such thing
   */
  find?(params: RawParams, call: McpCall): MaybePromise<McpTarget | undefined>;
  /**
   * Serves a request.
   *
   * @returns the result, or a promise of it
   * @throws an error with a JSON-RPC code and a message for the client
   */
  serve(params: Params, call: McpCall): object | Promise<object>;
}

/** Maps names to methods. */
export type ServedMethods = Readonly<Record<string, ServedMethod>>;

/** Parameters before they are checked. */
export type RawParams = Readonly<Record<string, unknown>>;
