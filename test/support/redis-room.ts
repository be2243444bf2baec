import { randomToken } from '../../src/common/random-token.js';
import { makeRedisBackend } from '../../src/redis/redis-backend.js';
import type { RedisBackendOptions } from '../../src/redis/redis.options.js';
import { sharedRedis } from './redis.js';

/** Part of Redis for one test: keys below a prefix of its own, and a time that can be turned forward. */
export class RedisRoom {
  readonly #backends: ReturnType<typeof makeRedisBackend>[] = [];

  private constructor(
    readonly prefix: string,
    readonly redis: Awaited<ReturnType<typeof sharedRedis>>,
  ) {}

  static async open(): Promise<RedisRoom> {
    return new RedisRoom(`test-${randomToken(8)}`, await sharedRedis());
  }

  /** One more node. */
  node(options: RedisBackendOptions = {}, target: string | Parameters<typeof makeRedisBackend>[0] = this.redis.url) {
    const backend = makeRedisBackend(target, { prefix: this.prefix, ...options }, { time: this.time });
    this.#backends.push(backend);
    return backend;
  }

  /** Lets the time of Redis pass for the keys of this test: what expires sooner is gone. */
  async advance(ms: number): Promise<void> {
    await this.redis.admin.eval(ADVANCE, 1, this.#shift, `${this.prefix}:*`, ms);
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

const ADVANCE = `
redis.call('INCRBY', KEYS[1], ARGV[2])
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local left = redis.call('PTTL', key)
  if left >= 0 then redis.call('PEXPIRE', key, left - tonumber(ARGV[2])) end
end
`;
