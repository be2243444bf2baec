import type { Provider } from '@nestjs/common';
import { Clock } from '../common/clock.js';
import { MCP_OPTIONS } from '../common/option-checks.js';
import { replaceablePart } from '../context/replaceable-part.js';
import { InMemoryStateStore } from './in-memory-state-store.js';
import { McpStateStore } from './state-store.js';
import { resolveStateOptions, STATE_OPTIONS } from './state.options.js';

export const stateProviders: Provider[] = [
  { provide: STATE_OPTIONS, useFactory: resolveStateOptions, inject: [MCP_OPTIONS] },
  replaceablePart<McpStateStore, [Clock]>(
    McpStateStore,
    'stateStore',
    ['get', 'set', 'delete'],
    (clock) => new InMemoryStateStore(clock),
    [Clock],
  ),
];
