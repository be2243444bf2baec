import { isObject } from '../protocol/json-rpc.js';
import type { MaybePromise } from '../common/promises.js';
import type { McpCall } from '../calls/mcp-call.js';
import type { McpTarget } from '../calls/mcp-target.js';
import type { McpEra } from '../protocol/era.js';
import type { JsonRpcRequest } from '../protocol/json-rpc.js';
import { checkedBySpec, type ProtocolError, sdk, type SpecTypeName } from '../protocol/spec.js';
import { isLarger, MAX_CHECKED_VALUES } from '../protocol/values.js';

/** A method that an endpoint serves. */
export interface ServedMethod<Params = unknown> {
  /** The era that has the method. @default that of its row in `METHODS`, else both */
  readonly era?: McpEra | undefined;
  /** The id of its extension: a client that did not declare it is refused. */
  readonly extension?: string | undefined;
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

const NO_PARAMS: RawParams = Object.freeze({});

/**
 * Reads parameters: by a hand-written check that accepts the usual ones, and otherwise by the schema of the specification,
 * which names the field and the fault. The schema decides in all doubtful cases; the check only saves its time.
 *
 * @param type the type of the request in the specification
 * @param accept returns the parameters, or `undefined` to leave the decision to the schema
 * @param known the parameters that the era has, for the schema; by default all
 */
export function paramsReader<Params>(
  type: SpecTypeName,
  accept: (params: RawParams, era: McpEra) => Params | undefined,
  known?: (params: RawParams, era: McpEra) => RawParams,
): (request: JsonRpcRequest, era: McpEra) => Params {
  return ({ method, params = NO_PARAMS }, era) => {
    const { _meta: meta } = params;
    const accepted = meta === undefined || isPlainMeta(meta) ? accept(params, era) : undefined;
    if (accepted !== undefined) return accepted;
    if (isLarger(params, MAX_CHECKED_VALUES)) {
      const text = `The parameters of "${method}" have more than ${MAX_CHECKED_VALUES} values, and are not of the usual form, so they were not read. Send less.`;
      throw invalidParams(text);
    }
    const { value, problem } = checkedBySpec(type, { method, params: known ? known(params, era) : params });
    if (!problem) return (value as { params: Params }).params;
    const message = `The parameters of "${method}" do not match the specification: "${problem.path}": ${problem.message}.`;
    throw new sdk.ProtocolError(sdk.ProtocolErrorCode.InvalidParams, message);
  };
}

/** Returns whether `_meta` is as clients send it. */
function isPlainMeta(meta: unknown): boolean {
  if (!isObject(meta)) return false;
  const { progressToken, [RELATED_TASK]: task } = meta;
  if (task !== undefined && !(isObject(task) && typeof task['taskId'] === 'string')) return false;
  return progressToken === undefined || typeof progressToken === 'string' || Number.isSafeInteger(progressToken);
}

/** The schema checks this key of `_meta` too. */
const RELATED_TASK = 'io.modelcontextprotocol/related-task';

export function isRecordOfTexts(value: unknown): value is Record<string, string> {
  return isObject(value) && Object.values(value).every((member) => typeof member === 'string');
}

export function invalidParams(message: string): ProtocolError {
  return new sdk.ProtocolError(sdk.ProtocolErrorCode.InvalidParams, message);
}
