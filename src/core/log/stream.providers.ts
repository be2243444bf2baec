import type { Provider } from '@nestjs/common';
import { McpClock } from '../common/clock.js';
import { MCP_OPTIONS } from '../common/options.js';
import { replaceablePart } from '../calls/replaceable-part.js';
import { EVENT_STORE_METHODS, McpEventStore, SHARED_EVENT_STORE_METHODS } from './event-store.js';
import { InMemoryEventStore } from './in-memory-event-store.js';
import type { McpEventLogOptions } from './stream.options.js';

export const streamProviders: Provider[] = [
  replaceablePart<McpEventStore, [{ eventLog: McpEventLogOptions }, McpClock]>(
    McpEventStore,
    'eventStore',
    EVENT_STORE_METHODS,
    ({ eventLog }, clock) => new InMemoryEventStore(eventLog, clock),
    [MCP_OPTIONS, McpClock],
    SHARED_EVENT_STORE_METHODS,
  ),
];
