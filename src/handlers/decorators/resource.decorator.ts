import type { ResourceOptions, ResourceTemplateOptions } from '../definitions/handler-options.js';
import { declareHandler } from './handler-declaration.js';

/**
 * Makes a method the reader of a resource with a fixed URI. It is called with `({ uri }, ctx)`, see `ResourceArgs`.
 *
 * ```ts
 * @Resource({ uri: 'orders://terms', name: 'terms', mimeType: 'text/markdown' })
 * terms(): Promise<string> {
 *   return readFile('terms.md', 'utf8');
 * }
 * ```
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/resources
 * @publicApi
 */
export function Resource(options: ResourceOptions): MethodDecorator {
  return declareHandler('Resource', { kind: 'resource', options });
}

/**
 * Makes a method the reader of all resources whose URI matches a template. Its arguments are the variables of the
 * template, and `uri`, see `ResourceTemplateArgs`. A resource with exactly the URI goes before a template, and of two
 * templates the one that was found first.
 *
 * ```ts
 * @ResourceTemplate({ uriTemplate: 'orders://{id}', name: 'order', mimeType: 'application/json' })
 * order(@McpArgs('id') id: string) {
 *   return this.orders.find(id);
 * }
 * ```
 *
 * @see https://www.rfc-editor.org/rfc/rfc6570
 * @publicApi
 */
export function ResourceTemplate(options: ResourceTemplateOptions): MethodDecorator {
  return declareHandler('ResourceTemplate', { kind: 'template', options });
}
