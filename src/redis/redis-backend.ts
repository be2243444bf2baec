import type { McpMessageBus } from '../core/nodes/message-bus.js';
import type { McpSessionStore } from '../core/sessions/store/session-store.js';
import type { McpStateStore } from '../core/questions/state/state-store.js';
import type { McpSharedEventStore } from '../core/log/event-store.js';
import type { McpTaskStore } from '../stores/task-store.js';
import { McpOptionError } from '../core/common/options.js';
import { RedisMessageBus } from './bus/redis-message-bus.js';
import type { RedisClient } from './connection/redis-clients.js';
import { probeRedis } from './connection/probe.js';
import { RedisConnection, type ConnectionInternals } from './connection/redis-connection.js';
import { RedisEventStore } from './log/redis-event-store.js';
import type { RedisBackendOptions } from './redis.options.js';
import { RedisSessionStore } from './sessions/redis-session-store.js';
import { RedisStateStore } from './states/redis-state-store.js';
import { RedisTaskStore } from './tasks/redis-task-store.js';

/** The endpoint that uses a backend. */
interface ClaimingEndpoint {
  readonly name: string | undefined;
  readonly path: string;
}

/** The stores and the bus that the nodes of one deployment share. @publicApi */
export interface RedisBackend {
  readonly sessionStore: McpSessionStore;
  readonly stateStore: McpStateStore;
  readonly eventStore: McpSharedEventStore;
  /** The store of `McpTasksModule`; empty without that module. */
  readonly taskStore: McpTaskStore;
  readonly messageBus: McpMessageBus;
  /** @throws McpOptionError when another endpoint of this process has the same keys. The module calls it at start */
  claim(endpoint: { readonly name: string | undefined; readonly path: string }): void;
  /**
   * Checks whether Redis takes what nodes write, and whether its user has all permissions; health checks and the start of
   * the app call it.
   *
   * @returns what operators should know, such as that Redis evicts keys
   * @throws (rejects) RedisUnavailableError; McpOptionError when Redis refuses the database
   */
  check(): Promise<readonly string[]>;
  /** Closes the connections to Redis, as `messageBus.close()` does, which the module calls at shutdown. Idempotent. */
  close(): Promise<void>;
}

/**
 * Keeps sessions, state, tasks, event logs and signals in Redis, so that any node serves any request.
 *
 * ```ts
 * McpStreamableModule.forRootAsync({
 *   useFactory: () => ({ serverInfo, backend: redisBackend('redis://localhost:6379'), requestStateKeys: [key] }),
 * })
 * ```
 *
 * Connects when it is first used. Serves one endpoint of one app and is closed with it: each app, also in tests, needs
 * its own.
 *
 * @param redis a URL (`redis://`, `rediss://`), or an instance of `Redis` or `Cluster` of ioredis. An instance is
 *   copied, with other settings for timeouts and queues; it is neither used nor closed
 * @throws RedisSetupError a URL, and `ioredis` is not installed
 * @throws McpOptionError
 * @publicApi
 */
export function redisBackend(redis: RedisClient | string, options?: RedisBackendOptions): RedisBackend {
  return makeRedisBackend(redis, options);
}

/** Makes a backend with replaceable internals, for tests. @internal */
export function makeRedisBackend(
  redis: RedisClient | string,
  options?: RedisBackendOptions,
  internals?: ConnectionInternals,
): RedisBackend & { readonly messageBus: RedisMessageBus } {
  const connection = new RedisConnection(redis, options, internals);
  const messageBus = new RedisMessageBus(connection);
  const known = (): Promise<void> => messageBus.known();
  const eventStore = new RedisEventStore(connection, messageBus.nodeId, known);
  messageBus.leaving = () => eventStore.tidy();
  const sessionStore = new RedisSessionStore(connection);
  const stateStore = new RedisStateStore(connection);
  const taskStore = new RedisTaskStore(connection, known);
  const claim = (endpoint: ClaimingEndpoint): void => claimKeys(connection, endpoint);
  const check = (): Promise<string[]> => probeRedis(connection);
  return { sessionStore, stateStore, eventStore, taskStore, messageBus, claim, check, close: () => messageBus.close() };
}

/** The endpoints of this process, by their connections. Apps that start one endpoint repeatedly are nodes of one deployment. */
const claims = new Map<RedisConnection, ClaimingEndpoint>();

/** @throws McpOptionError when two endpoints would share their sessions */
function claimKeys(connection: RedisConnection, endpoint: ClaimingEndpoint): void {
  for (const [{ place }, other] of claims) {
    if (place !== connection.place || (other.name === endpoint.name && other.path === endpoint.path)) continue;
    const text = `Two MCP endpoints, ${described(other)} and ${described(endpoint)}, use the prefix "${connection.keys.prefix}" in one Redis, so they would share their sessions. Give each its own: redisBackend(url, { prefix: 'orders' }).`;
    throw new McpOptionError('prefix', text);
  }
  claims.set(connection, endpoint);
  connection.onClosed = () => claims.delete(connection);
}

function described({ name, path }: ClaimingEndpoint): string {
  return name === undefined ? `at "${path}"` : `"${name}" at "${path}"`;
}
