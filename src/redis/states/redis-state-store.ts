import type { McpStateStore, McpStateQuota } from '../../core/handlers/state/state-store.js';
import type { RedisConnection } from '../connection/redis-connection.js';
import { RedisScript } from '../connection/redis-connection.js';

/**
 * # State in Redis
 *
 *     <tag>:value:<id>  string  the value, as JSON
 *     <tag>:ids         zset    the ids of the owner; score: when its value expires, +inf: never
 *
 * All of one owner lies in one slot, so that its quota is checked and counted in one step.
 *
 * @publicApi
 */
export class RedisStateStore implements McpStateStore {
  constructor(private readonly connection: RedisConnection) {}

  async get(key: string): Promise<unknown> {
    const { tag, id } = this.#place(key);
    const json = await this.connection.command('get state', (client) => client.get(`${tag}:value:${id}`));
    return json === null ? undefined : (JSON.parse(json) as unknown);
  }

  async set(key: string, value: unknown, ttlMs?: number, quota?: McpStateQuota): Promise<'full' | boolean> {
    const { tag, id } = this.#place(key);
    const max = quota && Number.isFinite(quota.max) ? quota.max : NONE;
    const kept = await this.connection.run(set, `${tag}:ids`, id, JSON.stringify(value), ttlMs ?? NONE, max);
    return kept === 1 || 'full';
  }

  async delete(key: string): Promise<boolean> {
    const { tag, id } = this.#place(key);
    return (await this.connection.run(remove, `${tag}:ids`, id)) === 1;
  }

  #place(key: string): { tag: string; id: string } {
    const colon = key.lastIndexOf(':');
    return this.connection.keys.state(key.slice(0, Math.max(0, colon)), key.slice(colon + 1));
  }
}

/** Stands for no limit where a script takes a number. */
const NONE = -1;

const VALUE = `
local value = string.sub(KEYS[1], 1, -4)..'value:'..ARGV[1]
`;

/** ARGV: id, value, milliseconds that it is kept, how many the owner may have (-1: no end, no quota). Returns whether it was kept. */
const set = new RedisScript(
  'set state',
  `${VALUE}
local ids, ttl, max = KEYS[1], tonumber(ARGV[3]), tonumber(ARGV[4])
local at = now()
call('ZREMRANGEBYSCORE', ids, '-inf', int(at))
if max >= 0 and call('EXISTS', value) == 0 and call('ZCARD', ids) >= max then return 0 end
if ttl >= 0 then
  call('SET', value, ARGV[2], 'PX', ARGV[3])
  call('ZADD', ids, int(at + ttl), ARGV[1])
else
  call('SET', value, ARGV[2])
  call('ZADD', ids, '+inf', ARGV[1])
end
local last = call('ZRANGE', ids, -1, -1, 'WITHSCORES')[2]
if last == 'inf' then call('PERSIST', ids) else call('PEXPIRE', ids, int(tonumber(last) - at)) end
return 1
`,
);

/** ARGV: id. Returns how many there were. */
const remove = new RedisScript(
  'delete state',
  `${VALUE}
call('ZREM', KEYS[1], ARGV[1])
return call('UNLINK', value)
`,
);
