import { Inject, Injectable } from '@nestjs/common';
import { ApplicationConfig } from '@nestjs/core';
import { MCP_OPTIONS } from '../../common/options.js';
import type { McpHandlerKind } from '../../calls/mcp-execution-context.js';
import { logger } from '../../calls/operator-log.js';
import { shown } from '../../protocol/errors.js';
import { resourceOfView } from '../decorators/app-views.js';
import type { ToolOptions } from '../decorators/handler-options.js';
import { confirmOf, type HandlerDeclaration, toolsOf } from '../decorators/handler.decorators.js';
import { McpHandlerDefinitionError, namesText } from '../handlers.errors.js';
import { type ResolvedHandlerOptions } from '../handlers.options.js';
import { HandlerInvokers } from '../invocation/handler-invokers.js';
import { type MadeSchema, MethodRoutes } from '../invocation/method-routes.js';
import {
  type DeclaredCompletion,
  type EntrySource,
  featureEntry,
  methodEntry,
  promptEntry,
  resourceEntry,
  templateEntry,
  toolEntry,
} from '../registry/entries.js';
import { type HandlerEntry, HandlerTable } from '../registry/handler-table.js';
import type { DeclaredListing } from '../registry/template-listing.js';
import type { HandlerRunner } from '../results/handler-outcome.js';
import type { JsonSchema, Validate } from '../schema/handler-schema.js';
import { SchemaCompiler } from '../schema/schema-compiler.js';
import type { DeclaringProvider } from './app-scan.js';
import { EndpointClasses } from './endpoint-classes.js';
import { DeclaredMethod, TEXT } from './declared-method.js';

/** At most so many tools without a description are named. */
const NAMED = 20;

/** Describes the variable of a URI template; those of an exploded expression are lists. */
const VARIABLE: JsonSchema = { type: ['string', 'array'] };

/** One decorator on one method of one provider. */
interface Declared<Declaration extends HandlerDeclaration = HandlerDeclaration> {
  readonly on: DeclaredMethod;
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
    @Inject(EndpointClasses) private readonly classes: EndpointClasses,
    @Inject(HandlerInvokers) private readonly invokers: HandlerInvokers,
    @Inject(HandlerTable) private readonly table: HandlerTable,
    @Inject(MCP_OPTIONS) private readonly options: ResolvedHandlerOptions,
    @Inject(ApplicationConfig) private readonly config: ApplicationConfig,
    @Inject(MethodRoutes) private readonly routes: MethodRoutes,
  ) {}

  /**
   * Loads the handlers. It is called once, when all providers exist and before the app listens.
   *
   * @throws McpHandlerDefinitionError, McpDuplicateHandlerError
   */
  load(): void {
    const declared = this.classes.all.flatMap((host) => this.#declarationsIn(host));
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
    const checked = declared.filter(({ on, declaration }) => {
      return declaration.kind !== 'tool' || ![declaration.options, toolsOf(on.host)].some((each) => each?.middleware);
    });
    this.routes.assertMiddlewareRuns(
      checked.map(({ on: { wrapper, host, methodName, method, origin }, declaration: { kind } }) => {
        return { wrapper, host, methodName, method, origin, isTool: kind === 'tool' };
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

  #completionOf({ on, declaration: { options } }: Declared<CompletionDeclaration>): TargetedCompletion {
    const kind = 'prompt' in options ? 'prompt' : 'template';
    const name = 'prompt' in options ? options.prompt : options.template;
    const runner = this.#runner(on, kind, name);
    const propose: DeclaredCompletion['propose'] = (value, others, context) => runner.run({ value, others }, context);
    return { kind, name, argument: options.argument, origin: on.origin, propose };
  }

  #listingOf({ on, declaration }: Declared<ListingDeclaration>): TargetedListing {
    const name = declaration.options.uriTemplate;
    on.assertKnown({ cursor: TEXT, limit: { type: 'number' } }, 'The arguments of a list are "cursor" and "limit".');
    return { kind: 'template', name, origin: on.origin, runner: this.#runner(on, 'template', name) };
  }

  #entryOf(
    { on, declaration }: Declared<EntryDeclaration>,
    completions: readonly TargetedCompletion[],
    listings: readonly TargetedListing[],
  ): HandlerEntry {
    const { origin, route } = on;
    // Guards see a view, or a handler of a feature, as a resource.
    const kind = declaration.kind === 'view' || declaration.kind === 'feature' ? 'resource' : declaration.kind;
    const source = (name: string, made?: MadeSchema): EntrySource => ({
      origin,
      compiler: this.#compiler,
      failures: this.options,
      route: made,
      runner: (validate) => this.#runner(on, kind, name, validate, made),
      classes: on.classOptions,
      results: on.resultOptions,
      completions: completions.filter((each) => each.kind === kind && each.name === name),
    });
    switch (declaration.kind) {
      case 'tool': {
        const options = toolOptionsOf(on, declaration.options);
        const { name, inputSchema } = options;
        adviseOnName(name, origin);
        const made = inputSchema ? undefined : route?.schemaOf(on.layout, options, this.#compiler);
        const known = made ? options : on.withSchema('Tool', options, this.#compiler);
        return toolEntry(known, { ...source(name ?? '', made), reads: route?.reads ?? false });
      }
      case 'resource':
        on.assertKnown({ uri: TEXT }, 'A resource has the one argument "uri".');
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
        on.assertKnown({ ...variables, uri: TEXT }, 'The arguments of a template are its variables and "uri".');
        return entry;
      }
      case 'prompt': {
        const options = on.withSchema('Prompt', declaration.options, this.#compiler);
        return promptEntry(options, source(declaration.options.name));
      }
      case 'feature': {
        const { feature, options } = declaration;
        on.assertKnown({ uri: TEXT }, `A ${feature.name} has the one argument "uri".`);
        return featureEntry(feature, options, source(feature.uriOf(options)));
      }
      case 'method': {
        const { paramsSchema: inputSchema, ...options } = declaration.options;
        const { inputSchema: paramsSchema } = on.withSchema('McpMethod', { inputSchema }, this.#compiler);
        return methodEntry({ ...options, paramsSchema }, source(declaration.options.method));
      }
    }
  }

  #declarationsIn(host: DeclaringProvider): Declared[] {
    return host.methods.flatMap(({ methodName, declarations }) => {
      const on = new DeclaredMethod(host, methodName, this.config, this.routes);
      const declared = declarations.map((declaration) => ({ on, declaration }));
      // These methods are called with other parameters.
      const attached = declared.find((each) => !isEntry(each));
      if (attached && declared.some(({ declaration }) => declaration.kind !== attached.declaration.kind)) {
        const name = isCompletion(attached) ? '@Complete()' : '@ListResources()';
        throw new McpHandlerDefinitionError(
          on.origin,
          `it has ${name} and another MCP decorator. Give each its own method.`,
        );
      }
      return declared;
    });
  }

  #runner(
    on: DeclaredMethod,
    kind: McpHandlerKind,
    name: string,
    validate?: Validate,
    made?: MadeSchema,
  ): HandlerRunner {
    const { listGuards } = this.options;
    return this.invokers.create(on, { kind, name, listGuards, validate, strategy: made?.strategy });
  }
}

/** Returns the options of a tool. Options of `@Tool()` have precedence over those that its route implies. */
function toolOptionsOf(on: DeclaredMethod, options: ToolOptions): ToolOptions {
  const confirm = confirmOf(on.host.prototype as object, on.methodName);
  if (confirm && options.confirm !== undefined) {
    const reason = 'it has @Confirm() and the option "confirm". Remove one of them.';
    throw new McpHandlerDefinitionError(on.origin, reason);
  }
  const { maxValues = on.maxValues } = options;
  const all = { ...options, ...(confirm && { confirm }), ...(maxValues !== undefined && { maxValues }) };
  return on.route ? on.route.toolOptions(all) : all;
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
