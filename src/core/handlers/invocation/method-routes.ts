import type { Type } from '@nestjs/common';
import type { ToolOptions } from '../decorators/handler-options.js';
import type { CompiledSchema } from '../schema/handler-schema.js';
import type { SchemaCompiler } from '../schema/schema-compiler.js';
import type { ProviderWrapper } from './enhancers.js';
import type { ArgumentsStrategy, Method } from './invocation.js';
import type { ParamLayout, ParamRules } from './params.js';

/** A method of a provider or controller. */
export interface ProviderMethod {
  readonly wrapper: ProviderWrapper;
  readonly host: Type<object>;
  readonly methodName: string;
  readonly method: Method;
  /** Names the method in messages, such as `OrderTools.find`. */
  readonly origin: string;
}

/** The schema of a tool's arguments that was made of its route, and what takes them. */
export interface MadeSchema extends Pick<CompiledSchema, 'json' | 'outdated'> {
  readonly strategy: ArgumentsStrategy;
}

/** What a route of a controller means for the handler that its method is. */
export interface MethodRoute {
  readonly params: ParamRules;
  /** Whether it is a GET or HEAD route. */
  readonly reads: boolean;
  /** Returns the options of its tool: the route provides those that are absent. @throws McpHandlerDefinitionError */
  toolOptions(options: ToolOptions): ToolOptions;
  /**
   * Makes the schema of its tool.
   *
   * @returns nothing for a route without arguments
   * @throws McpHandlerDefinitionError
   */
  schemaOf(
    layout: ParamLayout,
    options: Pick<ToolOptions, 'maxValues' | 'rename'>,
    compiler: SchemaCompiler,
  ): MadeSchema | undefined;
  /** Returns what takes the arguments of a schema that was written by hand. */
  strategyOf(layout: ParamLayout): ArgumentsStrategy;
}

/**
 * Finds the methods that are routes of controllers too. The room `routes` provides it: routes become handlers at the start, with
 * strategies of their own, and are called as all handlers are.
 */
export abstract class MethodRoutes {
  /** Returns the route that a method is. @throws McpHandlerDefinitionError for a route that cannot be a handler */
  abstract routeOf(method: ProviderMethod): MethodRoute | undefined;

  /**
   * Returns the methods of a class that are tools by `@Tools()` on it.
   *
   * @throws McpHandlerDefinitionError for a name that no route has, and for a class without routes
   */
  abstract toolsOf(
    type: object & { readonly name: string; readonly prototype: object },
    names: readonly string[],
  ): readonly string[];

  /** @throws McpHandlerDefinitionError for the first route whose middleware would not run for calls of its handler */
  abstract assertMiddlewareRuns(methods: readonly (ProviderMethod & { readonly isTool: boolean })[]): void;
}
