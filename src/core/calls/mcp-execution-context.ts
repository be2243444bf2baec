import type { ArgumentsHost, ExecutionContext } from '@nestjs/common';
import type { McpContext } from './mcp-context.js';
import type { McpHandlerKind } from './mcp-target.js';

export type { McpHandlerKind } from './mcp-target.js';

/**
 * The response that enhancers of a handler get has this property. An argument of its own would be a fourth one: `GqlExecutionContext`
 * would take the context of a handler for that of a resolver. The symbol is registered, as an app may hold two copies of this
 * package.
 *
 * @internal
 */
export const HANDLER_CALL: unique symbol = Symbol.for('nestjs-mcp-streamable:handler-call');

/** One call of a handler, for everything that Nest runs around it. @internal */
export interface McpHandlerCall {
  readonly context: McpContext;
  /** The arguments as the client sent them. */
  readonly args: unknown;
  readonly about: {
    readonly kind: McpHandlerKind;
    readonly name: string;
    /** The decorated method, not the function that Nest calls in its place. */
    readonly handler: McpHandlerFunction;
    /** The function that was registered at run time. */
    readonly given?: McpHandlerFunction;
    readonly host: HostClass;
  };
}

type McpHandlerFunction = ReturnType<ExecutionContext['getHandler']>;
type HostClass = ReturnType<ExecutionContext['getClass']>;

/**
 * Information about an MCP handler for guards, interceptors, filters and param decorators, in addition to that about
 * any route.
 *
 * The `ExecutionContext` itself is that of HTTP: `getType()` is `'http'`, `switchToHttp().getRequest()` is the request
 * after the guards of the endpoint have run, so that one guard serves controllers and handlers. Of a method that is a
 * route too it is a view of that request, whose `params`, `query` and `body` hold the arguments. This adds the rest:
 *
 * ```ts
 * canActivate(context: ExecutionContext) {
 *   const { user } = context.switchToHttp().getRequest();
 *   if (!McpExecutionContext.isMcp(context)) return user.mayUseTheSite;
 *   return user.tools.includes(McpExecutionContext.create(context).getName());
 * }
 * ```
 *
 * @publicApi
 */
export class McpExecutionContext {
  private constructor(private readonly call: McpHandlerCall) {}

  /**
   * @param context the context that a guard, interceptor, filter or param decorator receives
   * @throws Error when it is not that of an MCP handler
   */
  static create(context: ArgumentsHost): McpExecutionContext {
    const call = handlerCallOf(context);
    if (!call) {
      throw new Error(
        'McpExecutionContext.create() was given a context that is not of an MCP handler. A guard, interceptor or decorator that also serves HTTP routes must check McpExecutionContext.isMcp(context) first.',
      );
    }
    return new McpExecutionContext(call);
  }

  /** Returns whether the context is that of an MCP handler, not of a route. */
  static isMcp(context: ArgumentsHost): boolean {
    return handlerCallOf(context) !== undefined;
  }

  /** Returns the context that the handler itself gets by `@McpCtx()`. */
  getContext<HttpRequest = unknown>(): McpContext<HttpRequest> {
    return this.call.context as McpContext<HttpRequest>;
  }

  /**
   * The arguments **as the client sent them**: guards, and interceptors before they call `next.handle()`, run before
   * validation, as in every Nest app, so that a caller gets no validation errors of a tool that it may not call. Check
   * the values that you use. A resource has `{ uri }`, a resource template `{ uri, variables }`, the others the
   * properties of their schema.
   *
   * While a list is made there are no arguments: this method throws, the guard is skipped, and the entry is shown
   * unless another guard hides it. Do not catch the error.
   */
  getArgs<T = Record<string, unknown>>(): T {
    return this.call.args as T;
  }

  getKind(): McpHandlerKind {
    return this.call.about.kind;
  }

  /**
   * Returns the name of the tool, prompt or method, the URI of the resource, or the URI template of the resource
   * template.
   */
  getName(): string {
    return this.call.about.name;
  }

  /**
   * Returns the decorated method itself, or the function that was registered at run time. `ExecutionContext.getHandler()` returns a
   * function with the same metadata.
   */
  getHandler(): McpHandlerFunction {
    const { handler, given } = this.call.about;
    return given ?? handler;
  }

  /**
   * Returns the class of the provider, of a function that was registered at run time `McpRegistry`; also in filters, where Nest does not
   * provide it.
   */
  getClass(): HostClass {
    return this.call.about.host;
  }
}

function handlerCallOf(context: ArgumentsHost): McpHandlerCall | undefined {
  const response: unknown = context.getArgByIndex(1);
  if (typeof response !== 'object' || response === null) return undefined;
  return (response as { readonly [HANDLER_CALL]?: McpHandlerCall })[HANDLER_CALL];
}
