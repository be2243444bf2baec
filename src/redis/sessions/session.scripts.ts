import { RedisScript } from '../connection/redis-connection.js';

/**
 * # The record of one session
 *
 * A hash, so that a patch changes what it names and nothing else. All values are texts that only the nodes understand:
 * Lua's JSON would turn an empty list into `{}` and round large numbers. See redis-session-store.ts.
 *
 * Beside it, in the same slot, lies the session's event log. Activity of the session keeps its log, too.
 */

/** ARGV: life, fields and values. Returns whether there was none. */
export const createRecord = new RedisScript(
  'create',
  `
if call('EXISTS', KEYS[1]) == 1 then return 0 end
local at = int(now())
call('HSET', KEYS[1], 'created', at, 'seen', at, unpack(ARGV, 2))
call('PEXPIRE', KEYS[1], ARGV[1])
return 1
`,
);

/** ARGV: pairs: '-', field to remove; or field, value. Returns whether there is a record, and nothing of it: it may be large. */
export const patchRecord = new RedisScript(
  'patch',
  `
if call('EXISTS', KEYS[1]) == 0 then return 0 end
for i = 1, #ARGV, 2 do
  local what, field = ARGV[i], ARGV[i + 1]
  if what == '-' then call('HDEL', KEYS[1], field)
  else call('HSET', KEYS[1], what, field) end
end
return 1
`,
);

/**
 * ARGV: life. Returns the time, or nothing if there is no record. The log is refreshed when a tenth of its life has passed: it has as many
 * keys as there are calls open, and one session must not keep Redis busy.
 */
export const touchRecord = new RedisScript(
  'touch',
  `
if call('EXISTS', KEYS[1]) == 0 then return false end
local at, life = int(now()), ARGV[1]
call('HSET', KEYS[1], 'seen', at)
call('PEXPIRE', KEYS[1], life)
local base = string.sub(KEYS[1], 1, -8)
if call('PTTL', base..'log') <= tonumber(life) * 0.9 then
  for _, name in ipairs({'log', 'streams'}) do call('PEXPIRE', base..name, life) end
  for _, stream in ipairs(call('ZRANGEBYSCORE', base..'streams', '+inf', '+inf')) do
    call('PEXPIRE', base..'events:'..stream, life)
  end
end
return at
`,
);

/**
 * ARGV: '' or the time before which it must have been seen last. Returns all fields and values, nothing
 * if there is no record, or when it was seen if that is too late.
 */
export const removeRecord = new RedisScript(
  'delete',
  `
if call('EXISTS', KEYS[1]) == 0 then return false end
local seen = call('HGET', KEYS[1], 'seen')
if ARGV[1] ~= '' and tonumber(seen) > tonumber(ARGV[1]) then return seen end
local record = call('HGETALL', KEYS[1])
call('UNLINK', KEYS[1])
return record
`,
);

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
 * never a record that is in no index. Such an entry is claimed, in its time, by `claimExpired`, and found to be empty.
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

/** ARGV: life, id, time of the last activity. Releases a claim: its lease may be later than the next time to look. */
export const unclaim = new RedisScript('claimExpired', `${INDEX} call('ZADD', SEEN, 'XX', ARGV[3], ARGV[2])`);

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
 * those that are silent, the longest first. When a node dies that has claimed some, others claim them after the lease.
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
