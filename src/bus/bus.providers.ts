import type { Provider } from '@nestjs/common';
import { backendProvider, replaceablePart } from '../context/replaceable-part.js';
import { InMemoryMessageBus } from './in-memory-message-bus.js';
import { McpMessageBus, MESSAGE_BUS_METHODS } from './message-bus.js';

export const busProviders: Provider[] = [
  backendProvider,
  replaceablePart(McpMessageBus, 'messageBus', MESSAGE_BUS_METHODS, () => new InMemoryMessageBus()),
];
