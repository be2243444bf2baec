import { RedisScript } from '../connection/redis-script.js';

/**
 * # The record of one session
 *
 * A hash, so that a patch changes what it names and nothing else. All values are texts that only the nodes understand:
 * Lua's JSON would turn an empty list into `{}` and round large numbers. See record-fields.ts.
 *
 * Beside it, in the same slot, lies the session's event log. Activity of the session keeps its log, too; and when the
 * record goes, the log has a few minutes left, if no node drops it.
 */

/** Lets the whole log of the session live for so long from now. */
const LOG = `
local base = string.sub(KEYS[1], 1, -8)
local function keepLog(life)
  for _, name in ipairs({'log', 'streams'}) do call('PEXPIRE', base..name, life) end
  for _, stream in ipairs(call('ZRANGEBYSCORE', base..'streams', '+inf', '+inf')) do
    call('PEXPIRE', base..'events:'..stream, life)
  end
end
`;

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

/** ARGV: pairs: '-', field to remove; '+', field to number, if it is new; or field, value. Returns all fields and values. */
export const patchRecord = new RedisScript(
  'patch',
  `
if call('EXISTS', KEYS[1]) == 0 then return false end
for i = 1, #ARGV, 2 do
  local what, field = ARGV[i], ARGV[i + 1]
  if what == '-' then call('HDEL', KEYS[1], field)
  elseif what == '+' then
    if call('HEXISTS', KEYS[1], field) == 0 then call('HSET', KEYS[1], field, call('HINCRBY', KEYS[1], 'count', 1)) end
  else call('HSET', KEYS[1], what, field) end
end
return call('HGETALL', KEYS[1])
`,
);

/**
 * ARGV: life. Returns the time, or nothing if there is no record. The log is refreshed when a tenth of its life has passed: it has as many
 * keys as there are calls open, and one session must not keep Redis busy.
 */
export const touchRecord = new RedisScript(
  'touch',
  `${LOG}
if call('EXISTS', KEYS[1]) == 0 then return false end
local at = int(now())
call('HSET', KEYS[1], 'seen', at)
call('PEXPIRE', KEYS[1], ARGV[1])
if call('PTTL', base..'log') <= tonumber(ARGV[1]) * 0.9 then keepLog(ARGV[1]) end
return at
`,
);

/**
 * ARGV: '' or the time before which it must have been seen last, milliseconds that its log has left. Returns all fields and values, nothing
 * if there is no record, or when it was seen if that is too late.
 */
export const removeRecord = new RedisScript(
  'delete',
  `${LOG}
if call('EXISTS', KEYS[1]) == 0 then return false end
local seen = call('HGET', KEYS[1], 'seen')
if ARGV[1] ~= '' and tonumber(seen) > tonumber(ARGV[1]) then return seen end
local record = call('HGETALL', KEYS[1])
call('UNLINK', KEYS[1])
if call('EXISTS', base..'log') == 1 then
  call('HSET', base..'log', 'ending', 1)
  keepLog(ARGV[2])
end
return record
`,
);
