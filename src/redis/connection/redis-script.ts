import { createHash } from 'node:crypto';

/** `now()` of our scripts: milliseconds by the clock of Redis, so that the clocks of the nodes need not agree. */
export const REDIS_TIME = `
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
`;

/** Whole numbers as texts: Lua itself would write 1e+15. */
const HELPERS = `
local call = redis.call
local function int(n) return string.format('%.0f', n) end
`;

/** A Lua script: Redis runs it in one step. */
export class RedisScript {
  constructor(
    /** For messages. */
    readonly name: string,
    private readonly body: string,
  ) {}

  /** @param time defines `now()` */
  with(time: string): LoadedScript {
    const text = `${time}${HELPERS}${this.body}`;
    return { name: this.name, text, sha: createHash('sha1').update(text).digest('hex') };
  }
}

export interface LoadedScript {
  readonly name: string;
  readonly text: string;
  /** For `EVALSHA`, once Redis has seen the script. */
  readonly sha: string;
}
