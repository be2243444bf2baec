import type { Cluster } from 'ioredis';
import type { McpStreamableOptions } from 'nestjs-mcp-streamable';

/**
 * Where a server keeps its sessions: in memory, or, with `REDIS_URL` and `REDIS_PREFIX`, in that Redis, with everybody of the
 * same prefix. `REDIS_CLUSTER` has the ports of a Redis Cluster on this machine instead. Without them nothing of Redis is loaded: it would be in the memory that is measured.
 */
const { REDIS_URL, REDIS_CLUSTER, REDIS_PREFIX } = process.env;

export const backend: Pick<McpStreamableOptions, 'backend' | 'requestStateKeys'> =
  (REDIS_URL || REDIS_CLUSTER) && REDIS_PREFIX ? await inRedis(REDIS_PREFIX) : {};

async function inRedis(prefix: string): Promise<typeof backend> {
  const { redisBackend } = await import('nestjs-mcp-streamable/redis');
  // A busy machine is no reason to take Redis, or a node, for dead.
  const patience = { commandTimeoutMs: 30_000, deadAfterMs: 60_000 };
  return {
    backend: redisBackend(REDIS_CLUSTER ? await clusterAt(REDIS_CLUSTER) : REDIS_URL!, { prefix, ...patience }),
    requestStateKeys: ['a secret that all nodes of the bench know'],
  };
}

/** Of ports. */
async function clusterAt(ports: string): Promise<Cluster> {
  const { Cluster } = await import('ioredis');
  return new Cluster(
    ports.split(',').map((port) => ({ host: '127.0.0.1', port: Number(port) })),
    { lazyConnect: true },
  );
}
