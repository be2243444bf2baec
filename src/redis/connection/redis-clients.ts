import type * as ioredis from 'ioredis';
import type { Cluster, ClusterOptions, Redis, RedisOptions } from 'ioredis';
import { RedisSetupError } from '../redis.errors.js';
import { requireIoredis } from './ioredis-package.cjs';

/** A client of one Redis (or of one behind sentinels), or of a Redis Cluster. */
export type RedisClient = Redis | Cluster;

const CONNECTION_NAME = 'nestjs-mcp-streamable';

/**
 * Makes a client of this library, which is not connected yet. A given instance is copied, and not used otherwise.
 *
 * @throws RedisSetupError `ioredis` is not installed, or the target is none of its clients
 */
export function ownClient(target: RedisClient | string, limits: ClientLimits): RedisClient {
  if (typeof target === 'string') return clientOf(target, limits);
  if (typeof target?.duplicate !== 'function') {
    throw new RedisSetupError(
      `redisBackend() takes a URL such as "redis://localhost:6379", or an instance of Redis or Cluster of ioredis; got ${typeof target}.`,
    );
  }
  if (!isCluster(target)) return target.duplicate({ ...settings(limits), ...checked(target) });
  return target.duplicate([], clusterSettings(target, limits));
}

/** Makes a client wait for the answer to SELECT, also one that skips Redis' own check: it could use database 0 before. */
function checked({ options }: Redis): RedisOptions {
  return options.db ? { enableReadyCheck: true } : {};
}

/**
 * Makes a connection for subscriptions, which is not connected yet. It does not reconnect: another one is made, in a
 * cluster to another node.
 *
 * @returns `undefined` while no node of the cluster is known
 */
export function ownSubscriber(client: RedisClient, limits: ClientLimits): Redis | undefined {
  const nodes = isCluster(client) ? client.nodes('all') : [client];
  const node = nodes[Math.floor(Math.random() * nodes.length)];
  return node?.duplicate({ ...settings(limits), readOnly: false, retryStrategy: () => null });
}

export function isCluster(client: RedisClient): client is Cluster {
  return client.isCluster;
}

/** Returns the key prefix of a given instance, which our keys keep. */
export function keyPrefixOf(target: RedisClient | string): string {
  return typeof target === 'string' ? '' : (target.options.keyPrefix ?? '');
}

export function databaseOf(client: RedisClient): number {
  return isCluster(client) ? 0 : (client.options.db ?? 0);
}

/** Tells where the Redis of a client is, for comparison: hosts and ports, or the group of sentinels. */
export function addressOf(client: RedisClient): string {
  if (isCluster(client)) {
    const nodes = (client as unknown as { startupNodes: unknown }).startupNodes;
    return JSON.stringify(nodes);
  }
  const { path, host, port, sentinels, name } = client.options;
  return sentinels ? JSON.stringify([sentinels, name]) : (path ?? `${host}:${port}`);
}

export interface ClientLimits {
  readonly commandTimeoutMs: number;
  /** The longest pause between two attempts to connect, in milliseconds. */
  readonly retryMs: number;
}

function clientOf(url: string, limits: ClientLimits): Redis {
  const { Redis } = loadIoredis();
  return new Redis(url, settings(limits));
}

function loadIoredis(): typeof ioredis {
  try {
    return requireIoredis() as typeof ioredis;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw cause;
    throw new RedisSetupError(
      'redisBackend() was given a URL, but the package "ioredis" is not installed. Install it (npm install ioredis), or pass an instance of ioredis.',
      { cause },
    );
  }
}

/**
 * Makes the settings: no command is queued without a connection, ioredis repeats no command, and every command ends in
 * time: the caller decides whether to repeat it.
 */
function settings({ commandTimeoutMs, retryMs }: ClientLimits): RedisOptions {
  return {
    lazyConnect: true,
    connectionName: CONNECTION_NAME,
    // A Redis before 7.2 does not know the command, and users of Redis would need a permission more.
    disableClientInfo: true,
    keyPrefix: '',
    enableOfflineQueue: false,
    autoResubscribe: false,
    autoResendUnfulfilledCommands: false,
    enableAutoPipelining: false,
    maxRetriesPerRequest: 0,
    stringNumbers: false,
    commandTimeout: commandTimeoutMs,
    connectTimeout: commandTimeoutMs,
    // Detects a dead connection that was never closed.
    socketTimeout: commandTimeoutMs * 2,
    retryStrategy: (attempts) => backoff(attempts, retryMs),
    // After a failover the connection may still lead to the old master, a replica by now.
    reconnectOnError: (error) => error.message.startsWith('READONLY'),
  };
}

function clusterSettings(target: Cluster, limits: ClientLimits): ClusterOptions {
  const { retryStrategy: _, enableOfflineQueue: __, ...ofNodes } = settings(limits);
  return {
    lazyConnect: true,
    keyPrefix: '',
    enableOfflineQueue: false,
    enableAutoPipelining: false,
    scaleReads: 'master',
    slotsRefreshTimeout: limits.commandTimeoutMs,
    clusterRetryStrategy: (attempts) => backoff(attempts, limits.retryMs),
    redisOptions: { ...target.options.redisOptions, ...ofNodes },
  };
}

/** Returns the milliseconds before the next attempt, which are doubled each time, up to `mostMs`. */
export function backoff(attempts: number, mostMs: number): number {
  return Math.min(mostMs, 25 * 2 ** Math.min(attempts - 1, 10));
}
