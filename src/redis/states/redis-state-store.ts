import type { McpStateStore, McpStateQuota } from '../../core/questions/state/state-store.js';
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
    return (await this.#set(key, value, ttlMs, quota)) === KEPT || 'full';
  }

  async add(key: string, value: unknown, ttlMs?: number, quota?: McpStateQuota): Promise<'full' | boolean> {
    return this.compareAndSet(key, undefined, value, ttlMs, quota);
  }

  async compareAndSet(
    key: string,
    expected: unknown,
    value: unknown,
    ttlMs?: number,
    quota?: McpStateQuota,
  ): Promise<'full' | boolean> {
    // No JSON text is empty.
    const outcome = await this.#set(key, value, ttlMs, quota, JSON.stringify(expected) ?? '');
    return outcome === FULL ? 'full' : outcome === KEPT;
  }

  #set(
    key: string,
    value: unknown,
    ttlMs: number | undefined,
    quota: McpStateQuota | undefined,
    expected?: string,
  ): Promise<unknown> {
    const { tag, id } = this.#place(key);
    const max = quota && Number.isFinite(quota.max) ? quota.max : NONE;
    const condition = expected === undefined ? [] : [expected];
    return this.connection.run(set, `${tag}:ids`, id, JSON.stringify(value), ttlMs ?? NONE, max, ...condition);
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
/** The script that sets a value returns one of these, or 2 if the current one is not the expected one. */
const FULL = 0;
const KEPT = 1;

const VALUE = `
local value = string.sub(KEYS[1], 1, -4)..'value:'..ARGV[1]
`;

/**
 * ARGV: id, value, milliseconds that it is kept, how many the owner may have (-1: no end, no quota), and the value that it may
 * replace ('': none; absent: any). Returns 1 if it was kept, 0 if the owner has too many, 2 if the current one is another.
 */
const set = new RedisScript(
  'set state',
  `${VALUE}
local ids, ttl, max = KEYS[1], tonumber(ARGV[3]), tonumber(ARGV[4])
local at = now()
call('ZREMRANGEBYSCORE', ids, '-inf', int(at))
if ARGV[5] and (call('GET', value) or '') ~= ARGV[5] then return 2 end
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
