import type { Provider } from '@nestjs/common';
import { Clock } from '../common/clock.js';
import { MCP_OPTIONS } from '../common/option-checks.js';
import { replaceablePart } from '../context/replaceable-part.js';
import { McpEventStore } from './event-store.js';
import { InMemoryEventStore } from './in-memory-event-store.js';
import { EVENT_LOG_OPTIONS, type EventLogOptions, resolveEventLogOptions } from './stream.options.js';

export const streamProviders: Provider[] = [
  {
    provide: EVENT_LOG_OPTIONS,
    useFactory: ({ eventLog }: { eventLog?: EventLogOptions }) => resolveEventLogOptions(eventLog),
    inject: [MCP_OPTIONS],
  },
  replaceablePart<McpEventStore, [EventLogOptions, Clock]>(
    McpEventStore,
    'eventStore',
    ['open', 'append', 'read', 'claim', 'release', 'unfinished', 'drop'],
    (limits, clock) => new InMemoryEventStore(limits, clock),
    [EVENT_LOG_OPTIONS, Clock],
  ),
];
