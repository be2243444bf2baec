/**
 * Exports what an implementation of a store, a message bus or a backend needs: contracts with their types and errors,
 * and the implementations in memory.
 *
 * @module nestjs-mcp-streamable/stores
 */

export type { McpBackend } from '../mcp-streamable.options.js';
export { McpClock, systemClock } from '../core/common/clock.js';

export { McpMessageBus, type McpLostNode } from '../core/nodes/message-bus.js';
export { InMemoryMessageBus, InMemoryMessageHub } from '../core/nodes/in-memory-message-bus.js';

export {
  MCP_DROPPED_SESSION_MS,
  MCP_INBOX_STREAM,
  MCP_MIN_EVENTS,
  McpEventStore,
  type McpSharedEventStore,
  type McpAppendedMessage,
  type McpAppendOptions,
  type McpAppendResult,
  type McpClaimResult,
  type McpEventStoreStats,
  type McpLastError,
  type McpReaderRef,
  type McpReadResult,
  type McpStoredEvent,
  type McpStreamHead,
  type McpUnfinishedStream,
} from '../core/log/event-store.js';
export {
  McpEventLogFullError,
  McpEventStoreError,
  McpSessionGoneError,
  McpStreamEndedError,
  McpStreamNotFoundError,
  McpStreamOverflowError,
} from '../core/log/event-store.errors.js';
export { InMemoryEventStore } from '../core/log/in-memory-event-store.js';
export type { McpEventLogOptions } from '../core/log/stream.options.js';

export {
  McpSessionStore,
  type McpCreateOutcome,
  type McpNewcomer,
  type McpNewSessionRecord,
  type McpSessionCaps,
  type McpSessionPatch,
  type McpSessionRecord,
} from '../core/sessions/store/session-store.js';
export { InMemorySessionStore } from '../core/sessions/store/in-memory-session-store.js';

export { McpStateStore, type McpStateQuota } from '../core/questions/state/state-store.js';
export { InMemoryStateStore } from '../core/questions/state/in-memory-state-store.js';
