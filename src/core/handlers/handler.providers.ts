import type { Provider } from '@nestjs/common';
import { ToolCatalogues } from './catalogue/tool-catalogues.js';
import { DeclaredHandlers } from './discovery/declared-handlers.js';
import { RouteMiddleware } from './discovery/route-middleware.js';
import { HandlerInvokers, RegisteredHandlers } from './invocation/handler-invokers.js';
import { HandlerTable } from './registry/handler-table.js';

export const handlerProviders: Provider[] = [
  HandlerTable,
  HandlerInvokers,
  RegisteredHandlers,
  ToolCatalogues,
  RouteMiddleware,
  DeclaredHandlers,
];
