import type { Provider } from '@nestjs/common';
import { EndpointClasses } from './discovery/endpoint-classes.js';
import { DeclaredHandlers } from './discovery/declared-handlers.js';
import { HandlerInvokers, RegisteredHandlers } from './invocation/handler-invokers.js';
import { RequestContexts } from './invocation/request-contexts.js';
import { EndpointSources } from './registry/endpoint-sources.js';
import { HandlerTable } from './registry/handler-table.js';
import { RegisteredEntries } from './registry/registered-entries.js';

export const handlerProviders: Provider[] = [
  HandlerTable,
  EndpointSources,
  RequestContexts,
  HandlerInvokers,
  RegisteredHandlers,
  RegisteredEntries,
  EndpointClasses,
  DeclaredHandlers,
];
