import { McpHandlerDefinitionError } from '../handlers/handlers.errors.js';
import type { ProviderMethod } from '../handlers/invocation/method-routes.js';
import type { ParamRules } from '../handlers/invocation/params.js';

/*
 * # Which routes can be handlers
 *
 * A call has arguments and one result. It has neither a page, nor uploaded files, nor a host to choose by.
 */

/** Nest stores under these keys where a route is served, and how it answers: with a stream of events, with another address, with a page. */
const ROUTE_SSE = '__sse__';
const ROUTE_HOST = 'host';
const ROUTE_REDIRECT = '__redirect__';
const ROUTE_RENDER = '__renderTemplate__';

/** Advises the author of a class with `@Tools()`, whose other routes are tools. */
const NO_TOOL = 'If the route must not be a tool, use @Tool(false).';
const SECOND_METHOD = 'Write a second method for the handler';
const IN_BOTH = `and call the same service in both. ${NO_TOOL}`;
const NO_RESULT = `while a handler returns its result. ${SECOND_METHOD}, ${IN_BOTH}`;

/** The rules of methods that are routes: `@Param()` and `@Query()` take arguments, too. */
export const ROUTE_PARAMS: ParamRules = {
  parts: ['params', 'query', 'body'],
  givesResponse: true,
  // Without decorators Nest gives a route the request and the response.
  undecorated:
    'it is also a route, which Nest calls with the request and the response because its parameters have no decorators. Decorate them: @Param(), @Query() or @Body() for arguments, @McpCtx() for the context.',
  refusal(decorator) {
    const remedy =
      decorator === '@Res()'
        ? 'Return the result, and set headers by @Res({ passthrough: true })'
        : 'Use @Param(), @Query(), @Body(), @Req(), @Headers(), @McpCtx(), or a custom decorator';
    return `a parameter has ${decorator}, which an MCP call does not have. ${remedy}; or write a separate MCP handler, and call one service from both. ${NO_TOOL}`;
  },
};

/** Checks where a route is served, and how it answers. @throws McpHandlerDefinitionError for a route that no call can have */
export function assertCallable({ host, method, origin }: ProviderMethod): void {
  const reason = reasonAgainst(host, method);
  if (reason !== undefined) throw new McpHandlerDefinitionError(origin, `it is also a route ${reason}`);
}

function reasonAgainst(host: object, method: object): string | undefined {
  const has = (key: string): boolean => Reflect.hasMetadata(key, method);
  const hosts = Reflect.getMetadata(ROUTE_HOST, host) as string | RegExp | (string | RegExp)[] | undefined;
  if (has(ROUTE_SSE))
    return `with @Sse(), which sends many events, while a handler has one result. ${SECOND_METHOD}, ${IN_BOTH}`;
  if (hosts !== undefined)
    return `that its controller serves only at the host ${[hosts].flat().map(String).join(', ')}, while clients call it wherever they reach the endpoint. ${SECOND_METHOD}, with a guard that checks the host, ${IN_BOTH}`;
  if (has(ROUTE_REDIRECT)) return `with @Redirect(), which answers with another address, ${NO_RESULT}`;
  if (has(ROUTE_RENDER)) return `with @Render(), which answers with a page, ${NO_RESULT}`;
  return undefined;
}
