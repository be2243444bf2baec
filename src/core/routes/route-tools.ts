import { RequestMethod, type Type } from '@nestjs/common';
import type { ToolAnnotations } from '@modelcontextprotocol/server';
import type { ToolOptions } from '../handlers/decorators/handler-options.js';
import { McpHandlerDefinitionError } from '../handlers/handlers.errors.js';
import { serializeOptionsOf } from '../handlers/invocation/enhancers.js';
import type { McpResultSchema } from '../handlers/schema/handler-schema.js';
import { standardOf } from '../handlers/schema/schema-compiler.js';
import { jsonOfApiClass, operationOf, responseTypeOf } from './swagger.js';

/** Nest stores the verb of a route under this key. */
const ROUTE_VERB = 'method';

/**
 * Derives hints from the verb of a route.
 *
 * @see https://www.rfc-editor.org/rfc/rfc9110#section-9.2
 */
const HINTS: Readonly<Partial<Record<RequestMethod, ToolAnnotations>>> = {
  [RequestMethod.GET]: { readOnlyHint: true },
  [RequestMethod.HEAD]: { readOnlyHint: true },
  [RequestMethod.PUT]: { idempotentHint: true },
  [RequestMethod.DELETE]: { idempotentHint: true, destructiveHint: true },
};

/** A tool with a name, and with a schema if one is required. */
export type NamedToolOptions = ToolOptions & { readonly name: string; readonly outputSchema?: McpResultSchema };

/**
 * Returns the options of a tool that is a route: the route provides those that are absent.
 *
 * @throws McpHandlerDefinitionError when the schema of its result is required, and nothing declares it
 */
export function routeToolOptions(
  options: ToolOptions,
  { host, method, methodName, origin }: { host: Type; method: object; methodName: string; origin: string },
): NamedToolOptions {
  const { summary, description } = operationOf(method);
  const verb = Reflect.getMetadata(ROUTE_VERB, method) as RequestMethod | undefined;
  const annotations = { ...(verb !== undefined && HINTS[verb]), ...options.annotations };
  const { outputSchema, ...rest } = options;
  return {
    title: description === undefined ? undefined : summary,
    description: description ?? summary,
    ...rest,
    name: options.name ?? `${snakeCase(host.name.replace(/Controller$/, '') || host.name)}_${snakeCase(methodName)}`,
    ...(Object.keys(annotations).length > 0 && { annotations }),
    outputSchema: outputSchema === 'route' ? resultOf(host, method, origin) : outputSchema,
  } as NamedToolOptions;
}

/** Returns whether a method is a GET or HEAD route. */
export function isReadRoute(method: object | undefined): boolean {
  const verb = method && (Reflect.getMetadata(ROUTE_VERB, method) as RequestMethod | undefined);
  return verb === RequestMethod.GET || verb === RequestMethod.HEAD;
}

/** Converts `findAllV2` to `find_all_v2`. */
function snakeCase(name: string): string {
  const words = name.replace(/([a-z\d])([A-Z])/g, '$1_$2').replace(/([A-Z]+)([A-Z][a-z])/g, '$1_$2');
  return words.replace(/\W+/g, '_').toLowerCase();
}

/** Returns the schema of the result of a route. @throws McpHandlerDefinitionError */
function resultOf(host: Type, method: object, origin: string): McpResultSchema {
  const serialized = serializeOptionsOf(host, method);
  const standard = standardOf(serialized?.schema);
  if (standard) return standard;
  const { type = serialized?.type, isArray = false } = responseTypeOf(method) ?? {};
  const many = isArray || Array.isArray(type);
  const one: unknown = Array.isArray(type) ? type[0] : type;
  if (typeof one !== 'function') {
    const reason = `its "outputSchema" is 'route', but the route does not say what it returns. Add @SerializeOptions({ schema }) of Nest 12 or @ApiOkResponse({ type }) of @nestjs/swagger, or give the schema itself.`;
    throw new McpHandlerDefinitionError(origin, reason);
  }
  const schema = standardOf(one) ?? jsonOfApiClass(one as Type) ?? (one as Type);
  return many ? [schema] : schema;
}
