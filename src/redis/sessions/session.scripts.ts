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
 * ARGV: life. Returns the time, and where its index is, or nothing if there is no record. The log is refreshed when a tenth of its life has passed: it has as many
 * keys as there are calls open, and one session must not keep Redis busy.
 */
export const touchRecord = new RedisScript(
  'touch',
  `
if call('EXISTS', KEYS[1]) == 0 then return false end
local at, life = int(now()), ARGV[1]
call('HSET', KEYS[1], 'seen', at, 'used', 1)
call('PEXPIRE', KEYS[1], life)
local base = string.sub(KEYS[1], 1, -8)
if call('PTTL', base..'log') <= tonumber(life) * 0.9 then
  for _, name in ipairs({'log', 'streams'}) do call('PEXPIRE', base..name, life) end
  for _, stream in ipairs(call('ZRANGEBYSCORE', base..'streams', '+inf', '+inf')) do
    call('PEXPIRE', base..'events:'..stream, life)
  end
end
return {at, call('HGET', KEYS[1], 'index')}
`,
);

/**
 * ARGV: '' or the time by which it must have been seen last; the time that suffices for an unused one. Returns all fields and
 * values, nothing if there is no record, or, if that is too late, when it was seen and whether it is used.
 */
export const removeRecord = new RedisScript(
  'delete',
  `
if call('EXISTS', KEYS[1]) == 0 then return false end
local seen, used = call('HGET', KEYS[1], 'seen'), call('HEXISTS', KEYS[1], 'used')
local function by(time) return tonumber(seen) <= tonumber(time) end
if ARGV[1] ~= '' and not by(ARGV[1]) and (used == 1 or not by(ARGV[2])) then return {seen, used} end
local record = call('HGETALL', KEYS[1])
call('UNLINK', KEYS[1])
return record
`,
);

/**
 * # Which sessions there are
 *
 * Everything in one slot, so that caps are checked and counted in one step; or in several slots, each with its part of the
 * sessions and of the caps. Members are session ids as codes.
 *
 *     :seen        zset  all of them; score: the last activity, or later; the record decides
 *     :unused      zset  the unused ones, and used ones of which this is not known yet; score: when they were made, or later
 *     :owner       hash  whose it is
 *     :of:<owner>  set   those of one owner
 *
 * An entry is made before its record and removed after it: a node that dies in between leaves an entry without a record,
 * never a record that is in no index. Such an entry is claimed, in its time, by `claimExpired`, and found to be empty.
 */
const INDEX = `
local base, life = KEYS[1], tonumber(ARGV[1])
local SEEN, UNUSED, OWNER = base..'seen', base..'unused', base..'owner'
local function of(owner) return base..'of:'..owner end

local function live(owner)
  for _, key in ipairs({SEEN, UNUSED, OWNER, of(owner)}) do call('PEXPIRE', key, life) end
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
for _, key in ipairs({SEEN, UNUSED}) do call('ZADD', key, int(now()), id) end
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
call('ZREM', UNUSED, ARGV[2])
live(call('HGET', OWNER, ARGV[2]) or '')
`,
);

/** ARGV: life, id, time of the last activity, whether it is used. Releases a claim: its lease may be later than the next time to look. */
export const unclaim = new RedisScript(
  'claimExpired',
  `${INDEX}
for _, key in ipairs({SEEN, UNUSED}) do call('ZADD', key, 'XX', ARGV[3], ARGV[2]) end
if ARGV[4] == '1' then call('ZREM', UNUSED, ARGV[2]) end
`,
);

/**
 * ARGV: life, owner, milliseconds of the lease. Returns the session of the owner that is silent for longest. When a node dies that has
 * claimed it, another one claims it after the lease, if those that were silent for longer are gone.
 */
export const claimOf = new RedisScript(
  'claimAnonymous',
  `${INDEX}
local owner = ARGV[2]
if call('SCARD', of(owner)) == 0 then return false end
local step = 100
for from = 0, call('ZCARD', SEEN) - 1, step do
  local ids = call('ZRANGE', SEEN, from, from + step - 1)
  for i, whose in ipairs(call('HMGET', OWNER, unpack(ids))) do
    if whose == owner then
      call('ZADD', SEEN, int(now() + ARGV[3]), ids[i])
      return ids[i]
    end
  end
end
return false
`,
);

/** ARGV: life, id. */
export const leave = new RedisScript(
  'delete',
  `${INDEX}
local owner = call('HGET', OWNER, ARGV[2])
if owner then call('SREM', of(owner), ARGV[2]) end
call('HDEL', OWNER, ARGV[2])
for _, key in ipairs({SEEN, UNUSED}) do call('ZREM', key, ARGV[2]) end
`,
);

/**
 * ARGV: life, milliseconds of silence, the same for the unused ones (-1: for ever), how many, milliseconds of the lease.
 * Returns the two times by which they must have been seen last, and those that were not seen since, the longest silent first.
 * When a node dies that has claimed some, others claim them after the lease.
 */
export const claim = new RedisScript(
  'claimExpired',
  `${INDEX}
local at, limit, lease = now(), tonumber(ARGV[4]), tonumber(ARGV[5])
local function by(ms) return ms < 0 and '-1' or int(at - ms) end
local function silent(key, ms) return call('ZRANGEBYSCORE', key, '-inf', by(ms), 'LIMIT', 0, limit) end

local idleMs, unusedMs = tonumber(ARGV[2]), tonumber(ARGV[3])
local idle, unused = silent(SEEN, idleMs), silent(UNUSED, unusedMs)
local claimed, known = {by(idleMs), by(unusedMs)}, {}
local function take(key, ids, ms)
  for _, id in ipairs(ids) do
    if #claimed < limit + 2 and not known[id] then
      call('ZADD', key, int(at - ms + lease), id)
      table.insert(claimed, id)
      known[id] = true
    end
  end
end
take(SEEN, idle, idleMs)
take(UNUSED, unused, unusedMs)
return claimed
`,
);
