import { Body, createParamDecorator, type PipeTransform, type Type } from '@nestjs/common';
import { McpExecutionContext } from '../../calls/mcp-execution-context.js';

/**
 * Nest stores what its decorators for parameters declare under this key. It is the same since Nest 4, but not all versions export it
 * from the same place; specs check it.
 */
export const ROUTE_ARGUMENTS = '__routeArguments__';

type ParamPipe = Type<PipeTransform> | PipeTransform;

/**
 * Injects the arguments of the call, or one of them, after validation by the handler's schema.
 *
 * Pipes work as with `@Body()`: those of the app, the class and the method run, `ValidationPipe` with the type of the
 * parameter, then those given here.
 *
 * ```ts
 * find(@McpArgs() { id }: FindOrderDto) { … }
 * list(@McpArgs('limit', ParseIntPipe) limit: number) { … }
 * ```
 *
 * @param field the name of one argument; without it, all of them
 * @publicApi
 */
export function McpArgs(...pipes: ParamPipe[]): ParameterDecorator;
export function McpArgs(field: string, ...pipes: ParamPipe[]): ParameterDecorator;
export function McpArgs(first?: string | ParamPipe, ...pipes: ParamPipe[]): ParameterDecorator {
  // `@Body()`, because `ValidationPipe` skips custom parameters, and Nest makes the pipes of its own decorators only.
  if (first === undefined) return Body();
  return typeof first === 'string' ? Body(first, ...pipes) : Body(first, ...pipes);
}

/** Makes the value of `@McpCtx()`; the parameter is recognised by this function. @internal */
export const contextFactory = (_data: unknown, context: Parameters<typeof McpExecutionContext.create>[0]): unknown =>
  McpExecutionContext.isMcp(context) ? McpExecutionContext.create(context).getContext() : undefined;

/**
 * Injects the {@link McpContext} of the call: its caller, its client and its signal. The value is `undefined` if the
 * method is called as a route.
 *
 * @publicApi
 */
export const McpCtx: () => ParameterDecorator = createParamDecorator(contextFactory);
