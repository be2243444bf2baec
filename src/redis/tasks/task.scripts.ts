import { RedisScript } from '../connection/redis-connection.js';

/**
 * # The keys of tasks
 *
 *     :task:<id>    hash  'about', 'owner', 'node', 'status', 'message', 'updated', 'outcome'; 'q:<key>' and 'a:<key>':
 *                         questions, and answers
 *     :ids          zset  all tasks; score: when they expire
 *     :of:<owner>   zset  the same of one owner
 *     :from:<hash>  zset  the same of the anonymous callers of one address
 *     :on:<node>    set   tasks of a node that have not ended; those that have expired, until it is read
 *
 * Values are texts that only the nodes read. Task keys expire in Redis; the indexes are cleaned by the next script that reads them.
 */
const TASKS = `
local base = KEYS[1]
local IDS = base..'ids'
local function task(id) return base..'task:'..id end
local function of(owner) return base..'of:'..owner end
local function on(node) return base..'on:'..node end
local function from(address) return base..'from:'..address end

-- Extends the life of a key to these milliseconds at least.
local function live(key, ms)
  if call('PTTL', key) < tonumber(ms) then call('PEXPIRE', key, ms) end
end

local function status(id) return call('HGET', task(id), 'status') end
local function active(status) return status == 'working' or status == 'input_required' end
`;

/** ARGV: id, owner, node, milliseconds that it is kept, limit in all, limit of the owner and of
 * the address (-1: none), about, time, address or ''.
 */
export const create = new RedisScript(
  'create task',
  `${TASKS}
local id, owner, node, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local total, each, ofAddress, address = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[10]
local at = now()
local indexes = {IDS, of(owner)}
if address ~= '' then table.insert(indexes, from(address)) end
for _, key in ipairs(indexes) do call('ZREMRANGEBYSCORE', key, '-inf', int(at)) end
if total >= 0 and call('ZCARD', IDS) >= total then return 'total-cap' end
if each >= 0 and call('ZCARD', of(owner)) >= each then return 'principal-cap' end
if address ~= '' and ofAddress >= 0 and call('ZCARD', from(address)) >= ofAddress then return 'address-cap' end
call('HSET', task(id), 'about', ARGV[8], 'owner', owner, 'node', node, 'status', 'working', 'updated', ARGV[9])
if address ~= '' then call('HSET', task(id), 'from', address) end
call('PEXPIRE', task(id), ttl)
for _, key in ipairs(indexes) do
  call('ZADD', key, int(at + ttl), id)
  live(key, ttl)
end
call('SADD', on(node), id)
live(on(node), ttl)
return 'created'
`,
);

/** ARGV: id. Returns all fields and values. */
export const get = new RedisScript('get task', `${TASKS}return call('HGETALL', task(ARGV[1]))`);

/** ARGV: id, the expected ones, each between commas; fields and values. Returns whether it was changed. */
export const patch = new RedisScript(
  'patch task',
  `${TASKS}
local id = ARGV[1]
local before = status(id)
if not before or not string.find(ARGV[2], ','..before..',', 1, true) then return 0 end
call('HSET', task(id), unpack(ARGV, 3))
if not active(status(id)) then
  for _, field in ipairs(call('HKEYS', task(id))) do
    local kind = string.sub(field, 1, 2)
    if kind == 'q:' or kind == 'a:' then call('HDEL', task(id), field) end
  end
  call('SREM', on(call('HGET', task(id), 'node')), id)
end
return 1
`,
);

/** ARGV: id, time; keys and questions. Returns whether there was a task that had not ended. */
export const ask = new RedisScript(
  'ask for a task',
  `${TASKS}
local id = ARGV[1]
if not active(status(id)) then return 0 end
for i = 3, #ARGV, 2 do
  if call('HEXISTS', task(id), 'a:'..ARGV[i]) == 0 then
    call('HSET', task(id), 'q:'..ARGV[i], ARGV[i + 1], 'status', 'input_required')
  end
end
call('HSET', task(id), 'updated', ARGV[2])
return 1
`,
);

/** ARGV: id, time; keys and answers. Returns the keys that were asked. */
export const answer = new RedisScript(
  'answer a task',
  `${TASKS}
local id = ARGV[1]
local taken = {}
if not active(status(id)) then return taken end
for i = 3, #ARGV, 2 do
  if call('HDEL', task(id), 'q:'..ARGV[i]) == 1 then
    call('HSET', task(id), 'a:'..ARGV[i], ARGV[i + 1])
    table.insert(taken, ARGV[i])
  end
end
if #taken == 0 then return taken end
local now = 'working'
for _, field in ipairs(call('HKEYS', task(id))) do
  if string.sub(field, 1, 2) == 'q:' then now = 'input_required' end
end
call('HSET', task(id), 'status', now, 'updated', ARGV[2])
return taken
`,
);

/** ARGV: id. Returns how many there were. */
export const remove = new RedisScript(
  'delete task',
  `${TASKS}
local id = ARGV[1]
local where = call('HMGET', task(id), 'owner', 'node', 'from')
if not where[1] then return 0 end
call('UNLINK', task(id))
call('ZREM', IDS, id)
call('ZREM', of(where[1]), id)
if where[3] then call('ZREM', from(where[3]), id) end
call('SREM', on(where[2]), id)
return 1
`,
);

/** ARGV: node. Returns its tasks that have not ended. */
export const active = new RedisScript(
  'active tasks',
  `${TASKS}
local ids = {}
for _, id in ipairs(call('SMEMBERS', on(ARGV[1]))) do
  if active(status(id)) then table.insert(ids, id) else call('SREM', on(ARGV[1]), id) end
end
return ids
`,
);

/** ARGV: the rest of the key of an index. Returns about, status, message and time of each. */
export const list = new RedisScript(
  'list tasks',
  `${TASKS}
local found = {}
for _, id in ipairs(call('ZRANGEBYSCORE', base..ARGV[1], '('..int(now()), '+inf')) do
  local fields = call('HMGET', task(id), 'about', 'status', 'message', 'updated')
  if fields[1] then table.insert(found, fields) end
end
return found
`,
);
