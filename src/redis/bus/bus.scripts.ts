import { RedisScript } from '../connection/redis-script.js';

/** By way of a script with a key, since in a cluster only a key decides on the way: so messages of one node stay in order. ARGV: channel, message, and so on. */
export const publish = new RedisScript(
  'publish',
  `
for i = 1, #ARGV, 2 do call('PUBLISH', ARGV[i], ARGV[i + 1]) end
`,
);

/**
 * # Who lives
 *
 *     :nodes  zset  score: the last beat
 *     :lost   zset  nodes that have died; score: until when another node sees to what they left
 *     :heirs  hash  which one does
 *
 * When no node has beaten for half of the time after which a node is dead, it was Redis that was away: that time counts for no
 * node, so that one that lives is heard in time, and one that has died meanwhile is found as soon as without it.
 *
 * ARGV: node, milliseconds without a beat after which a node is dead, milliseconds of the lease, life, how many nodes to claim.
 * Returns whether this node was known, and the dead that are its to see to.
 */
export const beat = new RedisScript(
  'beat',
  `
local base, node = KEYS[1], ARGV[1]
local NODES, LOST, HEIRS = base..'nodes', base..'lost', base..'heirs'
local dead, lease, life, most = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local at = now()

local latest = call('ZRANGE', NODES, -1, -1, 'WITHSCORES')
local away = latest[2] and at - tonumber(latest[2]) or 0
if away > dead / 2 then
  for _, other in ipairs(call('ZRANGE', NODES, 0, -1)) do call('ZINCRBY', NODES, int(away), other) end
end

local known = 1 - call('ZADD', NODES, int(at), node)
for _, silent in ipairs(call('ZRANGEBYSCORE', NODES, '-inf', int(at - dead))) do
  call('ZREM', NODES, silent)
  call('ZADD', LOST, int(at), silent)
end

-- It lives, and no node is seeing to what it left.
local own = call('ZSCORE', LOST, node)
if own and tonumber(own) <= at then call('ZREM', LOST, node) call('HDEL', HEIRS, node) end

-- Again what it has claimed already: it may not have heard of it.
local claimed = {known}
local heirs = most > 0 and call('HGETALL', HEIRS) or {}
for i = 1, #heirs, 2 do
  if heirs[i + 1] == node and tonumber(call('ZSCORE', LOST, heirs[i]) or 0) > at then table.insert(claimed, heirs[i]) end
end
for _, lost in ipairs(call('ZRANGEBYSCORE', LOST, '-inf', int(at), 'LIMIT', 0, most)) do
  call('ZADD', LOST, int(at + lease), lost)
  call('HSET', HEIRS, lost, node)
  table.insert(claimed, lost)
end
for _, key in ipairs({NODES, LOST, HEIRS}) do call('PEXPIRE', key, life) end
return claimed
`,
);

/** ARGV: a node that has died, and of which nothing is left to see to. */
export const forgetLost = new RedisScript(
  'done',
  `
call('ZREM', KEYS[1]..'lost', ARGV[1])
call('HDEL', KEYS[1]..'heirs', ARGV[1])
`,
);
