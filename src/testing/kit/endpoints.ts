import type { INestApplication, InjectionToken } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { McpSessionService, McpStreamableModule } from '../../index.js';
import { McpClock, McpStateStore } from '../../stores/index.js';

/** One endpoint of an app, with what belongs to it alone. */
export interface AppEndpoint {
  readonly module: McpStreamableModule;
  readonly service: McpSessionService;
  readonly states: McpStateStore;
  readonly clock: McpClock;
}

/** Returns all endpoints of an app, whatever their names are. @throws TypeError when there is none */
export function endpointsOf(app: INestApplication): [AppEndpoint, ...AppEndpoint[]] {
  const [first, ...others] = endpointsIn(app);
  if (first) return [first, ...others];
  throw new TypeError('This app has no MCP endpoint. Import McpStreamableModule.forRoot() into the module under test.');
}

/** Returns the endpoints of an app that may have none. */
export function endpointsIn(app: INestApplication): AppEndpoint[] {
  const modules = [...app.get(ModulesContainer, { strict: false }).values()];
  return modules.flatMap(({ instance, providers }) => {
    if (!(instance instanceof McpStreamableModule)) return [];
    const part = <T>(token: InjectionToken<T>): T => providers.get(token)!.instance as T;
    return [
      {
        module: instance,
        service: part(McpSessionService),
        states: part<McpStateStore>(McpStateStore),
        clock: part<McpClock>(McpClock),
      },
    ];
  });
}

/**
 * Returns the module of an endpoint.
 *
 * @param path of the endpoint; `undefined`: that of the app's only one
 * @throws TypeError for a path at which the app has none, and in an app that has several without a path
 */
export function moduleAt(app: INestApplication, path = pathOf(app)): McpStreamableModule {
  const endpoints = endpointsOf(app);
  const found = endpoints.find(({ module }) => module.paths.includes(path));
  if (found) return found.module;
  const paths = endpoints.flatMap(({ module }) => module.paths).join(', ');
  throw new TypeError(`This app serves no MCP at ${path}, but at ${paths}. Choose one of these as "endpoint".`);
}

/**
 * Returns the path of the MCP endpoint of an app, global prefix and version included.
 *
 * @throws TypeError in an app that has several of them
 */
export function pathOf(app: INestApplication): string {
  const endpoints = endpointsOf(app);
  const paths = endpoints.flatMap(({ module }) => module.paths);
  if (paths.length === 1) return paths[0]!;
  const text = `This app serves MCP at ${paths.join(', ') || 'no path that can be found'}. Choose the path that the client uses: createMcpTestClient(app, { endpoint: '${paths[0] ?? '/mcp'}' }).`;
  throw new TypeError(text);
}
