import type { McpStreamableOptions } from 'nestjs-mcp-streamable';

/**
 * Where a server keeps its sessions: in memory, or, with `REDIS_URL` and `REDIS_PREFIX`, in that Redis, with everybody of the
 * same prefix. Without them nothing of Redis is loaded: it would be in the memory that is measured.
 */
const { REDIS_URL, REDIS_PREFIX } = process.env;

export const backend: Pick<McpStreamableOptions, 'backend' | 'requestStateKeys'> =
  REDIS_URL && REDIS_PREFIX ? await inRedis(REDIS_URL, REDIS_PREFIX) : {};

async function inRedis(url: string, prefix: string): Promise<typeof backend> {
  const { redisBackend } = await import('nestjs-mcp-streamable/redis');
  // A busy machine is no reason to take Redis, or a node, for dead.
  const patience = { commandTimeoutMs: 30_000, heartbeatMs: 5_000, deadAfterMs: 60_000 };
  return {
    backend: redisBackend(url, { prefix, ...patience }),
    requestStateKeys: ['a secret that all nodes of the bench know'],
  };
}
