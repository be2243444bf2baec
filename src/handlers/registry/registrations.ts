import type { McpContext } from '../../context/mcp-context.js';
import type {
  CompletionValues,
  PromptOptions,
  ResourceArgs,
  ResourceOptions,
  ResourceTemplateArgs,
  ResourceTemplateOptions,
  ToolOptions,
} from '../decorators/handler-options.js';

/**
 * A handler that is registered at run time: a function instead of a method. It may return what a method may: a value, a
 * promise, an Observable or an async iterable of reports and one result.
 *
 * @publicApi
 */
export type HandlerFunction<Args> = (args: Args, context: McpContext) => unknown;

/** Proposes values for an argument, as a method with `@Complete()` does. @publicApi */
export type CompletionFunction = (
  value: string,
  others: Readonly<Record<string, string>>,
  context: McpContext,
) => CompletionValues | Promise<CompletionValues>;

/** A tool to be registered. @publicApi */
export interface ToolRegistration<Args = Record<string, unknown>> extends ToolOptions {
  handler: HandlerFunction<Args>;
}

/** A resource to be registered. @publicApi */
export interface ResourceRegistration extends ResourceOptions {
  handler: HandlerFunction<ResourceArgs>;
}

/** A resource template to be registered. @publicApi */
export interface ResourceTemplateRegistration<Args = ResourceTemplateArgs> extends ResourceTemplateOptions {
  handler: HandlerFunction<Args>;
  /** By variable of the template. */
  complete?: Readonly<Record<string, CompletionFunction>>;
}

/** A prompt to be registered. @publicApi */
export interface PromptRegistration<Args = Record<string, unknown>> extends PromptOptions {
  handler: HandlerFunction<Args>;
  /** By argument of the prompt. */
  complete?: Readonly<Record<string, CompletionFunction>>;
}

/** What was registered, to be changed or taken back. @publicApi */
export interface McpRegistration<Changes> {
  /** The name of the tool or prompt, the URI of the resource, the URI template of the template. */
  readonly key: string;
  /**
   * Puts new values in place of old ones; the entry keeps its place in the list. Calls that run go on with the old ones.
   *
   * @throws HandlerDefinitionError when the result cannot be served, or when it was removed; nothing has changed then
   */
  update(changes: Changes): void;
  /**
   * Takes it back. Calls that run go on.
   *
   * @returns whether it was still there
   */
  remove(): boolean;
}

/** A handler as the registry shows it. @publicApi */
export interface McpHandlerInfo<Wire = Readonly<Record<string, unknown>>> {
  readonly kind: 'tool' | 'resource' | 'template' | 'prompt';
  readonly key: string;
  /** `OrderTools.find (OrdersModule)`, or that it was registered at run time. */
  readonly origin: string;
  /** What lists show of it; frozen. */
  readonly wire: Wire;
  /** Whether guards decide who sees it. */
  readonly guarded: boolean;
}
