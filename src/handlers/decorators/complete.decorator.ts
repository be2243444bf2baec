import type { CompleteOptions } from '../definitions/handler-options.js';
import { ROUTE_ARGUMENTS } from '../invocation/nest-metadata.js';
import { McpArgs, McpCtx } from '../params/mcp-params.decorators.js';
import { declareHandler } from './handler-declaration.js';

/**
 * Makes a method propose values for an argument of a prompt, or a variable of a resource template, of the same endpoint.
 * It is called with `(value, others, ctx)`: what the user has typed, the arguments that are known already, the context.
 * It returns {@link CompletionValues} or a promise of them; the first 100 are sent. With param decorators, `value` and
 * `others` are its arguments: `@McpArgs('value')`.
 *
 * ```ts
 * @Complete({ prompt: 'review', argument: 'language' })
 * languages(value: string): string[] {
 *   return LANGUAGES.filter((language) => language.startsWith(value));
 * }
 * ```
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion
 * @publicApi
 */
export function Complete(options: CompleteOptions): MethodDecorator {
  const declare = declareHandler('Complete', { kind: 'completion', options });
  return (target, key, descriptor) => {
    declare(target, key, descriptor);
    // Decorators of parameters run first, so it is known whether there are any.
    const decorated = Reflect.getMetadata(ROUTE_ARGUMENTS, target.constructor, key) as object | undefined;
    if (decorated && Object.keys(decorated).length > 0) return;
    McpArgs('value')(target, key, 0);
    McpArgs('others')(target, key, 1);
    McpCtx()(target, key, 2);
  };
}
