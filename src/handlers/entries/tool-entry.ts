import type { Tool } from '@modelcontextprotocol/server';
import { paramHeadersOf, type ParamHeader } from '../../wire/param-headers.js';
import type { ToolOptions } from '../definitions/handler-options.js';
import type { ToolEntry } from '../handler-entry.js';
import { HandlerDefinitionError } from '../handlers.errors.js';
import { handlerMessages } from '../handlers.messages.js';
import { interceptorNotice, toolOutcome } from '../results/handler-outcome.js';
import type { JsonSchema } from '../schema/handler-schema.js';
import type { EntrySource } from './entry-source.js';
import { assertName, wireOf } from './wire.js';

/** What a tool without arguments takes. Some clients insist on `properties`. */
const NO_ARGUMENTS: JsonSchema = { type: 'object', properties: {} };

/** @throws HandlerDefinitionError */
export function toolEntry(options: ToolOptions, { origin, compiler, runner, failures }: EntrySource): ToolEntry {
  const { name, title, description, icons, annotations, _meta } = options;
  assertName('name', name, origin);
  const input =
    options.inputSchema && compiler.compile(options.inputSchema, 'input', { origin, option: 'inputSchema' });
  const output =
    options.outputSchema && compiler.compile(options.outputSchema, 'output', { origin, option: 'outputSchema' });
  const inputSchema = (input?.json ?? NO_ARGUMENTS) as Tool['inputSchema'];
  const outputSchema = output?.json;
  const fields = { name, title, description, inputSchema, outputSchema, icons, annotations, _meta };
  const handler = runner(input?.validate);
  const notice = interceptorNotice(origin);
  return {
    kind: 'tool',
    key: name,
    wire: wireOf('Tool', fields, origin),
    origin,
    paramHeaders: paramHeaders(inputSchema, origin),
    invoke: (args, context) =>
      toolOutcome(
        (changed) => handler.run(args, context, changed),
        { name, origin, context, failures, notice },
        output?.validate,
      ),
    visible: (context) => handler.visible(context),
    admits: (args, context) => handler.admits(args, context),
    guarded: handler.guarded,
  };
}

/** @throws HandlerDefinitionError for what would make modern clients leave out the tool */
function paramHeaders(inputSchema: JsonSchema, origin: string): readonly ParamHeader[] {
  const declared = paramHeadersOf(inputSchema);
  if ('headers' in declared) return declared.headers;
  throw new HandlerDefinitionError(origin, handlerMessages.unsuitableSchema('inputSchema', declared.fault));
}
