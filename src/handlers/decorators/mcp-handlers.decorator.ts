import { HandlerDefinitionError } from '../handlers.errors.js';
import { handlerMessages } from '../handlers.messages.js';

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
 * @throws HandlerDefinitionError for what is no name
 * @publicApi
 */
export function McpHandlers({ endpoint }: McpHandlersOptions): ClassDecorator {
  const names: unknown = typeof endpoint === 'string' ? [endpoint] : endpoint;
  return (target) => {
    // Also catches the `undefined` that circular imports leave behind: it must not mean "the usual endpoint".
    const valid = Array.isArray(names) && names.length > 0 && names.every((name) => typeof name === 'string');
    if (!valid) throw new HandlerDefinitionError(target.name, handlerMessages.noEndpointNames(endpoint));
    Reflect.defineMetadata(ENDPOINTS, names, target);
  };
}

/** The endpoints that a class names. */
export function endpointsOf(target: object): readonly string[] {
  return (Reflect.getMetadata(ENDPOINTS, target) as readonly string[] | undefined) ?? [];
}
