import { Inject, Injectable, type Type } from '@nestjs/common';
import { ApplicationConfig, DiscoveryService, MetadataScanner, ModulesContainer } from '@nestjs/core';
import { MCP_OPTIONS } from '../../common/options.js';
import type { McpHandlerKind } from '../../calls/mcp-execution-context.js';
import { logger } from '../../calls/operator-log.js';
import { shown } from '../../protocol/errors.js';
import { isObject } from '../../protocol/json-rpc.js';
import { ToolCatalogues } from '../../../catalogue/tool-catalogues.js';
import { resourceOfView } from '../decorators/app-views.js';
import type { MethodOptions, PromptOptions, ToolOptions } from '../decorators/handler-options.js';
import { confirmOf, type HandlerDeclaration, toolsOf } from '../decorators/handler.decorators.js';
import { McpHandlerDefinitionError, namesText } from '../handlers.errors.js';
import { type ResolvedHandlerOptions } from '../handlers.options.js';
import {
  classOptionsOf,
  isConverted,
  isSerialized,
  isValidated,
  serializerOptionsOf,
} from '../invocation/enhancers.js';
import { HandlerInvokers } from '../invocation/handler-invokers.js';
import { type ArgumentParam, isRouteMethod, layoutOf, methodOf } from '../invocation/params.js';
import { pathNamesOf, routePathsOf, wildNamesOf } from '../../routes/route-paths.js';
import {
  type DeclaredCompletion,
  type EntrySource,
  methodEntry,
  promptEntry,
  resourceEntry,
  templateEntry,
  toolEntry,
} from '../registry/entries.js';
import { type HandlerEntry, HandlerTable } from '../registry/handler-table.js';
import { skillEntry, skillUri } from '../../../skills/skill-entry.js';
import type { DeclaredListing } from '../registry/template-listing.js';
import type { HandlerRunner } from '../results/handler-outcome.js';
import { type ArgumentJson, argumentsMadeBy, argumentsOfJson, assertTypes } from '../schema/argument-types.js';
import type { CompiledSchema, JsonSchema, Validate } from '../schema/handler-schema.js';
import { isClass, type RouteSchema, routeSchema } from '../../routes/route-schema.js';
import { type ClassOptions, MAX_UNSTOPPED_VALUES, SchemaCompiler } from '../schema/schema-compiler.js';
import { parameterDocs } from '../../routes/swagger.js';
import { type DeclaringProvider, EndpointMark, hostsOf, scanApp } from './app-scan.js';
import { RouteMiddleware } from '../../routes/route-middleware.js';
import { isReadRoute, routeToolOptions, serializeOptionsOf } from '../../routes/route-tools.js';

/** At most so many tools without a description are named. */
const NAMED = 20;

const TEXT: JsonSchema = { type: 'string' };
/** Describes the variable of a URI template; those of an exploded expression are lists. */
const VARIABLE: JsonSchema = { type: ['string', 'array'] };

/** One decorator on one method of one provider. */
interface Declared<Declaration extends HandlerDeclaration = HandlerDeclaration> {
  readonly host: DeclaringProvider;
  readonly methodName: string;
  /** `OrderTools.find (OrdersModule)` */
  readonly origin: string;
  readonly declaration: Declaration;
}

type CompletionDeclaration = Extract<HandlerDeclaration, { kind: 'completion' }>;
type ListingDeclaration = Extract<HandlerDeclaration, { kind: 'listing' }>;
type EntryDeclaration = Exclude<HandlerDeclaration, { kind: 'completion' | 'listing' }>;

interface TargetedListing extends DeclaredListing {
  readonly kind: 'template';
  readonly name: string;
}

interface TargetedCompletion extends DeclaredCompletion {
  readonly kind: 'prompt' | 'template';
  readonly name: string;
}

/**
 * Finds the handlers that decorators declare in an app, and puts those of one endpoint into its table.
 *
 * Modules that are loaded later (`LazyModuleLoader`) are not scanned; they register their handlers in `McpRegistry`.
 *
 * @internal
 */
@Injectable()
export class DeclaredHandlers {
  readonly #compiler = new SchemaCompiler();

  constructor(
    @Inject(DiscoveryService) private readonly discovery: DiscoveryService,
    @Inject(ModulesContainer) private readonly modules: ModulesContainer,
    @Inject(MetadataScanner) private readonly scanner: MetadataScanner,
    @Inject(EndpointMark) private readonly endpoint: EndpointMark,
    @Inject(HandlerInvokers) private readonly invokers: HandlerInvokers,
    @Inject(HandlerTable) private readonly table: HandlerTable,
    @Inject(MCP_OPTIONS) private readonly options: ResolvedHandlerOptions,
    @Inject(ApplicationConfig) private readonly config: ApplicationConfig,
    @Inject(ToolCatalogues) private readonly catalogues: Pick<ToolCatalogues, 'add'>,
    @Inject(RouteMiddleware) private readonly middleware: Pick<RouteMiddleware, 'assertRuns'>,
  ) {}

  /**
   * Loads the handlers. It is called once, when all providers exist and before the app listens.
   *
   * @throws McpHandlerDefinitionError, McpDuplicateHandlerError
   */
  load(): void {
    const hosts = hostsOf(this.endpoint, scanApp(this.discovery, this.modules, this.scanner));
    for (const host of hosts) if (host.catalogue) this.catalogues.add(host, host.catalogue);
    const declared = hosts.flatMap(declarationsIn);
    // Completions come first: an entry is made with the completions of its arguments, wherever they are declared.
    const completions = declared.filter(isCompletion).map((completion) => this.#completionOf(completion));
    const listings = declared.filter(isListing).map((listing) => this.#listingOf(listing));
    const entries = declared
      .filter(isEntry)
      .map((each) => ({ declared: each, entry: this.#entryOf(each, completions, listings) }));
    const served = entries.filter(({ entry }) => this.table.mayServe(entry));
    for (const { entry } of served) this.table.add(entry);
    this.#assertMiddleware(served.map((each) => each.declared));
    this.#logRemarks(
      served.map(({ entry }) => entry),
      entries.length - served.length,
    );
    for (const { kind, name, origin } of [...completions, ...listings]) {
      if (this.table.get(kind, name)) continue;
      const known = namesText(Array.from(this.table.all(kind), ({ key }) => key));
      const ref = kind === 'prompt' ? 'prompt' : 'resource template';
      throw new McpHandlerDefinitionError(origin, `there is no ${ref} "${name}" in its endpoint. ${known}`);
    }
  }

  /** @throws McpHandlerDefinitionError for a route whose middleware does not run for calls of its handler */
  #assertMiddleware(declared: readonly Declared<EntryDeclaration>[]): void {
    if (this.options.middleware === 'ignore') return;
    const checked = declared.filter(({ host, methodName, declaration }) => {
      const type = host.type as Type<object>;
      const isIgnored =
        declaration.kind === 'tool' && [declaration.options, toolsOf(type)].some((each) => each?.middleware);
      return isRouteMethod(methodOf(type.prototype as object, methodName)) && !isIgnored;
    });
    this.middleware.assertRuns(
      checked.map(({ host: { wrapper }, methodName, origin, declaration: { kind } }) => {
        return { wrapper, methodName, origin, isTool: kind === 'tool' };
      }),
    );
  }

  /** Logs what may be intended, and may be a mistake. */
  #logRemarks(served: readonly HandlerEntry[], leftOut: number): void {
    if (leftOut > 0) {
      logger.log(`${leftOut} tools without "readOnlyHint" are left out: their endpoint has the option "readOnly".`);
    }
    const silent = served.flatMap((entry) =>
      entry.kind === 'tool' && entry.wire.description === undefined ? [entry.key] : [],
    );
    // The doctor says so too.
    if (silent.length === 0 || this.options.doctor) return;
    const named = silent.length > NAMED ? [...silent.slice(0, NAMED), `and ${silent.length - NAMED} more`] : silent;
    logger.warn(
      `Models choose tools by their descriptions, and these have none: ${named.join(', ')}. Give @Tool({ description }), or @ApiOperation({ summary }) of @nestjs/swagger on a route.`,
    );
  }

  #completionOf(declared: Declared<CompletionDeclaration>): TargetedCompletion {
    const { options } = declared.declaration;
    const kind = 'prompt' in options ? 'prompt' : 'template';
    const name = 'prompt' in options ? options.prompt : options.template;
    const runner = this.#runner(declared, kind, name);
    const { origin } = declared;
    const propose: DeclaredCompletion['propose'] = (value, others, context) => runner.run({ value, others }, context);
    return { kind, name, argument: options.argument, origin, propose };
  }

  #listingOf(declared: Declared<ListingDeclaration>): TargetedListing {
    const name = declared.declaration.options.uriTemplate;
    const { origin } = declared;
    const known = { cursor: TEXT, limit: { type: 'number' } };
    this.#assertKnown(declared, known, 'The arguments of a list are "cursor" and "limit".');
    return { kind: 'template', name, origin, runner: this.#runner(declared, 'template', name) };
  }

  #entryOf(
    declared: Declared<EntryDeclaration>,
    completions: readonly TargetedCompletion[],
    listings: readonly TargetedListing[],
  ): HandlerEntry {
    const { origin, declaration } = declared;
    // Guards see a view or a skill as a resource, which it is.
    const kind = declaration.kind === 'view' || declaration.kind === 'skill' ? 'resource' : declaration.kind;
    const source = (name: string, route?: RouteSchema): EntrySource => ({
      origin,
      compiler: this.#compiler,
      failures: this.options,
      route,
      runner: (validate) => this.#runner(declared, kind, name, validate, route),
      classes: this.#classOptions(declared),
      results: this.#resultOptions(declared),
      completions: completions.filter((each) => each.kind === kind && each.name === name),
    });
    switch (declaration.kind) {
      case 'tool': {
        const options = this.#toolOptions(declared, declaration.options);
        const { name } = options;
        adviseOnName(name, origin);
        const route = this.#routeOf(declared, options);
        const known = route ? options : this.#withSchema(declared, 'Tool', options);
        const type = declared.host.type as Type<object>;
        const reads = isReadRoute(methodOf(type.prototype as object, declared.methodName));
        return toolEntry(known, { ...source(name ?? '', route), reads });
      }
      case 'resource':
        this.#assertKnown(declared, { uri: TEXT }, 'A resource has the one argument "uri".');
        return resourceEntry(declaration.options, source(declaration.options.uri));
      case 'view':
        return resourceEntry(resourceOfView(declaration.options, origin), source(declaration.options.uri));
      case 'template': {
        const { uriTemplate } = declaration.options;
        const [listing, second] = listings.filter(({ name }) => name === uriTemplate);
        if (second) {
          const reason = `the resources of "${uriTemplate}" are already listed by ${listing!.origin}.`;
          throw new McpHandlerDefinitionError(second.origin, reason);
        }
        const entry = templateEntry(declaration.options, { ...source(uriTemplate), listing });
        const variables = Object.fromEntries(entry.template.variableNames.map((name) => [name, VARIABLE]));
        this.#assertKnown(
          declared,
          { ...variables, uri: TEXT },
          'The arguments of a template are its variables and "uri".',
        );
        return entry;
      }
      case 'prompt':
        return promptEntry(this.#withSchema(declared, 'Prompt', declaration.options), source(declaration.options.name));
      case 'skill':
        this.#assertKnown(declared, { uri: TEXT }, 'A skill has the one argument "uri".');
        return skillEntry(declaration.options, source(skillUri(declaration.options)));
      case 'method':
        return methodEntry(this.#withParams(declared, declaration.options), source(declaration.options.method));
    }
  }

  /** Returns the options of a tool. Options of `@Tool()` have precedence over those that its route implies. */
  #toolOptions(declared: Declared, options: ToolOptions): ToolOptions {
    const { host, methodName, origin } = declared;
    const type = host.type as Type<object>;
    const method = methodOf(type.prototype as object, methodName);
    const confirm = confirmOf(type.prototype as object, methodName);
    if (confirm && options.confirm !== undefined) {
      const reason = 'it has @Confirm() and the option "confirm". Remove one of them.';
      throw new McpHandlerDefinitionError(origin, reason);
    }
    const { maxValues = this.#mostOfPipes(declared) } = options;
    const all = { ...options, ...(confirm && { confirm }), ...(maxValues !== undefined && { maxValues }) };
    return isRouteMethod(method) ? routeToolOptions(all, { host: type, method, methodName, origin }) : all;
  }

  /** Returns how many values arguments may have that a `ValidationPipe` checks: it looks for all problems. */
  #mostOfPipes({ host, methodName, origin }: Declared): number | undefined {
    const type = host.type as Type<object>;
    const method = methodOf(type.prototype as object, methodName)!;
    const { args } = layoutOf(type, methodName, origin);
    const isPiped = ({ type: taken, pipes }: (typeof args)[number]): boolean =>
      isClass(taken) && isValidated(this.config, type, method, pipes);
    return args.some(isPiped) ? MAX_UNSTOPPED_VALUES : undefined;
  }

  /** Returns the schema that is made of a route, if none was written for it. */
  #routeOf(declared: Declared, { inputSchema, maxValues, rename = {} }: ToolOptions): RouteSchema | undefined {
    const { host, methodName, origin } = declared;
    const type = host.type as Type<object>;
    const method = methodOf(type.prototype as object, methodName);
    const { args, isRoute, decorated } = layoutOf(type, methodName, origin);
    if (!method || !isRoute || inputSchema) return undefined;
    const { config, modules } = this;
    const paths = routePathsOf(type, method, { config, modules, wrapper: host.wrapper });
    const pathNames = pathNamesOf(paths);
    const params = decorated ? args : [];
    if (params.length === 0 && pathNames.size === 0) return undefined;
    return routeSchema(params, {
      origin,
      compiler: this.#compiler,
      pathNames,
      wildNames: wildNamesOf(paths),
      rename,
      piped: ({ pipes }) => isValidated(this.config, type, method, pipes),
      classes: ({ pipes }) => classOptionsOf(this.config, type, method, pipes),
      maxValues,
      documented: (place) => parameterDocs([method, type], place),
    });
  }

  #withParams(declared: Declared, { paramsSchema: inputSchema, ...options }: MethodOptions): MethodOptions {
    const decorator = 'McpMethod';
    return { ...options, paramsSchema: this.#withSchema(declared, decorator, { inputSchema }).inputSchema };
  }

  /**
   * Adds the schema of the arguments to options: the given one, or the class of the parameter that takes them.
   *
   * @throws McpHandlerDefinitionError when neither is there
   */
  #withSchema<Options extends Pick<ToolOptions, 'inputSchema'> | PromptOptions>(
    declared: Declared,
    decorator: string,
    options: Options,
  ): Options {
    const { host, methodName, origin } = declared;
    const { args, decorated } = layoutOf(host.type as Type, methodName, origin);
    const given = options.inputSchema;
    const [option, anything] =
      decorator === 'McpMethod'
        ? ['a schema', "{ type: 'object' }"]
        : ['an "inputSchema"', "inputSchema: { type: 'object' }"];
    const advice = `Give @${decorator}() ${option} with all arguments.`;
    // A parameter whose name the schema lacks would silently be undefined.
    const classes = this.#classOptions(declared);
    const named = decorator === 'McpMethod' ? 'schema' : 'inputSchema';
    if (given) {
      assertNamed(args, this.#compiler.compile(given, 'input', origin, { option: named, classes }), origin, advice);
      this.#assertTypes(declared, argumentsMadeBy(given));
    }
    const listed = 'arguments' in options ? options.arguments : undefined;
    if (listed) this.#assertKnown(declared, Object.fromEntries(listed.map(({ name }) => [name, TEXT])), advice);
    if (given || listed) return options;
    const refusal = (index: number, why: string, cause?: unknown): McpHandlerDefinitionError =>
      new McpHandlerDefinitionError(
        origin,
        `its parameter ${index} (counted from 0) takes the arguments of the call, but there is no schema for them, and the parameter type cannot replace it: ${why}. Give @${decorator}() ${option}, or type a parameter that takes all arguments with a class whose properties have decorators of class-validator. To accept any arguments: ${anything}.`,
        { cause },
      );
    const classed = args
      .filter(({ field, type }) => field === undefined && isClass(type))
      .toSorted((one, other) => one.index - other.index);
    const [typed] = classed;
    if (!typed) {
      const [untyped] = args;
      if (!untyped || !decorated) return options;
      throw refusal(
        untyped.index,
        'its decorator metadata names no class. The type may not be a class, may be imported as a type, or the build (esbuild, tsx) emits no decorator metadata',
      );
    }
    const inputSchema = typed.type as Type;
    const second = classed.find(({ type }) => type !== inputSchema);
    if (second) {
      const classes = `${inputSchema.name} and ${(second.type as Type).name}`;
      const reason = `its parameters ${typed.index} and ${second.index} (counted from 0) are all arguments, of the classes ${classes}, and one class is no schema for both. ${advice}`;
      throw new McpHandlerDefinitionError(origin, reason);
    }
    let compiled: CompiledSchema;
    try {
      compiled = this.#compiler.compile(inputSchema, 'input', origin, { classes });
    } catch (error) {
      throw refusal(typed.index, ((error as Error).cause as Error).message.replace(/\.$/, ''), error);
    }
    assertNamed(args, compiled, origin, advice);
    this.#assertTypes(declared, argumentsMadeBy(inputSchema));
    return { ...options, inputSchema };
  }

  /**
   * Checks parameters by the kind of handler.
   *
   * @throws McpHandlerDefinitionError for a parameter that is none of its arguments, or has another type
   */
  #assertKnown(declared: Declared, properties: Readonly<Record<string, JsonSchema>>, advice: string): void {
    const { host, methodName, origin } = declared;
    const json = { type: 'object', properties };
    assertNamed(layoutOf(host.type as Type, methodName, origin).args, { json }, origin, advice);
    this.#assertTypes(declared, argumentsOfJson(json));
  }

  /** @throws McpHandlerDefinitionError for a parameter of a type that its argument does not have */
  #assertTypes({ host, methodName, origin }: Declared, argument: ArgumentJson): void {
    const type = host.type as Type<object>;
    const method = methodOf(type.prototype as object, methodName)!;
    // A ValidationPipe converts what comes from a URL.
    const args = layoutOf(type, methodName, origin).args.filter(({ part }) => part === 'body');
    assertTypes(args, argument, ({ pipes }) => isConverted(this.config, type, method, pipes), origin);
  }

  /** Returns what pipes do to the class of the arguments. Global pipes count that were set before the app was initialized. */
  #classOptions({ host, methodName, origin }: Declared): ClassOptions {
    const type = host.type as Type<object>;
    const method = methodOf(type.prototype as object, methodName);
    if (!method) return {};
    const wholes = layoutOf(type, methodName, origin).args.filter(({ field }) => field === undefined);
    const atParams = wholes.flatMap(({ pipes }) => pipes);
    return classOptionsOf(this.config, type, method, atParams);
  }

  /** Returns how the class of the result is converted. */
  #resultOptions({ host, methodName }: Declared): ClassOptions {
    const type = host.type as Type<object>;
    const method = methodOf(type.prototype as object, methodName);
    if (!method) return {};
    const transform = { ...serializerOptionsOf(this.config, type, method), ...serializeOptionsOf(type, method) };
    return { transform, serialized: () => isSerialized(this.config, type, method) };
  }

  #runner(
    { host, methodName, origin }: Declared,
    kind: McpHandlerKind,
    name: string,
    validate?: Validate,
    route?: RouteSchema,
  ): HandlerRunner {
    const { listGuards } = this.options;
    const options = { kind, name, listGuards, validate, route };
    return this.invokers.create({ wrapper: host.wrapper, methodName, origin }, options);
  }
}

/**
 * Checks parameters by their names.
 *
 * @throws McpHandlerDefinitionError for a parameter that is an argument which a closed schema does not have
 */
function assertNamed(
  args: readonly ArgumentParam[],
  { json, fields }: Pick<CompiledSchema, 'json' | 'fields'>,
  origin: string,
  advice: string,
): void {
  const { properties, additionalProperties = false } = fields ? propertiesNamed(fields) : json;
  const open =
    additionalProperties !== false ||
    ['anyOf', 'oneOf', 'allOf', 'patternProperties', '$ref'].some((key) => key in json);
  if (open || !isObject(properties)) return;
  const unknown = args.find(({ field }) => field !== undefined && !Object.hasOwn(properties, field));
  if (!unknown) return;
  const reason = `its parameter ${unknown.index} (counted from 0) is the argument "${unknown.field}", which is not in its schema. ${namesText(Object.keys(properties))} ${advice}`;
  throw new McpHandlerDefinitionError(origin, reason);
}

const propertiesNamed = (names: readonly string[]): JsonSchema => ({
  type: 'object',
  properties: Object.fromEntries(names.map((name) => [name, {}])),
});

function declarationsIn(host: DeclaringProvider): Declared[] {
  return host.methods.flatMap(({ methodName, declarations }) => {
    const origin = `${host.type.name}.${methodName} (${host.module})`;
    const declared = declarations.map((declaration) => ({ host, methodName, origin, declaration }));
    // These methods are called with other parameters.
    const attached = declared.find((each) => !isEntry(each));
    if (attached && declared.some(({ declaration }) => declaration.kind !== attached.declaration.kind)) {
      const name = isCompletion(attached) ? '@Complete()' : '@ListResources()';
      throw new McpHandlerDefinitionError(
        origin,
        `it has ${name} and another MCP decorator. Give each its own method.`,
      );
    }
    return declared;
  });
}

function isCompletion(declared: Declared): declared is Declared<CompletionDeclaration> {
  return declared.declaration.kind === 'completion';
}

function isListing(declared: Declared): declared is Declared<ListingDeclaration> {
  return declared.declaration.kind === 'listing';
}

function isEntry(declared: Declared): declared is Declared<EntryDeclaration> {
  return !isCompletion(declared) && !isListing(declared);
}

/**
 * Logs names that the specification advises against: they are allowed, and some clients refuse them.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names
 */
function adviseOnName(name: string | undefined, origin: string): void {
  if (name === undefined || /^[\w.-]{1,128}$/.test(name)) return;
  logger.warn(
    `The tool ${origin} has the name ${shown(name)}. Some clients accept only names of 1 to 128 characters of A-Z a-z 0-9 _ - .`,
  );
}
