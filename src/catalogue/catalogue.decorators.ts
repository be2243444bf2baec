import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { count, type OptionTable, type Resolved, resolveGroup, timer } from '../core/common/options.js';
import type { MaybePromise } from '../core/common/promises.js';
import { McpExecutionContext } from '../core/calls/mcp-execution-context.js';
import { markClass } from '../core/handlers/decorators/handler.decorators.js';
import { McpArgs, McpCtx } from '../core/handlers/decorators/param.decorators.js';
import { McpHandlerDefinitionError } from '../core/handlers/handlers.errors.js';
import type { McpCatalogueTool } from './catalogue-tool.js';
import type { McpCaller } from '../core/calls/mcp-caller.js';

/** Limits what is kept of a catalogue, on each node. @publicApi */
export interface McpCatalogueOptions {
  /**
   * Limits the milliseconds that `list()` may take. Then the caller gets only the other tools of the endpoint. With a
   * higher value a `list()` that hangs delays `tools/list`, and calls of its tools, for longer.
   *
   * @default 10000 (10 seconds)
   */
  listTimeoutMs?: number;
  /** Limits the number of tools in a list. Further tools are left out, and the log says so. @default 1000 */
  maxTools?: number;
  /**
   * Limits the number of lists that are kept: one for each caller, with its scopes and the parameters of its path. The
   * list that has been unused for longest is dropped first. With a higher value lists use more memory, and `list()` is
   * called less often.
   *
   * @default 1000
   */
  maxPrincipals?: number;
  /**
   * Sets the milliseconds after which `list()` is called again, if `McpRegistry.changed()` has not dropped the list.
   * With a lower value clients see changes sooner that were not announced.
   *
   * @default 300000 (5 minutes)
   */
  ttlMs?: number;
}

const CATALOGUE_TABLE = {
  listTimeoutMs: timer(10_000),
  maxTools: count(1_000),
  maxPrincipals: count(1_000),
  ttlMs: count(300_000),
} satisfies OptionTable<McpCatalogueOptions>;

export type ResolvedCatalogueOptions = Resolved<typeof CATALOGUE_TABLE>;

/** A class with `@McpCatalogue()` has these methods. @internal */
export interface CatalogueProvider {
  list(caller: McpCaller): MaybePromise<readonly McpCatalogueTool[]>;
  // oxlint-disable-next-line typescript/no-explicit-any -- decorators decide what the parameters are
  call(...params: any[]): unknown;
}

/** Marks the class of a catalogue, with its {@link ResolvedCatalogueOptions}. */
export const CATALOGUE = 'catalogue';

/**
 * Makes a provider list tools for each caller, and call them: for tools that are data, such as plugins, connectors, or actions that a
 * customer has made.
 *
 * ```diff
 * +@McpCatalogue()
 * +@Injectable()
 *  export class PluginTools {
 *    list({ principal }: McpCaller): Promise<McpCatalogueTool[]> {
 *      return this.plugins.toolsOf(principal);
 *    }
 *
 *    call(name: string, args: object, ctx: McpContext) {
 *      return this.plugins.run(ctx.principal, name, args);
 *    }
 *  }
 * ```
 *
 * Guards, interceptors, pipes and filters run around `call` as around a method with `@Tool()`. Its parameters are `(name, args, ctx)`, or
 * those with `@McpToolName()`, `@McpArgs()` and `@McpCtx()`. A guard that needs no arguments also decides which tools lists show.
 *
 * `list` is asked once for a caller. Its answer is kept until `McpRegistry.changed()`, for at most `ttlMs`. A tool that
 * is not in the list of the caller does not exist for it. A class inherits the decorator.
 *
 * @throws McpHandlerDefinitionError for options that cannot be used; at start for a class without the two methods
 * @publicApi
 */
export function McpCatalogue(
  options: McpCatalogueOptions = {},
): (target: abstract new (...args: never[]) => CatalogueProvider) => void {
  return (target) => {
    let resolved: ResolvedCatalogueOptions;
    try {
      resolved = resolveGroup(CATALOGUE_TABLE, options, '@McpCatalogue()');
    } catch (cause) {
      throw new McpHandlerDefinitionError(target.name, (cause as Error).message, { cause });
    }
    markClass(target, {
      feature: CATALOGUE,
      decorator: '@McpCatalogue()',
      methods: ['list', 'call'],
      serving: 'call',
      params: [McpToolName(), McpArgs(), McpCtx()],
      confirm: 'Give the tools that list() returns the option "confirm".',
      options: resolved,
    });
  };
}

/**
 * Injects the name of the tool that is called, into `call` of a class with `@McpCatalogue()`.
 *
 * @publicApi
 */
export const McpToolName: () => ParameterDecorator = createParamDecorator(
  (_data: unknown, context: ExecutionContext): string | undefined =>
    McpExecutionContext.isMcp(context) ? McpExecutionContext.create(context).getName() : undefined,
);
