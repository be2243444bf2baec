import type { PromptArgument } from '@modelcontextprotocol/server';
import type { PromptArgumentOptions, PromptOptions } from '../definitions/handler-options.js';
import type { Completion, PromptEntry } from '../handler-entry.js';
import { HandlerDefinitionError } from '../handlers.errors.js';
import { handlerMessages } from '../handlers.messages.js';
import { interceptorNotice, promptOutcome } from '../results/handler-outcome.js';
import { ArgumentsError } from '../schema/arguments.error.js';
import type { JsonSchema, Validate } from '../schema/handler-schema.js';
import type { EntrySource } from './entry-source.js';
import { assertName, wireOf } from './wire.js';

/** @throws HandlerDefinitionError */
export function promptEntry(
  options: PromptOptions,
  source: EntrySource,
  completions: ReadonlyMap<string, Completion>,
): PromptEntry {
  const { name, title, description, icons, _meta } = options;
  const { origin, failures } = source;
  assertName('name', name, origin);
  const { list, validate } = argumentsOf(options, source);
  const handler = source.runner(validate);
  const notice = interceptorNotice(origin);
  return {
    kind: 'prompt',
    key: name,
    wire: wireOf('Prompt', { name, title, description, icons, arguments: list as PromptArgument[], _meta }, origin),
    origin,
    completions,
    invoke: (args, context) =>
      promptOutcome((changed) => handler.run(args, context, changed), { name, origin, context, failures, notice }),
    visible: (context) => handler.visible(context),
    admits: (args, context) => handler.admits(args, context),
    guarded: handler.guarded,
  };
}

function argumentsOf(
  { inputSchema, arguments: list }: PromptOptions,
  { origin, compiler }: EntrySource,
): { list?: readonly PromptArgumentOptions[]; validate?: Validate } {
  if (inputSchema && list) throw new HandlerDefinitionError(origin, handlerMessages.twoArguments());
  if (inputSchema) {
    const { json, validate } = compiler.compile(inputSchema, 'input', { origin, option: 'inputSchema' });
    const alternatives = json.properties === undefined && ['oneOf', 'anyOf', 'allOf'].some((key) => key in json);
    if (alternatives) throw new HandlerDefinitionError(origin, handlerMessages.unlistable());
    return { list: listOf(json), validate };
  }
  return list ? { list, validate: (raw) => withRequired(list, raw) } : {};
}

/** The properties of an object schema as the arguments of a prompt. */
function listOf({ properties = {}, required = [] }: JsonSchema): PromptArgumentOptions[] {
  return Object.entries(properties as Record<string, unknown>).map(([name, property]) => {
    const { title, description } = (property ?? {}) as { title?: string; description?: string };
    return { name, title, description, required: (required as string[]).includes(name) };
  });
}

/** @throws ArgumentsError */
function withRequired(list: readonly PromptArgumentOptions[], raw: unknown): unknown {
  const given = raw as Record<string, unknown>;
  const missing = list.filter(({ name, required }) => required && !Object.hasOwn(given, name));
  if (missing.length === 0) return raw;
  throw new ArgumentsError(missing.map(({ name }) => ({ path: name, message: handlerMessages.missingArgument() })));
}
