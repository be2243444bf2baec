import type { INestApplication } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { HttpEdge } from '../../core/http/edge/http-edge.js';
import { hostsIn, type McpEndpointHost } from '../../core/plugins/mcp-plugin.js';

/** Returns all endpoints of an app, whatever their names are. @throws TypeError when there is none */
export function endpointsOf(app: INestApplication): [McpEndpointHost, ...McpEndpointHost[]] {
  const [first, ...others] = endpointsIn(app);
  if (first) return [first, ...others];
  throw new TypeError('This app has no MCP endpoint. Import McpStreamableModule.forRoot() into the module under test.');
}

/** Returns the endpoints of an app that may have none. */
export function endpointsIn(app: INestApplication): readonly McpEndpointHost[] {
  return hostsIn(app.get(ModulesContainer, { strict: false }));
}

/**
 * Returns an endpoint.
 *
 * @param path of the endpoint; `undefined`: that of the app's only one
 * @throws TypeError for a path at which the app has none, and in an app that has several without a path
 */
export function endpointAt(app: INestApplication, path = pathOf(app)): McpEndpointHost {
  const endpoints = endpointsOf(app);
  const found = endpoints.find((endpoint) => pathsOf(endpoint).includes(path));
  if (found) return found;
  const paths = endpoints.flatMap(pathsOf).join(', ');
  throw new TypeError(`This app serves no MCP at ${path}, but at ${paths}. Choose one of these as "endpoint".`);
}

/**
 * Returns the path of the MCP endpoint of an app, global prefix and version included.
 *
 * @throws TypeError in an app that has several of them
 */
export function pathOf(app: INestApplication): string {
  const paths = endpointsOf(app).flatMap(pathsOf);
  if (paths.length === 1) return paths[0]!;
  const text = `This app serves MCP at ${paths.join(', ') || 'no path that can be found'}. Choose the path that the client uses: createMcpTestClient(app, { endpoint: '${paths[0] ?? '/mcp'}' }).`;
  throw new TypeError(text);
}

/** Returns the paths of an endpoint in the app's router. */
export function pathsOf(endpoint: McpEndpointHost): string[] {
  return endpoint.get(HttpEdge).paths();
}
