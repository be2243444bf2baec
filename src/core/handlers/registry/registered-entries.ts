import { type CanActivate, type ExecutionContext, Inject, Injectable, type Type } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { MCP_OPTIONS } from '../../common/options.js';
import type { McpContext } from '../../calls/mcp-context.js';
import { McpExecutionContext } from '../../calls/mcp-execution-context.js';
import { shown } from '../../protocol/errors.js';
import { callerOf, type McpCaller } from '../../calls/mcp-caller.js';
import type { BareHandler } from '../../plugins/handler-source.js';
import type { ListedKind } from '../../plugins/mcp-plugin.js';
import type {
  CompletionValues,
  McpListedResources,
  McpListResourcesArgs,
  PromptOptions,
  ResourceArgs,
  ResourceOptions,
  ResourceTemplateArgs,
  ResourceTemplateOptions,
  ToolOptions,
} from '../decorators/handler-options.js';
import { McpHandlerDefinitionError } from '../handlers.errors.js';
import type { FailureOptions, McpHandlerOptions, ToolResultOptions } from '../handlers.options.js';
import { HandlerInvokers, type MethodInvoker } from '../invocation/handler-invokers.js';
import type { HandlerRunner } from '../results/handler-outcome.js';
import type { Validate } from '../schema/handler-schema.js';
import { SchemaCompiler } from '../schema/schema-compiler.js';
import { SharedSchemas } from '../schema/shared-schemas.js';
import { type EntrySource, promptEntry, resourceEntry, templateEntry, toolEntry } from './entries.js';
import { HandlerTable, type ListedEntry, type ToolEntry } from './handler-table.js';

/**
 * A handler that is registered at run time is a function instead of a method. It may return what a method may: a value, a
 * promise, an Observable or an async iterable of reports and one result.
 *
 * @publicApi
 */
export type McpHandlerFunction<Args> = (args: Args, context: McpContext) => unknown;

/** Proposes values for an argument, as a method with `@Complete()` does. @internal */
export type CompletionFunction = (
  value: string,
  others: Readonly<Record<string, string>>,
  context: McpContext,
) => CompletionValues | Promise<CompletionValues>;

/** Decides who sees and calls what is registered. @internal */
export interface McpHandlerAccess {
  /**
   * Guards, after those of the app: instances, or classes that a module provides. A guard that needs no arguments also decides whether
   * lists show the handler.
   *
   * @default those of the app alone
   */
  guards?: readonly (CanActivate | Type<CanActivate>)[];
  /**
   * Decides whether the handler exists for a caller: lists do not show it to others, and a call of theirs is answered as if it did not
   * exist.
   *
   * @default it exists for all
   */
  visible?: (caller: McpCaller) => boolean | Promise<boolean>;
}

/** A tool to be registered. @publicApi */
export interface McpToolRegistration<Args = Record<string, unknown>> extends ToolOptions, McpHandlerAccess {
  name: string;
  handler: McpHandlerFunction<Args>;
}

/** A resource to be registered. @publicApi */
export interface McpResourceRegistration extends ResourceOptions, McpHandlerAccess {
  handler: McpHandlerFunction<ResourceArgs>;
}

/** A resource template to be registered. @publicApi */
export interface McpResourceTemplateRegistration<Args = ResourceTemplateArgs>
  extends ResourceTemplateOptions, McpHandlerAccess {
  handler: McpHandlerFunction<Args>;
  /** Lists the resources of the template for a caller, as a method with `@ListResources()` does. */
  list?: (args: McpListResourcesArgs, context: McpContext) => McpListedResources | Promise<McpListedResources>;
  /** Completions are found by variable of the template. */
  complete?: Readonly<Record<string, CompletionFunction>>;
}

/** A prompt to be registered. @publicApi */
export interface McpPromptRegistration<Args = Record<string, unknown>> extends PromptOptions, McpHandlerAccess {
  handler: McpHandlerFunction<Args>;
  /** Completions are found by argument of the prompt. */
  complete?: Readonly<Record<string, CompletionFunction>>;
}

/** Maps a kind to what can be registered. */
export interface Registrations {
  tool: McpToolRegistration<never>;
  resource: McpResourceRegistration;
  template: McpResourceTemplateRegistration<never>;
  prompt: McpPromptRegistration<never>;
}

/** Names the option that is the key of an entry. */
export const KEYS = { tool: 'name', resource: 'uri', template: 'uriTemplate', prompt: 'name' } as const;

const ENTRIES: {
  readonly [Kind in ListedKind]: (registration: Registrations[Kind], source: EntrySource) => ListedEntry;
} = { tool: toolEntry, resource: resourceEntry, template: templateEntry, prompt: promptEntry };

type RegistryOptions = FailureOptions & ToolResultOptions & Pick<McpHandlerOptions, 'listGuards'>;

/** Makes entries of handlers that are data and functions. */
@Injectable()
export class RegisteredEntries {
  readonly #schemas = new SharedSchemas();

  constructor(
    @Inject(HandlerTable) private readonly table: HandlerTable,
    @Inject(MCP_OPTIONS) private readonly failures: RegistryOptions,
    @Inject(HandlerInvokers) private readonly invokers: HandlerInvokers,
    @Inject(ModuleRef) private readonly module: ModuleRef,
  ) {}

  /**
   * Makes an entry of a registration.
   *
   * @param owner enhancers see its class as that of the handler
   * @param source where it is from, if not from the registry
   * @throws McpHandlerDefinitionError
   */
  make<Kind extends ListedKind>(
    kind: Kind,
    registration: Registrations[Kind],
    owner: object,
    source?: string,
  ): ListedEntry {
    const {
      handler,
      complete = {},
      list,
      guards,
      visible,
    } = registration as McpToolRegistration<never> & Pick<McpResourceTemplateRegistration<never>, 'complete' | 'list'>;
    const name = Reflect.get(registration, KEYS[kind]) as string;
    const origin = `${kind} ${shown(name)} (${source ?? 'registered at run time'})`;
    const bare = source !== undefined && isBare(handler) ? handler : undefined;
    if (!bare && typeof handler !== 'function') {
      throw new McpHandlerDefinitionError(origin, `its "handler" must be a function; got ${shown(handler)}.`);
    }
    const about = { kind, name, origin, owner };
    const runner = (run: McpHandlerFunction<never>, validate?: Validate): HandlerRunner =>
      this.#runnerOf(run, { ...about, access: { guards, visible }, validate });
    return ENTRIES[kind](registration, {
      failures: this.failures,
      results: { serialized: () => this.invokers.isSerialized() },
      // One that is bare is the same for all callers: its key identifies it.
      source: bare ? undefined : source,
      origin,
      // The compiler is collected together with the entry.
      compiler: new SchemaCompiler(),
      runner: (validate) => (bare ? runnerOf(bare) : runner(handler, validate)),
      ...(list && { listing: { origin, runner: runner(list) } }),
      completions: Object.entries(complete).map(([argument, propose]) => {
        // The guards of the entry have decided before.
        const proposes = ({ value, others }: Proposed, context: McpContext): unknown => propose(value, others, context);
        const completion = this.#runnerOf(proposes, { ...about, access: {} });
        return {
          origin,
          argument,
          propose: (value, others, context) => completion.run({ value, others }, context),
        };
      }),
    });
  }

  /**
   * Makes a tool of a source that is data, a JSON Schema included, and is served by a method.
   *
   * @param about `origin` names it in messages, `source` where it is from
   * @throws McpHandlerDefinitionError when the endpoint cannot serve it, and what plugins throw
   */
  toolOf(options: ToolOptions, invoker: MethodInvoker, about: { origin: string; source: string }): ToolEntry {
    const entry = toolEntry(options, {
      ...about,
      compiler: this.#schemas,
      failures: this.failures,
      runner: (validate) => invoker.named(options.name!, validate),
    });
    this.table.assertServable(entry);
    return entry;
  }

  /** Makes the runner of a function. @throws McpHandlerDefinitionError */
  #runnerOf(
    handler: McpHandlerFunction<never>,
    { kind, name, origin, owner, access, validate }: RegisteredRunner,
  ): HandlerRunner {
    const { listGuards } = this.failures;
    const registered = {
      handler: handler as (...params: unknown[]) => unknown,
      guards: guardsOf(access, origin, this.module),
      owner,
      origin,
    };
    return this.invokers.createOf(registered, { kind, name, validate, ...(listGuards && { listGuards }) });
  }
}

function isBare(handler: unknown): handler is BareHandler {
  return typeof handler === 'object' && handler !== null && 'admits' in handler;
}

function runnerOf(handler: BareHandler): HandlerRunner {
  return {
    guarded: handler.guarded,
    run: (args, context) => handler.run(args as Readonly<Record<string, unknown>>, context),
    visible: () => true,
    admits: async (args, context) => handler.admits(args as Readonly<Record<string, unknown>>, context),
    assertAdmits: () => Promise.resolve(),
    permits: () => true,
    assertPermits: () => {},
  };
}

interface RegisteredRunner {
  readonly kind: ListedKind;
  readonly name: string;
  readonly origin: string;
  readonly owner: object;
  readonly access: McpHandlerAccess;
  readonly validate?: Validate | undefined;
}

interface Proposed {
  readonly value: string;
  readonly others: Readonly<Record<string, string>>;
}

/** Returns the guards of a registration. @throws McpHandlerDefinitionError */
function guardsOf({ guards = [], visible }: McpHandlerAccess, origin: string, module: ModuleRef): CanActivate[] {
  if (!Array.isArray(guards)) {
    throw new McpHandlerDefinitionError(origin, `its "guards" must be an array; got ${shown(guards)}.`);
  }
  if (visible !== undefined && typeof visible !== 'function') {
    throw new McpHandlerDefinitionError(origin, `its "visible" must be a function; got ${shown(visible)}.`);
  }
  const made = guards.map((guard: CanActivate | Type<CanActivate>): CanActivate => {
    if (typeof guard === 'function') return provided(guard, origin, module);
    if (typeof (guard as Partial<CanActivate> | undefined)?.canActivate === 'function') return guard;
    const reason = `each of its "guards" must be a class, or an object with "canActivate"; got ${shown(guard)}.`;
    throw new McpHandlerDefinitionError(origin, reason);
  });
  if (!visible) return made;
  const canActivate = (context: ExecutionContext): boolean | Promise<boolean> => {
    const { mcpCall, request } = McpExecutionContext.create(context).getContext();
    const { principal, routeParams } = mcpCall;
    return visible(callerOf({ principal, request, routeParams }));
  };
  return [...made, { canActivate }];
}

/** Returns the guard of a class that a module provides. It may not be made yet. @throws McpHandlerDefinitionError */
function provided(type: Type<CanActivate>, origin: string, module: ModuleRef): CanActivate {
  const guard = (): CanActivate => module.get(type, { strict: false });
  try {
    guard();
  } catch (cause) {
    const reason = `its guard ${type.name} cannot be used: ${(cause as Error).message} Put it into the "providers" of a module as a singleton, or give an instance.`;
    throw new McpHandlerDefinitionError(origin, reason, { cause });
  }
  return { canActivate: (context) => guard().canActivate(context) };
}
