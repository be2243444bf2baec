import { RedisScript } from '../connection/redis-script.js';

/**
 * # Which sessions there are
 *
 * Everything in one slot, so that caps are checked and counted in one step. Members are session ids as codes.
 *
 *     :seen        zset  all of them; score: the last activity, or later; the record decides
 *     :owner       hash  whose it is
 *     :of:<owner>  set   those of one owner
 *
 * An entry is made before its record and removed after it: a node that dies in between leaves an entry without a record,
 * never a record that nobody finds. Such an entry is claimed, in its time, by `claimExpired`, and found to be empty.
 */
const INDEX = `
local base, life = KEYS[1], tonumber(ARGV[1])
local SEEN, OWNER = base..'seen', base..'owner'
local function of(owner) return base..'of:'..owner end

local function live(owner)
  for _, key in ipairs({SEEN, OWNER, of(owner)}) do call('PEXPIRE', key, life) end
end
`;

/** ARGV: life, id, owner, cap of all, cap of one owner (-1: none). */
export const enter = new RedisScript(
  'create',
  `${INDEX}
local id, owner, total, each = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
if call('ZSCORE', SEEN, id) then return 'taken' end
if total >= 0 and call('ZCARD', SEEN) >= total then return 'total-cap' end
if each >= 0 and call('SCARD', of(owner)) >= each then return 'principal-cap' end
call('ZADD', SEEN, int(now()), id)
call('HSET', OWNER, id, owner)
call('SADD', of(owner), id)
live(owner)
return 'created'
`,
);

/** ARGV: life, id, time of the last activity. */
export const seen = new RedisScript(
  'touch',
  `${INDEX}
call('ZADD', SEEN, 'XX', 'GT', ARGV[3], ARGV[2])
live(call('HGET', OWNER, ARGV[2]) or '')
`,
);

/** ARGV: life, id. */
export const leave = new RedisScript(
  'delete',
  `${INDEX}
local owner = call('HGET', OWNER, ARGV[2])
if owner then call('SREM', of(owner), ARGV[2]) end
call('HDEL', OWNER, ARGV[2])
call('ZREM', SEEN, ARGV[2])
`,
);

/**
 * ARGV: life, milliseconds of silence, how many, milliseconds of the lease. Returns before when they were seen last, and
 * those that are silent, the longest first. Whoever dies with them in hand loses them to others after the lease.
 */
export const claim = new RedisScript(
  'claimExpired',
  `${INDEX}
local at = now()
local before = int(at - tonumber(ARGV[2]))
local ids = call('ZRANGEBYSCORE', SEEN, '-inf', before, 'LIMIT', 0, ARGV[3])
local claimed = {before}
for _, id in ipairs(ids) do
  call('ZADD', SEEN, int(at - tonumber(ARGV[2]) + tonumber(ARGV[4])), id)
  table.insert(claimed, id)
end
return claimed
`,
);
