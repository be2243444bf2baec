import type { Provider } from '@nestjs/common';
import { backendProvider, replaceablePart } from '../calls/replaceable-part.js';
import { InMemoryMessageBus } from './in-memory-message-bus.js';
import { OTHER_NODES } from '../sessions/other-nodes.js';
import { BusNodes } from './bus-nodes.js';
import { ChangeFeed } from './change-feed.js';
import { DeadNodes } from './dead-nodes.js';
import { NodeListener } from './node-listener.js';
import { McpMessageBus, MESSAGE_BUS_METHODS } from './message-bus.js';

/** Provides the bus, and the classes that speak over it. */
export const nodeProviders: Provider[] = [
  backendProvider,
  replaceablePart(McpMessageBus, 'messageBus', MESSAGE_BUS_METHODS, () => new InMemoryMessageBus()),
  ChangeFeed,
  BusNodes,
  { provide: OTHER_NODES, useExisting: BusNodes },
  NodeListener,
  DeadNodes,
];
