/** @module nestjs-mcp-streamable/redis */

export { RedisMessageBus } from './bus/redis-message-bus.js';
export type { RedisClient } from './connection/redis-clients.js';
export { RedisConnection } from './connection/redis-connection.js';
export { RedisEventStore } from './log/redis-event-store.js';
export { type RedisBackend, redisBackend } from './redis-backend.js';
export { RedisClosedError, RedisSetupError, RedisUnavailableError } from './redis.errors.js';
export type { RedisBackendOptions, RedisEventLogOptions } from './redis.options.js';
export { RedisSessionStore } from './sessions/redis-session-store.js';
export { RedisStateStore } from './states/redis-state-store.js';
export { RedisTaskStore } from './tasks/redis-task-store.js';
