import { isThenable } from '../../common/promises.js';
import type { ResultBound } from '../../calls/mcp-call.js';
import type { HandlerTable, ToolEntry } from '../registry/handler-table.js';
import type { ToolCatalogues } from '../catalogue/tool-catalogues.js';
import { notFound } from '../results/handler-failure.js';
import { ERAS, type McpEra } from '../../protocol/era.js';
import { isObject } from '../../protocol/json-rpc.js';
import { wrappedResult } from '../../protocol/structured-content.js';
import type { HandlerCalls } from './handler-calls.js';
import { type RawParams, type ServedMethod, type ServedMethods, paramsReader } from './method.js';

interface CallParams {
  readonly name: string;
  readonly arguments?: Record<string, unknown> | undefined;
}

const NO_ARGUMENTS: Record<string, unknown> = Object.freeze({});

/**
 * Serves `tools/call`.
 *
 * @param boundOf limits the results of tools without a limit of their own; absent: they may have any size
 */
export function toolMethods(
  table: HandlerTable,
  calls: HandlerCalls,
  catalogues: ToolCatalogues,
  boundOf?: (tool: ToolEntry) => ResultBound,
): ServedMethods {
  const call: ServedMethod<CallParams> = {
    asks: true,
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
    serve(params, served) {
      const { name, arguments: args } = params;
      const tool = table.get('tool', name) ?? catalogues.find(name, served);
      if (!tool) throw notFound('tool', name);
      // The next time it is known.
      if (isThenable(tool)) return tool.then(() => call.serve(params, served));
      served.bound = tool.bound ?? boundOf?.(tool);
      served.source = tool.source;
      if (!served.takesAnyStructure) served.write = tool.legacyWire ? wrapAll : wrapOthers;
      served.onTool?.(tool.wire.inputSchema);
      served.watcher?.toolFound(tool.wire);
      return calls.run(served, name, { name, arguments: args }, tool, args ?? NO_ARGUMENTS);
    },
  };
  return { 'tools/call': call };
}

const wrapAll = (result: object): object => wrappedResult(result, true);
const wrapOthers = (result: object): object => wrappedResult(result, false);

function isPlainTask(task: unknown): boolean {
  return isObject(task) && (task['ttl'] === undefined || typeof task['ttl'] === 'number');
}

/** Removes `task`, which is an unknown key in revision 2026-07-28: it has no tasks in its core. */
function withoutTask(params: RawParams, era: McpEra): RawParams {
  if (ERAS[era].hasTaskParam) return params;
  const { task: _, ...others } = params;
  return others;
}
