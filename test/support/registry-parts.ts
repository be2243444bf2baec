import { ApplicationConfig, type ModuleRef, ModulesContainer } from '@nestjs/core';
import { HandlerInvokers, RegisteredHandlers } from '../../src/core/handlers/invocation/handler-invokers.js';
import type { MethodRoutes } from '../../src/core/handlers/invocation/method-routes.js';
import { RequestContexts } from '../../src/core/handlers/invocation/request-contexts.js';

/** What an app without routes has. */
export const NO_ROUTES: MethodRoutes = { routeOf: () => undefined, toolsOf: () => [], assertMiddlewareRuns: () => {} };

/** What a registry needs that no module provides. */
export function registryParts(): readonly [invokers: HandlerInvokers, module: ModuleRef] {
  const modules = new ModulesContainer();
  const wrapper = {
    instance: new RegisteredHandlers(),
    isTransient: false,
    isDependencyTreeStatic: () => true,
    getEnhancersMetadata: () => [],
  };
  modules.set('endpoint', { providers: new Map([[RegisteredHandlers, wrapper]]) } as never);
  const moduleRef = {} as ModuleRef;
  return [new HandlerInvokers(new ApplicationConfig(), modules, new RequestContexts(moduleRef), NO_ROUTES), moduleRef];
}
