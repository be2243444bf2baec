import { isObject } from '../protocol/json-rpc.js';
import type { RawParams } from '../plugins/served-method.js';
import type { McpEra } from '../protocol/era.js';
import type { JsonRpcRequest } from '../protocol/json-rpc.js';
import { checkedBySpec, invalidParams, type SpecTypeName } from '../protocol/spec.js';
import { isLarger, MAX_CHECKED_VALUES } from '../protocol/values.js';

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
    throw invalidParams(
      `The parameters of "${method}" do not match the specification: "${problem.path}": ${problem.message}.`,
    );
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
