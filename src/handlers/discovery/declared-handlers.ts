import { Logger, type Type } from '@nestjs/common';
import type { HandlerDeclaration } from '../decorators/handler-declaration.js';
import type { CompleteOptions, PromptOptions, ToolOptions } from '../definitions/handler-options.js';
import type { EntrySource } from '../entries/entry-source.js';
import { promptEntry } from '../entries/prompt-entry.js';
import { resourceEntry, templateEntry } from '../entries/resource-entry.js';
import { toolEntry } from '../entries/tool-entry.js';
import type { HandlerEntry, HandlerKind } from '../handler-entry.js';
import { HandlerDefinitionError } from '../handlers.errors.js';
import type { HandlerTable } from '../handler-table.js';
import { handlerMessages } from '../handlers.messages.js';
import type { ResolvedHandlerOptions } from '../handlers.options.js';
import type { HandlerInvoker, HandlerInvokers } from '../invocation/handler-invokers.js';
import { argumentParamsOf } from '../params/param-layout.js';
import { SchemaCompiler } from '../schema/schema-compiler.js';
import { scanApp, type DeclaringProvider, type NestApp } from './app-scan.js';
import { DeclaredCompletions } from './declared-completions.js';
import type { EndpointMark } from './marks.js';
import { hostsOf } from './membership.js';

export interface DeclaredHandlersParts {
  readonly app: NestApp;
  readonly endpoint: EndpointMark;
  readonly invokers: HandlerInvokers;
  readonly table: HandlerTable;
  readonly options: ResolvedHandlerOptions;
  /** The endpoint makes its servers itself and would not serve what is declared. */
  readonly ownServers: boolean;
}

/** One decorator on one method of one provider. */
interface Declared<Declaration extends HandlerDeclaration = HandlerDeclaration> {
  readonly host: DeclaringProvider;
  readonly methodName: string;
  /** `OrderTools.find (OrdersModule)` */
  readonly origin: string;
  readonly declaration: Declaration;
}

type DeclaredEntry = Declared<Exclude<HandlerDeclaration, { kind: 'completion' }>>;
type DeclaredCompletion = Declared<Extract<HandlerDeclaration, { kind: 'completion' }>>;

/**
 * Finds the handlers that decorators declare in an app, and puts those of one endpoint into its table.
 *
 * Modules that are loaded later (`LazyModuleLoader`) are not looked at; what they have is registered in `McpRegistry`.
 */
export class DeclaredHandlers {
  readonly #compiler = new SchemaCompiler();
  readonly #completions = new DeclaredCompletions();

  constructor(private readonly parts: DeclaredHandlersParts) {}

  /**
   * To be called once, when all providers are there, and before the app listens.
   *
   * @throws HandlerDefinitionError, DuplicateHandlerError
   */
  load(): void {
    const { app, endpoint, table, ownServers } = this.parts;
    const declared = hostsOf(endpoint, scanApp(app)).flatMap(declarationsIn);
    if (ownServers && declared[0]) throw new HandlerDefinitionError(declared[0].origin, handlerMessages.ownServers());
    // Completions first: an entry is made with those of its arguments, wherever they are declared.
    for (const completion of declared.filter(isCompletion)) this.#addCompletion(completion);
    for (const entry of declared.filter(isEntry)) table.add(this.#entryOf(entry));
    this.#completions.assertUsed(table);
  }

  #addCompletion(declared: DeclaredCompletion): void {
    const { options } = declared.declaration;
    const [kind, name] = targetOf(options);
    const invoker = this.#invoker(declared, kind, name);
    this.#completions.add(kind, name, options.argument, {
      origin: declared.origin,
      failures: this.parts.options,
      source: (value, others, context) => invoker.run({ value, others }, context),
    });
  }

  #entryOf({ declaration, ...declared }: DeclaredEntry): HandlerEntry {
    const { origin } = declared;
    const source = (kind: HandlerKind, name: string): EntrySource => ({
      origin,
      compiler: this.#compiler,
      failures: this.parts.options,
      runner: (validate) => this.#invoker(declared, kind, name, validate),
    });
    switch (declaration.kind) {
      case 'tool':
        adviseOnName(declaration.options.name, origin);
        return toolEntry(this.#withSchema(declared, declaration), source('tool', declaration.options.name));
      case 'resource':
        return resourceEntry(declaration.options, source('resource', declaration.options.uri));
      case 'template': {
        const { uriTemplate } = declaration.options;
        const completions = this.#completions.of('template', uriTemplate);
        return templateEntry(declaration.options, source('template', uriTemplate), completions);
      }
      case 'prompt': {
        const { name } = declaration.options;
        return promptEntry(
          this.#withSchema(declared, declaration),
          source('prompt', name),
          this.#completions.of('prompt', name),
        );
      }
    }
  }

  /**
   * A handler that takes arguments says which: by its schema, or by the class of the parameter that they come in.
   *
   * @throws HandlerDefinitionError when neither is there
   */
  #withSchema<Options extends ToolOptions | PromptOptions>(
    { host, methodName, origin }: Omit<Declared, 'declaration'>,
    { kind, options }: { kind: 'tool' | 'prompt'; options: Options },
  ): Options {
    if (options.inputSchema || ('arguments' in options && options.arguments)) return options;
    const params = argumentParamsOf(host.type as Type, methodName, origin);
    const typed = params.find(({ field, type }) => field === undefined && isClass(type));
    if (!typed) {
      const [first] = params.filter(({ decorated }) => decorated);
      if (!first) return options;
      const why = handlerMessages.noParamType();
      throw new HandlerDefinitionError(origin, handlerMessages.noInputSchema(DECORATORS[kind], first.index, why));
    }
    const inputSchema = typed.type as Type;
    try {
      this.#compiler.compile(inputSchema, 'input', { origin, option: 'inputSchema' });
    } catch (error) {
      const why = ((error as Error).cause as Error).message.replace(/\.$/, '');
      const reason = handlerMessages.noInputSchema(DECORATORS[kind], typed.index, why);
      throw new HandlerDefinitionError(origin, reason, { cause: error });
    }
    return { ...options, inputSchema };
  }

  #invoker(
    { host, methodName, origin }: Omit<Declared, 'declaration'>,
    kind: HandlerKind,
    name: string,
    validate?: (raw: unknown) => unknown,
  ): HandlerInvoker {
    const { invokers, options } = this.parts;
    const { listGuards } = options;
    const method = { wrapper: host.wrapper, methodName, origin };
    return invokers.create(method, { kind, name, listGuards, ...(validate && { validate }) });
  }
}

const DECORATORS = { tool: 'Tool', prompt: 'Prompt' } as const;

/** What TypeScript leaves behind for types that are not written as classes. */
const NO_CLASSES: readonly unknown[] = [Object, String, Number, Boolean, Array, Function, Symbol, BigInt, Promise];

function isClass(type: unknown): boolean {
  return typeof type === 'function' && !NO_CLASSES.includes(type);
}

function declarationsIn(host: DeclaringProvider): Declared[] {
  return host.methods.flatMap(({ methodName, declarations }) => {
    const origin = `${host.type.name}.${methodName} (${host.module})`;
    const completions = declarations.filter(({ kind }) => kind === 'completion');
    // They are called with other parameters.
    if (completions.length > 0 && completions.length < declarations.length) {
      throw new HandlerDefinitionError(origin, handlerMessages.mixedCompletion());
    }
    return declarations.map((declaration) => ({ host, methodName, origin, declaration }));
  });
}

function isCompletion(declared: Declared): declared is DeclaredCompletion {
  return declared.declaration.kind === 'completion';
}

function isEntry(declared: Declared): declared is DeclaredEntry {
  return !isCompletion(declared);
}

function targetOf(options: CompleteOptions): ['prompt' | 'template', string] {
  return 'prompt' in options ? ['prompt', options.prompt] : ['template', options.template];
}

const USUAL_NAME = /^[\w.-]{1,128}$/;

/**
 * Other names are allowed, and some clients refuse them.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names
 */
function adviseOnName(name: string, origin: string): void {
  if (!USUAL_NAME.test(name)) new Logger('McpStreamable').warn(handlerMessages.unusualToolName(origin, name));
}
