import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { RedisBackendOptions } from 'nestjs-mcp-streamable/redis';
import type { McpEventStoreStats } from 'nestjs-mcp-streamable/stores';
import { FORMATS } from '../../src/core/common/formats.js';
import { makeRedisBackend } from '../../src/redis/redis-backend.js';
import { eventually } from './eventually.js';
import { sharedRedis } from './redis.js';

/** `redisBackend()` with a bus that says when it is connected, and, where wanted, with the clock and the time of the test. */
export const testBackend: typeof makeRedisBackend = makeRedisBackend;

/** What the names of sessions begin with, behind the prefix; the list of the living nodes, and that of the dead ones. */
export const [OF_SESSIONS, ALIVE, LOST] = [
  `s${FORMATS.sessions}:`,
  `{:bus}:nodes:${FORMATS.sessions}`,
  `{:bus}:lost:${FORMATS.sessions}`,
];

/** Part of Redis for one test: keys below a prefix of its own, and a time that can be turned forward. */
export class RedisRoom {
  readonly #backends: ReturnType<typeof testBackend>[] = [];

  private constructor(
    readonly prefix: string,
    readonly redis: Awaited<ReturnType<typeof sharedRedis>>,
  ) {}

  /** @param redis the Redis of the file, unless the test has one of its own */
  static async open(redis?: RedisRoom['redis']): Promise<RedisRoom> {
    return new RedisRoom(`test-${randomBytes(6).toString('hex')}`, redis ?? (await sharedRedis()));
  }

  /** One more node. */
  node(options: RedisBackendOptions = {}, target: string | Parameters<typeof testBackend>[0] = this.redis.url) {
    const backend = testBackend(target, { prefix: this.prefix, ...options }, { time: this.time });
    // The store itself does not count: Redis would have to look through all of its keys.
    backend.eventStore.stats = () => this.#stats();
    this.#backends.push(backend);
    return backend;
  }

  /** Lets the time of Redis pass for the keys of this test: what expires sooner is gone. */
  async advance(ms: number): Promise<void> {
    await this.redis.admin.eval(ADVANCE, 1, this.#shift, `${this.prefix}:*`, ms);
  }

  /**
   * Lets a node that has been killed, or stands still, count as dead: as if it had not beaten for long. Resolves when another one
   * has noticed.
   */
  dies(node: string): Promise<void> {
    return countAsDead(this.redis.admin, this.prefix, node);
  }

  /** Names of all keys, but for those of the test itself. */
  async keys(): Promise<string[]> {
    const keys = await this.redis.admin.keys(`${this.prefix}:*`);
    return keys
      .filter((key) => key !== this.#shift)
      .map((key) => key.slice(this.prefix.length + 1))
      .toSorted();
  }

  /** Keys that will not be gone in so many milliseconds. */
  async lasting(ms: number): Promise<string[]> {
    const keys = await this.keys();
    const lives = await Promise.all(keys.map((key) => this.redis.admin.pttl(`${this.prefix}:${key}`)));
    // -2: gone by now.
    return keys.filter((_, position) => lives[position] === -1 || lives[position]! > ms);
  }

  /** Keys that would stay for ever. */
  async immortal(): Promise<string[]> {
    const keys = await this.keys();
    const lives = await Promise.all(keys.map((key) => this.redis.admin.pttl(`${this.prefix}:${key}`)));
    return keys.filter((_, position) => lives[position] === -1);
  }

  /** Logs that are neither dropped nor forgotten, and what is in them. */
  async #stats(): Promise<McpEventStoreStats> {
    const logs = await this.redis.admin.keys(`${this.prefix}:*:log`);
    const counted = await Promise.all(logs.map((log) => this.redis.admin.eval(`${this.time}${STATS}`, 1, log)));
    const kept = counted.filter((counts) => counts !== null) as [number, number, number][];
    const sum = (at: 0 | 1 | 2): number => kept.reduce((total, counts) => total + counts[at], 0);
    return { sessions: kept.length, streams: sum(0), events: sum(1), bytes: 2 * sum(2) };
  }

  async close(): Promise<void> {
    await Promise.all(this.#backends.map((backend) => backend.close()));
    const keys = await this.redis.admin.keys(`${this.prefix}:*`);
    if (keys.length > 0) await this.redis.admin.del(keys);
  }

  get #shift(): string {
    return `${this.prefix}:time`;
  }

  /** The time of Redis, shifted. */
  get time(): string {
    return `
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(redis.call('GET', '${this.#shift}') or 0)
end
`;
  }
}

/** Lets a node count as dead, which must not beat meanwhile. Resolves when another one has noticed. */
export function countAsDead(admin: Redis, prefix: string, node: string): Promise<void> {
  return eventually(async () => {
    // A beat may have been on its way.
    await admin.zadd(`${prefix}:${ALIVE}`, 'XX', 0, node);
    if ((await admin.zscore(`${prefix}:${ALIVE}`, node)) !== null)
      throw new Error(`The node ${node} still counts as alive.`);
  });
}

/** Streams, events and UTF-16 units of one log. */
const STATS = `
local base = string.sub(KEYS[1], 1, -4)
if redis.call('HEXISTS', KEYS[1], 'units') == 0 or redis.call('HEXISTS', KEYS[1], 'dropped') == 1 then return false end
local streams = redis.call('ZRANGEBYSCORE', base..'streams', string.format('(%.0f', now()), '+inf')
local events, units = 0, 0
for _, stream in ipairs(streams) do
  for _, entry in ipairs(redis.call('XRANGE', base..'events:'..stream, '-', '+')) do
    events, units = events + 1, units + tonumber(entry[2][1])
  end
end
return {#streams, events, units}
`;

const ADVANCE = `
redis.call('INCRBY', KEYS[1], ARGV[2])
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local left = redis.call('PTTL', key)
  if left >= 0 then redis.call('PEXPIRE', key, left - tonumber(ARGV[2])) end
end
`;
