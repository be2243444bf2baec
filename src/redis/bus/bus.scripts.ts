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
 *     :nodes  zset    score: the last beat
 *     :lost   zset    nodes that have died; score: until when somebody else sees to what they left
 *     :quiet  string  nobody is taken for dead for as long as it exists
 *
 * When nobody has beaten for half of the time after which a node is dead, it was Redis that was away: then nobody is taken
 * for dead until all have had their full time to be heard again.
 *
 * ARGV: node, milliseconds without a beat after which a node is dead, milliseconds of the lease, life, how many nodes to claim.
 * Returns whether this node was known, and the dead that are now its to see to.
 */
export const beat = new RedisScript(
  'beat',
  `
local base, node = KEYS[1], ARGV[1]
local NODES, LOST, QUIET = base..'nodes', base..'lost', base..'quiet'
local dead, lease, life, most = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local at = now()

local latest = call('ZRANGE', NODES, -1, -1, 'WITHSCORES')
if latest[2] and at - tonumber(latest[2]) > dead / 2 then call('SET', QUIET, 1, 'PX', int(dead)) end

local known = 1 - call('ZADD', NODES, int(at), node)
if call('EXISTS', QUIET) == 0 then
  for _, silent in ipairs(call('ZRANGEBYSCORE', NODES, '-inf', int(at - dead))) do
    call('ZREM', NODES, silent)
    call('ZADD', LOST, int(at), silent)
  end
end

-- It lives, and nobody is seeing to what it left.
local own = call('ZSCORE', LOST, node)
if own and tonumber(own) <= at then call('ZREM', LOST, node) end

local claimed = {known}
for _, lost in ipairs(call('ZRANGEBYSCORE', LOST, '-inf', int(at), 'LIMIT', 0, most)) do
  call('ZADD', LOST, int(at + lease), lost)
  table.insert(claimed, lost)
end
call('PEXPIRE', NODES, life)
call('PEXPIRE', LOST, life)
return claimed
`,
);
