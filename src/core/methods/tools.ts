import type { McpCall } from '../calls/mcp-call.js';
import type { EndpointSources } from '../handlers/registry/endpoint-sources.js';
import type { ToolEntry } from '../handlers/registry/handler-table.js';
import { notFound } from '../handlers/results/handler-failure.js';
import { ERAS, type McpEra } from '../protocol/era.js';
import type { McpError } from '../protocol/errors.js';
import { isObject } from '../protocol/json-rpc.js';
import { paramHeadersFault } from '../protocol/modern-headers.js';
import { wrappedResult } from '../protocol/structured-content.js';
import type { HandlerCalls } from './handler-calls.js';
import type { RawParams, ServedMethod, ServedMethods } from '../plugins/served-method.js';
import { paramsReader } from './method.js';

interface CallParams {
  readonly name: string;
  readonly arguments?: Record<string, unknown> | undefined;
}

const NO_ARGUMENTS: Record<string, unknown> = Object.freeze({});

/** Serves `tools/call`. */
export function toolMethods(sources: EndpointSources, calls: HandlerCalls): ServedMethods {
  const { table } = sources;
  const call: ServedMethod<CallParams> = {
    read: paramsReader(
      'CallToolRequest',
      ({ name, arguments: args, task }, era) =>
        typeof name === 'string' &&
        (args === undefined || isObject(args)) &&
        (task === undefined || !ERAS[era].hasTaskParam || isPlainTask(task))
          ? { name, arguments: args }
          : undefined,
      withoutTask,
    ),
    find({ name }, served) {
      return typeof name === 'string' ? (table.get('tool', name) ?? sources.find('tool', name, served)) : undefined;
    },
    serve({ name, arguments: args }, served) {
      const tool = served.target as ToolEntry | undefined;
      if (!tool) throw notFound('tool', name);
      served.bound = tool.bound;
      if (!served.takesAnyStructure) served.write = tool.legacyWire ? wrapAll : wrapOthers;
      const fault = tool.paramHeaders.length > 0 ? headersFault(tool, args, served) : undefined;
      return calls.run(served, name, { name, arguments: args }, tool, args ?? NO_ARGUMENTS, fault);
    },
  };
  return { 'tools/call': call };
}

/**
 * Compares the arguments that a tool mirrors into headers with these headers (M4).
 *
 * @returns HEADER_MISMATCH if they differ
 */
function headersFault({ paramHeaders }: ToolEntry, args: unknown, { era, headers }: McpCall): McpError | undefined {
  return era === 'modern' && headers ? paramHeadersFault(paramHeaders, args, headers) : undefined;
}

const wrapAll = (result: object): string => JSON.stringify(wrappedResult(result, true));
const wrapOthers = (result: object): string => JSON.stringify(wrappedResult(result, false));

function isPlainTask(task: unknown): boolean {
  return isObject(task) && (task['ttl'] === undefined || typeof task['ttl'] === 'number');
}

/** Removes `task`, which is an unknown key in revision 2026-07-28: it has no tasks in its core. */
function withoutTask(params: RawParams, era: McpEra): RawParams {
  if (ERAS[era].hasTaskParam) return params;
  const { task: _, ...others } = params;
  return others;
}
