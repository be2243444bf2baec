import { endpointsOf } from '../decorators/mcp-handlers.decorator.js';
import { HandlerDefinitionError } from '../handlers.errors.js';
import { handlerMessages } from '../handlers.messages.js';
import type { AppScan, DeclaringProvider } from './app-scan.js';
import type { EndpointMark } from './marks.js';

/**
 * # Which endpoint a handler belongs to
 *
 * | the app has | a class with a mark | a class without |
 * |---|---|---|
 * | one endpoint, named or not | that of the mark | that endpoint |
 * | several, one of them without a name | those of its marks | the one without a name |
 * | several, all with names | those of its marks | the app does not start |
 *
 * Marks are `@McpHandlers({ endpoint })` and `McpStreamableModule.forFeature([Class], name)`; with several, the class
 * belongs to all of them. A mark that names no endpoint stops the start, too: a handler that is silently served nowhere,
 * or at the public endpoint instead of the one for administrators, is not found until it hurts.
 *
 * @throws HandlerDefinitionError
 */
export function hostsOf(endpoint: EndpointMark, scan: AppScan): DeclaringProvider[] {
  assertFeatures(scan);
  return scan.hosts.filter((host) => endpointsFor(host, scan).has(endpoint));
}

function endpointsFor({ type }: DeclaringProvider, { endpoints, features }: AppScan): Set<EndpointMark> {
  const names = endpoints.map(({ name }) => name);
  const marks = features.filter(({ providers }) => providers.includes(type)).map(({ endpoint }) => endpoint);
  const marked = [...endpointsOf(type), ...marks.filter((name) => name !== undefined)];
  if (marked.length > 0) return new Set(marked.map((name) => named(name, type.name, endpoints)));
  const own = endpoints.length === 1 ? endpoints[0] : endpoints.find(({ name }) => name === undefined);
  if (!own) throw new HandlerDefinitionError(type.name, handlerMessages.noEndpoint(names));
  return new Set([own]);
}

function named(name: string, origin: string, endpoints: readonly EndpointMark[]): EndpointMark {
  const endpoint = endpoints.find((endpoint) => endpoint.name === name);
  if (endpoint) return endpoint;
  const known = endpoints.map(({ name }) => name);
  throw new HandlerDefinitionError(origin, handlerMessages.unknownEndpoint(name, known));
}

/** What `forFeature()` says must mean something, also of classes without handlers. */
function assertFeatures({ features, endpoints, provides }: AppScan): void {
  for (const { providers, endpoint } of features) {
    for (const type of providers as { name: string }[]) {
      if (endpoint !== undefined) named(endpoint, type.name, endpoints);
      if (!provides(type)) throw new HandlerDefinitionError(type.name, handlerMessages.notProvided());
    }
  }
}
