import type { Provider } from '@nestjs/common';
import { MCP_OPTIONS } from '../common/option-checks.js';
import { DeclaredHandlers } from './discovery/declared-handlers.js';
import { HANDLER_OPTIONS, resolveHandlerOptions } from './handlers.options.js';
import { HandlerInvokers } from './invocation/handler-invokers.js';
import { HandlerTable } from './registry/handler-table.js';

export const handlerProviders: Provider[] = [
  { provide: HANDLER_OPTIONS, useFactory: resolveHandlerOptions, inject: [MCP_OPTIONS] },
  HandlerTable,
  HandlerInvokers,
  DeclaredHandlers,
];
