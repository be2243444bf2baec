import type { HandlerTable } from '../handlers/handler-table.js';
import type { HandlerCalls } from './handler-calls.js';
import { invalidParams, isRecord, type McpMethod, type McpMethods, paramsReader, withoutProto } from './method.js';
import { methodMessages } from './methods.messages.js';

interface CallParams {
  readonly name: string;
  readonly arguments?: Record<string, unknown> | undefined;
}

const NO_ARGUMENTS: Record<string, unknown> = Object.freeze({});

/** `tools/call`. */
export function toolMethods(table: HandlerTable, calls: HandlerCalls): McpMethods {
  const call: McpMethod<CallParams> = {
    asks: true,
    read: paramsReader('CallToolRequest', ({ name, arguments: args, task }) =>
      typeof name === 'string' && (args === undefined || isRecord(args)) && task === undefined
        ? { name, arguments: args && withoutProto(args) }
        : undefined,
    ),
    serve({ name, arguments: args }, served) {
      const tool = table.get('tool', name);
      if (!tool) throw invalidParams(methodMessages.unknownTool(name));
      const given = args ?? NO_ARGUMENTS;
      return calls.run(
        served,
        name,
        { name, arguments: args },
        (context) => tool.invoke(given, context) as Promise<object>,
      );
    },
  };
  return { 'tools/call': call };
}
