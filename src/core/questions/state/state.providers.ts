import type { Provider } from '@nestjs/common';
import { McpClock } from '../../common/clock.js';
import { replaceablePart } from '../../calls/replaceable-part.js';
import { InMemoryStateStore } from './in-memory-state-store.js';
import { McpStateStore, STATE_STORE_METHODS } from './state-store.js';

export const stateProviders: Provider[] = [
  replaceablePart<McpStateStore, [McpClock]>(
    McpStateStore,
    'stateStore',
    STATE_STORE_METHODS,
    (clock) => new InMemoryStateStore(clock),
    [McpClock],
  ),
];
