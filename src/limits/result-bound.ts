import type { ResultBound } from '../core/calls/mcp-call.js';
import type { McpHandlerTarget } from '../core/calls/mcp-target.js';
import { McpHandlerDefinitionError } from '../core/handlers/handlers.errors.js';
import { textBlock } from '../core/handlers/results/content.js';
import { SERVER_INFO_META_KEY } from '../core/protocol/era.js';
import { shown } from '../core/protocol/errors.js';
import { isObject } from '../core/protocol/json-rpc.js';

/**
 * Returns the limit of a tool's result (`maxResultBytes`). A larger result is replaced by a text that asks the model to request less.
 *
 * @param usual the option of the endpoint
 * @returns `undefined` for results of any size
 * @throws McpHandlerDefinitionError
 */
export function resultBound(target: McpHandlerTarget, usual = Infinity): ResultBound | undefined {
  if (target.kind !== 'tool') return undefined;
  const { key: name, origin, inputSchema } = target;
  const own: unknown = target.option('maxResultBytes');
  // A value that is null is refused.
  const maxBytes = own === undefined ? usual : own;
  if (!isSize(maxBytes)) {
    const reason = `its "maxResultBytes" must be a whole number of at least 1, or Infinity; got ${shown(maxBytes)}.`;
    throw new McpHandlerDefinitionError(origin, reason);
  }
  if (maxBytes === Infinity) return undefined;
  const { properties } = inputSchema as { readonly properties?: object };
  const how = howToAskForLess(properties && Object.keys(properties));
  return {
    maxBytes,
    maxReadBytes: maxBytes,
    insteadOf: (result, bytes) => {
      const text = `The result of "${name}" has ${bytes} bytes; the maximum is ${maxBytes}. None of it was sent. Ask for less, ${how}.`;
      const { resultType, _meta } = result as { resultType?: unknown; _meta?: unknown };
      const serverInfo = isObject(_meta) ? _meta[SERVER_INFO_META_KEY] : undefined;
      return {
        ...(resultType !== undefined && { resultType: 'complete' }),
        content: [textBlock(text)],
        isError: true,
        ...(serverInfo !== undefined && { _meta: { [SERVER_INFO_META_KEY]: serverInfo } }),
      };
    },
  };
}

function isSize(value: unknown): value is number {
  return value === Infinity || (Number.isSafeInteger(value) && (value as number) > 0);
}

/** @param args the names of the arguments; `undefined`: there are some whose names are not known */
function howToAskForLess(args: readonly string[] | undefined): string {
  if (args?.length === 0) return 'with another tool: this one takes no arguments';
  return `with its arguments${args ? ` (${args.join(', ')})` : ''}`;
}
