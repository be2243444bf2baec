import type { PromptOptions } from '../definitions/handler-options.js';
import { declareHandler } from './handler-declaration.js';

/**
 * Makes a method a prompt. It is called with `(args, ctx)`.
 *
 * ```ts
 * @Prompt({ name: 'review', inputSchema: z.object({ language: z.string(), code: z.string() }) })
 * review(@McpArgs() { language, code }: { language: string; code: string }) {
 *   return `Review this ${language} code:\n\n${code}`;
 * }
 * ```
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/prompts
 * @publicApi
 */
export function Prompt(options: PromptOptions): MethodDecorator {
  return declareHandler('Prompt', { kind: 'prompt', options });
}
