import { type RedisConnection, RedisScript } from './redis-connection.js';

/** In a cluster, each check writes to one of so many slots, chosen at random, beside those that every request needs. */
const SLOTS = 64;

/**
 * Checks that Redis takes what this package writes, and that the user of Redis may run all of its commands.
 *
 * @returns what operators should know, although everything works
 * @throws (rejects) RedisUnavailableError; McpOptionError when Redis refuses the database
 */
export async function probeRedis(connection: RedisConnection): Promise<string[]> {
  const { keys } = connection;
  const places = [
    keys.probe(Math.floor(Math.random() * SLOTS)),
    keys.index(0, connection.options.sessionSlots),
    keys.bus,
  ];
  const asked = connection.isCluster ? places : places.slice(0, 1);
  const [policies] = await Promise.all([
    Promise.all(asked.map((place) => connection.run(probe, place, keys.probeChannel))),
    // Scripts are run by EVALSHA, and by EVAL only once Redis has lost them.
    connection.command('check', (client) => client.eval('return 1', 1, keys.bus)),
  ]);
  return [...new Set(policies.map(String))].flatMap(remarkOn);
}

/** @param policy how Redis frees memory; empty: the user of Redis may not ask */
function remarkOn(policy: string): string[] {
  if (policy === 'noeviction') return [];
  if (policy === '') {
    return [
      'The user of Redis may not run INFO, so failovers are not noticed, and it is not known whether Redis evicts keys. Allow INFO: see "Permissions" in docs/several-nodes.md.',
    ];
  }
  return [
    `Redis evicts keys when its memory is full: its maxmemory-policy is "${policy}". Sessions, tasks and states then vanish, switched-off tools are on again, and a repeated call with an idempotency key runs twice. Set maxmemory-policy noeviction.`,
  ];
}

/**
 * Runs each command that a script or a store of this package runs, on keys that vanish at once. The first one needs memory,
 * since a script that has already freed some may write in a Redis that is full.
 *
 * ARGV: a channel. Returns how Redis frees memory, '' if the user may not ask. Fails with what Redis refuses.
 */
export const probe = new RedisScript(
  'check',
  `
local function at(name) return KEYS[1]..'probe:'..name end
local text, hash, set, zset, stream = at('text'), at('hash'), at('set'), at('zset'), at('stream')
local commands = {
  {'SET', text, '1', 'PX', '1000'}, {'PTTL', text}, {'PERSIST', text}, {'PEXPIRE', text, '1000'}, {'EXISTS', text}, {'GET', text},
  {'HSET', hash, 'a', '1'}, {'HSETNX', hash, 'a', '1'}, {'HGET', hash, 'a'}, {'HMGET', hash, 'a'}, {'HGETALL', hash}, {'HKEYS', hash},
  {'HEXISTS', hash, 'a'}, {'HDEL', hash, 'a'},
  {'SADD', set, 'a'}, {'SCARD', set}, {'SMEMBERS', set}, {'SREM', set, 'a'},
  {'ZADD', zset, '1', 'a'}, {'ZINCRBY', zset, '1', 'a'}, {'ZSCORE', zset, 'a'}, {'ZCARD', zset}, {'ZCOUNT', zset, '-inf', '+inf'},
  {'ZRANGE', zset, '0', '-1'}, {'ZRANGEBYSCORE', zset, '-inf', '+inf'}, {'ZREMRANGEBYSCORE', zset, '5', '6'}, {'ZREM', zset, 'a'},
  {'XADD', stream, 'MAXLEN', '1', '*', 'a', '1'}, {'XLEN', stream}, {'XRANGE', stream, '-', '+'}, {'XDEL', stream, '1-0'},
  {'PUBLISH', ARGV[1], ''}, {'TIME'}, {'UNLINK', text, hash, set, zset, stream},
}
local forbidden = {}
for _, command in ipairs(commands) do
  local answer = redis.pcall(unpack(command))
  local fault = type(answer) == 'table' and answer.err
  if fault then
    local may = not (string.find(fault, 'permission') or string.find(fault, "can't run") or string.find(fault, "can't access"))
    if may then return answer end
    table.insert(forbidden, command[1])
  end
end
if #forbidden > 0 then
  return redis.error_reply('NOPERM its user may not run, on its keys or channels: '..table.concat(forbidden, ', '))
end
local info = redis.pcall('INFO', 'memory')
return type(info) == 'string' and string.match(info, 'maxmemory_policy:([%w-]+)') or ''
`,
);
