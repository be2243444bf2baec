/** Where the handlers of a class belong. @publicApi */
export interface McpHandlersOptions {
  /** The option `name` of an endpoint, or of several. */
  endpoint: string | readonly string[];
}

const ENDPOINTS = 'nestjs-mcp-streamable:endpoints';

/**
 * Says to which endpoint the handlers of a class belong, in an app that has several. Without it, or
 * `McpStreamableModule.forFeature()`, they belong to the endpoint without a name.
 *
 * ```ts
 * @Injectable()
 * @McpHandlers({ endpoint: 'admin' })
 * export class AdminTools { … }
 * ```
 *
 * A class inherits it.
 *
 * @publicApi
 */
export function McpHandlers({ endpoint }: McpHandlersOptions): ClassDecorator {
  return (target) => Reflect.defineMetadata(ENDPOINTS, typeof endpoint === 'string' ? [endpoint] : endpoint, target);
}

/** The endpoints that a class names. */
export function endpointsOf(target: object): readonly string[] {
  return (Reflect.getMetadata(ENDPOINTS, target) as readonly string[] | undefined) ?? [];
}
