import type { CompleteResult, PromptArgument, Tool } from '@modelcontextprotocol/server';
import { resolveGroup } from '../../common/options.js';
import { faultOfMethodName, isExtensionId } from '../../protocol/extensions.js';
import { paramHeadersOf } from '../../protocol/param-headers.js';
import { checkedBySpec } from '../../protocol/spec.js';
import { propertiesOf } from '../../protocol/schema-walk.js';
import { isWrapped, wrappedSchema } from '../../protocol/structured-content.js';
import { shown } from '../../protocol/errors.js';
import { metaOfTool, uiOfContents } from '../decorators/app-views.js';
import {
  type MethodOptions,
  type PromptArgumentOptions,
  type PromptOptions,
  type ResourceArgs,
  type ResourceOptions,
  type ResourceTemplateArgs,
  type ResourceTemplateOptions,
  type ToolOptions,
} from '../decorators/handler-options.js';
import { McpArgumentsError, McpHandlerDefinitionError, namesText, problemsText } from '../handlers.errors.js';
import { CACHE_TABLE, type FailureOptions, type McpCacheHints, type ToolResultOptions } from '../handlers.options.js';
import { invokeHooked } from '../invocation/invoke-hooked.js';
import { toReadFailure } from '../results/handler-failure.js';
import { type HandlerRunner, reportOf, served, type ServedHandler } from '../results/handler-outcome.js';
import { toMethodResult, toPromptResult, toResourceResult } from '../results/read-results.js';
import { toolResults } from '../results/tool-result.js';
import type { FeatureKind } from '../../plugins/feature-kind.js';
import type { CompiledSchema, JsonSchema, McpResultSchema, Validate } from '../schema/handler-schema.js';
import { type ClassOptions, frozenJson, type SchemaCompiler } from '../schema/schema-compiler.js';
import type {
  Completion,
  FeatureEntry,
  MethodEntry,
  PromptEntry,
  ResourceEntry,
  ResourceTemplateEntry,
  TemplateMatch,
  ToolEntry,
} from './handler-table.js';
import { type DeclaredListing, listingOf } from './template-listing.js';
import { UriTemplate } from './uri-template.js';

/** Describes where an entry comes from. */
export interface EntrySource {
  /** Names the handler in messages, such as `OrderTools.find (OrdersModule)`. */
  readonly origin: string;
  readonly compiler: SchemaCompiler;
  readonly failures: FailureOptions & ToolResultOptions;
  /** Names where it is from, if not from a decorator or the registry, such as the class of a catalogue. */
  readonly source?: string | undefined;
  /** Makes the runner. @param validate checks the arguments, after the guards; without it they are taken as they are */
  readonly runner: (validate: Validate | undefined) => HandlerRunner;
  /** Present if a tool is a route too, and has no schema of its own. */
  readonly route?: Pick<CompiledSchema, 'json' | 'outdated'> | undefined;
  /** Whether a tool is a GET or HEAD route too. */
  readonly reads?: boolean;
  /** Says what the pipes around the handler do to the class of its arguments. */
  readonly classes?: ClassOptions;
  /** Says how the class of its result is converted, by `@SerializeOptions()` and interceptors. */
  readonly results?: ClassOptions;
  /** Proposes values for its arguments. */
  readonly completions?: readonly DeclaredCompletion[];
  /** Lists the resources of a template. */
  readonly listing?: DeclaredListing | undefined;
}

/** Proposes values for an argument of a prompt, or a variable of a template. */
export interface DeclaredCompletion {
  readonly origin: string;
  readonly argument: string;
  readonly propose: CompletionSource;
}

/** Makes the proposals; the result is checked here. */
export type CompletionSource = (...args: Parameters<Completion>) => unknown;

/** The schema of a tool without arguments. Some clients insist on `properties`. */
const NO_ARGUMENTS: JsonSchema = { type: 'object', properties: {} };

/** Makes the entry of a tool. @throws McpHandlerDefinitionError */
export function toolEntry(options: ToolOptions, source: EntrySource): ToolEntry {
  const { origin, compiler, runner, failures, classes, results } = source;
  const { name, title, description, icons, annotations } = options;
  const { maxValues, textMirror = failures.textMirror ?? true } = options;
  assertName('name', name, origin);
  if (maxValues !== undefined && !(Number.isSafeInteger(maxValues) && maxValues > 0)) {
    const reason = `its "maxValues" must be a whole number of at least 1; got ${shown(maxValues)}.`;
    throw new McpHandlerDefinitionError(origin, reason);
  }
  const { middleware } = options as { readonly middleware?: unknown };
  if (middleware !== undefined && middleware !== 'ignore') {
    throw new McpHandlerDefinitionError(origin, `its "middleware" can only be 'ignore'; got ${shown(middleware)}.`);
  }
  if (typeof textMirror !== 'boolean') {
    throw new McpHandlerDefinitionError(origin, `its "textMirror" must be true or false; got ${shown(textMirror)}.`);
  }
  const { _meta } = metaOfTool(options.ui, options._meta, origin);
  assertOfRoute(options, source);
  const input = options.inputSchema && compiler.compile(options.inputSchema, 'input', origin, { classes, maxValues });
  const outputSchema = options.outputSchema as McpResultSchema | undefined;
  const output = outputSchema && compiler.compile(outputSchema, 'output', origin, { classes: results });
  const inputSchema = (source.route?.json ?? input?.json ?? NO_ARGUMENTS) as Tool['inputSchema'];
  const fields = { name, title, description, inputSchema, outputSchema: output?.json, icons, annotations, _meta };
  const wire = wireOf('Tool', fields, origin);
  const wrapped = output && isWrapped(output.json) ? wrappedSchema(output.json) : undefined;
  const mirrored = paramHeadersOf(inputSchema);
  // Modern clients would omit the tool because of it.
  if ('fault' in mirrored) {
    throw new McpHandlerDefinitionError(origin, `its "inputSchema" cannot be used: ${mirrored.fault}`);
  }
  return {
    kind: 'tool',
    key: name,
    source: source.source,
    option: optionsOf(options),
    wire,
    legacyWire: wrapped && wireOf('Tool', { ...fields, outputSchema: wrapped }, origin),
    inputSchema: wire.inputSchema,
    outputSchema: wire.outputSchema,
    paramHeaders: mirrored.headers,
    reads: source.reads,
    outdated: (input ?? source.route)?.outdated,
    ...served(
      runner(input?.validate),
      { kind: 'tool', name, origin, failures },
      toolResults(output?.validate, textMirror, output && propertiesOf(output.json)),
    ),
  };
}

/**
 * Checks that options of routes have a route.
 *
 * @throws McpHandlerDefinitionError for options that only a route has whose schema is its own
 */
function assertOfRoute({ outputSchema, rename }: ToolOptions, { origin, route }: EntrySource): void {
  if (rename && !route) {
    const reason = 'it has "rename", which only a route without "inputSchema" has. Name the arguments in the schema.';
    throw new McpHandlerDefinitionError(origin, reason);
  }
  if ((outputSchema as unknown) === 'route') {
    throw new McpHandlerDefinitionError(
      origin,
      'its "outputSchema" is \'route\', but it is no route. Give the schema itself.',
    );
  }
}

/** Makes the entry of a resource. @throws McpHandlerDefinitionError */
export function resourceEntry(options: ResourceOptions, source: EntrySource): ResourceEntry {
  const { origin, runner, failures } = source;
  const { uri, name, title, description, icons, mimeType, size, annotations, _meta, cache } = options;
  assertName('name', name, origin);
  assertName('uri', uri, origin);
  if (/\{[^}\s]+\}/.test(uri)) {
    throw new McpHandlerDefinitionError(
      origin,
      `its "uri" is ${shown(uri)}, which has variables. Use @ResourceTemplate().`,
    );
  }
  if (!URL.canParse(uri)) {
    const reason = `its "uri" is ${shown(uri)}, which is not an absolute URI such as "orders://terms".`;
    throw new McpHandlerDefinitionError(origin, reason);
  }
  const ui = uiOfContents(mimeType, _meta);
  const about: ServedHandler = { kind: 'resource', name: uri, origin, failures };
  return {
    kind: 'resource',
    key: uri,
    source: source.source,
    option: optionsOf(options),
    wire: wireOf('Resource', { uri, name, title, description, icons, mimeType, size, annotations, _meta }, origin),
    ...cacheOf(cache, origin),
    ...served(runner(undefined), about, (value, args: ResourceArgs) =>
      toResourceResult({ uri: args.uri, mimeType, ui }, value),
    ),
  };
}

/** Makes the entry of a resource template. @throws McpHandlerDefinitionError */
export function templateEntry(options: ResourceTemplateOptions, source: EntrySource): ResourceTemplateEntry {
  const { uriTemplate, name, title, description, icons, mimeType, annotations, _meta, cache } = options;
  const { origin, runner, failures } = source;
  assertName('name', name, origin);
  const template = templateOf(uriTemplate, origin);
  const fields = { uriTemplate, name, title, description, icons, mimeType, annotations, _meta };
  const about: ServedHandler = { kind: 'template', name: uriTemplate, origin, failures };
  const ui = uiOfContents(mimeType, _meta);
  return {
    kind: 'template',
    key: uriTemplate,
    source: source.source,
    option: optionsOf(options),
    wire: wireOf('ResourceTemplate', fields, origin),
    ...cacheOf(cache, origin),
    template,
    completions: completionsOf(`resource template "${uriTemplate}"`, template.variableNames, about, source),
    ...(source.listing && { listing: listingOf(source.listing, template, { ...fields, failures }) }),
    ...served(runner(argsOfMethod), about, (value, args: TemplateMatch) =>
      toResourceResult({ uri: args.uri, mimeType, ui }, value),
    ),
  };
}

/** Returns the variables as the arguments of the method; guards see the parts. */
function argsOfMethod(raw: unknown): ResourceTemplateArgs {
  const { uri, variables } = raw as TemplateMatch;
  return { ...variables, uri };
}

/** Makes the entry of a prompt. @throws McpHandlerDefinitionError */
export function promptEntry(options: PromptOptions, source: EntrySource): PromptEntry {
  const { name, title, description, icons, _meta } = options;
  const { origin, runner, failures } = source;
  assertName('name', name, origin);
  const { list, validate } = argumentsOf(options, source);
  const about: ServedHandler = { kind: 'prompt', name, origin, failures };
  const names = (list ?? []).map((argument) => argument.name);
  return {
    kind: 'prompt',
    key: name,
    source: source.source,
    option: optionsOf(options),
    wire: wireOf('Prompt', { name, title, description, icons, arguments: list as PromptArgument[], _meta }, origin),
    completions: completionsOf(`prompt "${name}"`, names, about, source),
    ...served(runner(validate), about, toPromptResult),
  };
}

/** Makes the entry of a handler of a feature. @throws McpHandlerDefinitionError */
export function featureEntry(
  feature: FeatureKind,
  options: object,
  { origin, runner, failures }: EntrySource,
): FeatureEntry {
  const fault = feature.faultOf(options);
  if (fault !== undefined) throw new McpHandlerDefinitionError(origin, fault);
  const key = feature.uriOf(options);
  const about: ServedHandler = { kind: 'resource', name: key, origin, failures };
  const entry: FeatureEntry = {
    kind: 'feature',
    feature,
    key,
    options,
    option: optionsOf(options),
    run: async (args, context) => invokeHooked(entry, args, context),
    ...served(runner(undefined), about, (value) => feature.resultOf(value, options)),
  };
  return entry;
}

/** Makes the entry of a method. @throws McpHandlerDefinitionError, also for a method that the specification has */
export function methodEntry(
  options: MethodOptions,
  { origin, compiler, runner, failures, classes }: EntrySource,
): MethodEntry {
  const { method, paramsSchema, extension, era } = options;
  const fault = faultOfMethodName(method);
  if (fault !== undefined) throw new McpHandlerDefinitionError(origin, `its method is ${shown(method)}: ${fault}.`);
  if (extension !== undefined && !isExtensionId(extension)) {
    const reason = `its "extension" is ${shown(extension)}; the id of an extension is "vendor-prefix/name", such as "com.example/search".`;
    throw new McpHandlerDefinitionError(origin, reason);
  }
  if (era !== undefined && era !== 'legacy' && era !== 'modern') {
    throw new McpHandlerDefinitionError(origin, `its "era" must be "legacy" or "modern"; got ${shown(era)}.`);
  }
  const params = paramsSchema && compiler.compile(paramsSchema, 'input', origin, { option: 'schema', classes });
  const about: ServedHandler = { kind: 'method', name: method, origin, failures };
  return { kind: 'method', key: method, extension, era, ...served(runner(params?.validate), about, toMethodResult) };
}

function argumentsOf(
  { inputSchema, arguments: list }: PromptOptions,
  { origin, compiler, classes }: EntrySource,
): { list?: readonly PromptArgumentOptions[]; validate?: Validate } {
  if (inputSchema && list) {
    throw new McpHandlerDefinitionError(origin, 'it has both "inputSchema" and "arguments". Remove one of them.');
  }
  if (!inputSchema) return list ? { list, validate: (raw) => withRequired(list, raw) } : {};
  const { json, validate } = compiler.compile(inputSchema, 'input', origin, { classes });
  if (json.properties === undefined && ['oneOf', 'anyOf', 'allOf'].some((key) => key in json)) {
    throw new McpHandlerDefinitionError(
      origin,
      'its "inputSchema" has alternatives instead of properties, which cannot be listed as arguments of a prompt.',
    );
  }
  assertTexts(json, validate, origin);
  return { list: listOf(json), validate };
}

/**
 * Matches the message of a validator that refuses a text because it is one; other problems of the tried value do not
 * matter.
 */
const REFUSES_TEXTS = /received string|must be (?:an? )?(?:number|integer|boolean|object|array)/i;

/**
 * Checks that arguments can be texts: clients send the arguments of a prompt as texts.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/prompts#getting-a-prompt
 * @throws McpHandlerDefinitionError for an argument that would refuse each text
 */
function assertTexts({ properties = {} }: JsonSchema, validate: Validate, origin: string): void {
  for (const [name, property] of Object.entries(properties as Record<string, { type?: unknown } | undefined>)) {
    const type = property?.type;
    if (typeof type !== 'string' || type === 'string' || !refusesTexts(name, validate)) continue;
    const reason = `its argument "${name}" is of the type "${type}", but clients send the arguments of a prompt as texts, so that each call would fail. Convert them: z.coerce.number(), z.stringbool(), or z.string().transform(…); in a class @Type(() => Number).`;
    throw new McpHandlerDefinitionError(origin, reason);
  }
}

function refusesTexts(name: string, validate: Validate): boolean {
  try {
    const checked = validate({ [name]: '1' });
    if (checked instanceof Promise) void checked.catch(() => {});
    return false;
  } catch (error) {
    const { problems = [] } = error as Partial<McpArgumentsError>;
    return problems.some(({ path, message }) => path === name && REFUSES_TEXTS.test(message));
  }
}

/** Returns the properties of an object schema as the arguments of a prompt. */
function listOf({ properties = {}, required = [] }: JsonSchema): PromptArgumentOptions[] {
  return Object.entries(properties as Record<string, unknown>).map(([name, property]) => {
    const { title, description } = (property ?? {}) as { title?: string; description?: string };
    return { name, title, description, required: (required as string[]).includes(name) };
  });
}

/** Checks that the required arguments are there. @throws McpArgumentsError */
function withRequired(list: readonly PromptArgumentOptions[], raw: unknown): unknown {
  const missing = list.filter(({ name, required }) => required && !Object.hasOwn(raw as object, name));
  if (missing.length === 0) return raw;
  throw new McpArgumentsError(missing.map(({ name }) => ({ path: name, message: 'is missing' })));
}

/** Returns the reader of the options of a handler, for plugins. */
export function optionsOf(options: object): (name: string) => unknown {
  return (name) => (Object.hasOwn(options, name) ? (options as Record<string, unknown>)[name] : undefined);
}

type ListedType = 'Tool' | 'Resource' | 'ResourceTemplate' | 'Prompt';

/**
 * Returns what lists show of a handler, exactly as it is sent: fields without a value are absent.
 *
 * @throws McpHandlerDefinitionError when it does not match the specification: one such entry would break a whole list
 */
function wireOf<T extends object>(type: ListedType, fields: T, origin: string): Readonly<T> {
  const wire = frozenJson(fields);
  const { problem } = checkedBySpec(type, wire);
  if (!problem) return wire;
  const reason = `it does not match the specification of a ${type}: ${problemsText([problem])}.`;
  throw new McpHandlerDefinitionError(origin, reason);
}

/** Shows an example of each option by which clients know a handler. */
const EXAMPLES: Readonly<Record<string, string>> = {
  name: 'Give it a name by which clients and models know it, such as "find_order".',
  uri: 'Give it an absolute URI, such as "orders://terms".',
  uriTemplate: 'Give it a template with a variable, such as "orders://{id}".',
};

/** Checks the name of a handler. @throws McpHandlerDefinitionError */
function assertName(option: string, value: unknown, origin: string): asserts value is string {
  if (typeof value === 'string' && value.trim().length > 0) return;
  const remedy = EXAMPLES[option] ?? `Set "${option}".`;
  throw new McpHandlerDefinitionError(
    origin,
    `its "${option}" must be a non-empty string; got ${shown(value)}. ${remedy}`,
  );
}

function cacheOf(cache: McpCacheHints | undefined, origin: string): { cache?: Readonly<McpCacheHints> } {
  if (cache === undefined) return {};
  try {
    return { cache: Object.freeze(resolveGroup(CACHE_TABLE, cache, 'cache')) };
  } catch (cause) {
    const reason = `its "cache" must be { ttlMs, scope }, a whole number of at least 0 and "public" or "private"; got ${shown(cache)}.`;
    throw new McpHandlerDefinitionError(origin, reason, { cause });
  }
}

/** Parses a template. @throws McpHandlerDefinitionError, also for a template of RFC 6570 that cannot be matched */
function templateOf(uriTemplate: string, origin: string): UriTemplate {
  assertName('uriTemplate', uriTemplate, origin);
  try {
    const template = new UriTemplate(uriTemplate);
    assertVariables(template.variableNames);
    return template;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const text = `its "uriTemplate" ${shown(uriTemplate)} cannot be used: ${reason}.`;
    throw new McpHandlerDefinitionError(origin, text, { cause });
  }
}

/** Checks the variables of a template. @throws Error */
function assertVariables(names: readonly string[]): void {
  if (names.length === 0) throw new Error('it has no variables; use @Resource()');
  if (names.includes('uri')) throw new Error('the variable "uri" would hide the URI itself; rename it');
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new Error(`the variable "${twice}" occurs twice`);
}

/**
 * Returns completions by argument.
 *
 * @throws McpHandlerDefinitionError for an argument that is not there, or that another one completes
 */
function completionsOf(
  ref: string,
  known: readonly string[],
  { name }: ServedHandler,
  { completions = [], failures }: EntrySource,
): ReadonlyMap<string, Completion> {
  for (const completion of completions) {
    const { origin, argument } = completion;
    if (!known.includes(argument)) {
      const reason = `the ${ref} has no argument ${shown(argument)}. ${namesText(known)}`;
      throw new McpHandlerDefinitionError(origin, reason);
    }
    const first = completions.find((each) => each.argument === argument)!;
    if (first !== completion) {
      const reason = `the argument ${shown(argument)} of the ${ref} is already completed by ${first.origin}.`;
      throw new McpHandlerDefinitionError(origin, reason);
    }
  }
  return new Map(
    completions.map(({ origin, argument, propose }) => [argument, completionOf(propose, { name, origin, failures })]),
  );
}

/** One response has at most so many proposals, according to the specification. */
const MAX_VALUES = 100;

/**
 * Returns a completion in the form of the protocol.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion
 */
export function completionOf(
  propose: CompletionSource,
  { name, origin, failures }: Omit<ServedHandler, 'kind'>,
): Completion {
  return async (value, others, context) => {
    try {
      return limited(await propose(value, others, context));
    } catch (error) {
      const report = reportOf({ origin, context });
      throw toReadFailure(error, { kind: 'prompt', name, failures, request: context.request, report });
    }
  };
}

/** Returns the first values. @throws TypeError unless they are a list of texts */
function limited(returned: unknown): CompleteResult['completion'] {
  const list = Array.isArray(returned) ? { values: returned, total: returned.length } : returned;
  const { values, total, hasMore } = (list ?? {}) as Partial<CompleteResult['completion']>;
  const count = values?.length ?? 0;
  const completion = {
    values: values?.slice(0, MAX_VALUES),
    total: total ?? undefined,
    hasMore: count > MAX_VALUES || (hasMore ?? (total ?? 0) > count),
  };
  if (!checkedBySpec('CompleteResult', { completion }).problem) return completion as CompleteResult['completion'];
  throw new TypeError(
    `A completion must return an array of strings, or { values, total, hasMore }; it returned ${shown(returned)}.`,
  );
}
