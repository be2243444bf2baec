import { RedisScript } from '../connection/redis-script.js';

/**
 * # Which sessions there are
 *
 * Everything in one slot, so that caps are checked and counted in one step. Members are session ids as codes.
 *
 *     :all         zset  score: when it was created; +inf: it is only reserved
 *     :of:<owner>  zset  the same, of one owner
 *     :states      zset  those of the kind `state`
 *     :seen        zset  score: the last sign of life, or later; what the record says is what counts
 *     :reserved    zset  score: when the reservation expires
 *     :owner       hash  whose it is
 *
 * An entry is made before its record and removed after it: a node that dies in between leaves an entry without a record,
 * never a record that nobody finds. Such an entry is claimed, in its time, by `claimExpired`, and found to be empty.
 */
const INDEX = `
local base, life = KEYS[1], tonumber(ARGV[1])
local ALL, STATES, SEEN, RESERVED, OWNER = base..'all', base..'states', base..'seen', base..'reserved', base..'owner'
local function of(owner) return base..'of:'..owner end

local function live(owner)
  for _, key in ipairs({ALL, STATES, SEEN, RESERVED, OWNER, of(owner)}) do call('PEXPIRE', key, life) end
end

local function remove(id)
  local owner = call('HGET', OWNER, id)
  if owner then call('ZREM', of(owner), id) end
  call('HDEL', OWNER, id)
  for _, key in ipairs({ALL, STATES, SEEN, RESERVED}) do call('ZREM', key, id) end
end
`;

/** ARGV: life, id, owner, cap of all, cap of one owner (-1: none), milliseconds that it is kept. */
export const reserve = new RedisScript(
  'reserve',
  `${INDEX}
local id, owner, total, each, keep = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local at = now()
for _, over in ipairs(call('ZRANGEBYSCORE', RESERVED, '-inf', int(at))) do remove(over) end
if call('ZSCORE', ALL, id) then return 'taken' end
if total >= 0 and call('ZCARD', ALL) >= total then return 'total-cap' end
if each >= 0 and call('ZCARD', of(owner)) >= each then return 'principal-cap' end
call('ZADD', ALL, '+inf', id)
call('ZADD', of(owner), '+inf', id)
call('HSET', OWNER, id, owner)
call('ZADD', RESERVED, int(at + keep), id)
live(owner)
return 'reserved'
`,
);

/** ARGV: life, id. */
export const release = new RedisScript(
  'release',
  `${INDEX}
if call('ZSCORE', RESERVED, ARGV[2]) then remove(ARGV[2]) end
`,
);

/** ARGV: life, id, owner, '1' for a state. Returns the time, or nothing if the id has a record. */
export const enter = new RedisScript(
  'create',
  `${INDEX}
local id, owner = ARGV[2], ARGV[3]
if call('ZSCORE', ALL, id) and not call('ZSCORE', RESERVED, id) then return false end
remove(id)
local at = int(now())
call('ZADD', ALL, at, id)
call('ZADD', of(owner), at, id)
call('ZADD', SEEN, at, id)
call('HSET', OWNER, id, owner)
if ARGV[4] == '1' then call('ZADD', STATES, at, id) end
live(owner)
return at
`,
);

/** ARGV: life, id, last sign of life. */
export const seen = new RedisScript(
  'touch',
  `${INDEX}
call('ZADD', SEEN, 'XX', 'GT', ARGV[3], ARGV[2])
live(call('HGET', OWNER, ARGV[2]) or '')
`,
);

/** ARGV: life, id, last sign of life: it was claimed, and had been touched since. */
export const unclaim = new RedisScript(
  'claimExpired',
  `${INDEX}
call('ZADD', SEEN, 'XX', ARGV[3], ARGV[2])
`,
);

/** ARGV: life, id. */
export const leave = new RedisScript('delete', `${INDEX} remove(ARGV[2])`);

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

/** How many records there are: in all, and of the kind `state`. ARGV: life. */
export const count = new RedisScript(
  'count',
  `${INDEX}
return {call('ZCOUNT', ALL, '-inf', '(+inf'), call('ZCARD', STATES)}
`,
);
