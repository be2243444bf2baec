import type { RedisConnection } from '../connection/redis-connection.js';
import type { RedisClient } from '../connection/redis-clients.js';

/** Keys that Redis looks at in one step. */
const STEP = 1_000;

/** The keys that a pattern fits, some at a time, from every node; one that is there throughout is among them exactly once. */
export async function* everyKey(connection: RedisConnection, pattern: string): AsyncGenerator<string[]> {
  const known = new Set<string>();
  for (const node of await connection.masters('stats')) {
    let cursor = '0';
    do {
      const [next, keys] = await scan(connection, node, cursor, pattern);
      cursor = next;
      // Redis may name a key twice.
      const fresh = keys.filter((key) => !known.has(key));
      for (const key of fresh) known.add(key);
      yield fresh;
    } while (cursor !== '0');
  }
}

function scan(
  connection: RedisConnection,
  node: RedisClient,
  cursor: string,
  pattern: string,
): Promise<[string, string[]]> {
  return connection.command('stats', () => node.scan(cursor, 'MATCH', pattern, 'COUNT', STEP));
}
