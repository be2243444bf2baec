import { RedisScript } from '../connection/redis-connection.js';

/**
 * # The event log of one session, as Lua
 *
 *     :log      hash    units: sum of all streams; dropped; inboxAt, inboxUpTo: a mark of the inbox; s:<stream>: a head;
 *                       server: the process of Redis that wrote it last; lostAt: when another one went on; skipped: by how much
 *     :streams  zset    each stream; score: when it is forgotten, +inf while it is open
 *     :events:  stream  the events that are kept; the id is '<index>-0', the only field has the units as its name and the data
 *
 * A head, as JSON that only Lua reads (so that an empty list may become `{}`):
 *
 *     n  index of the newest event         r  the newest reader: {node, reader}; absent: there is none
 *     d  index up to which was delivered   w  writers: {writer, seq, first} of their last append
 *     b  UTF-16 units that are kept        o  requests that are not settled, as JSON
 *     x  1: it has ended                   k  the node that opened them
 *     e  indices that were skipped
 *
 * Finished streams are forgotten by the next script that runs on the session; their events expire by themselves. Of a dropped
 * session all keys do.
 *
 * **No index is used twice** (rule G12), although Redis may fail over to a replica that lacks the last events. A writer that writes a
 * stream alone names the newest index that it knows. Any other append asks which process of Redis runs it; if that is
 * another one than before, the stream goes on behind `SKIP` indices, which is more than a replica can lag behind. Readers see the gap.
 */
const SESSION_LOG = `
local base = string.sub(KEYS[1], 1, -4)
local LOG, STREAMS = KEYS[1], base..'streams'
local WRITERS, INBOX_MS, SKIP = 32, 60000, 1000000
local function EVENTS(stream) return base..'events:'..stream end

local state = call('HMGET', LOG, 'units', 'dropped', 'inboxAt', 'inboxUpTo', 'server', 'skipped')
local opened, units, dropped = state[1] ~= false, tonumber(state[1]), state[2] ~= false
local skipped = tonumber(state[6] or 0)
local life

local function load(stream)
  local text = call('HGET', LOG, 's:'..stream)
  return text and cjson.decode(text)
end

local function save(stream, head)
  call('HSET', LOG, 's:'..stream, cjson.encode(head), 'units', int(units))
end

-- Milliseconds that what is written now may stay. Refreshed for everything when a tenth of it has passed.
local function keep(ms)
  life = tonumber(ms)
  local left = call('PTTL', LOG)
  if dropped then life = left return end
  -- Activity of the session may have given it longer.
  if left > life * 0.9 then life = math.max(life, left) return end
  call('PEXPIRE', LOG, int(life))
  call('PEXPIRE', STREAMS, int(life))
  for _, stream in ipairs(call('ZRANGEBYSCORE', STREAMS, '+inf', '+inf')) do call('PEXPIRE', EVENTS(stream), int(life)) end
end

local function put(stream, score)
  call('ZADD', STREAMS, score, stream)
  call('PEXPIRE', STREAMS, int(life))
end

local function begin(stream)
  local head = {n = 0, d = 0, b = 0, w = {}, o = {}}
  put(stream, '+inf')
  save(stream, head)
  return head
end

local function forget(stream)
  local head = load(stream)
  if head then units = units - head.b end
  call('HDEL', LOG, 's:'..stream)
  call('HSET', LOG, 'units', int(units))
  call('ZREM', STREAMS, stream)
  call('UNLINK', EVENTS(stream))
end

-- Forgets what has finished long enough ago. To be called first.
local function sweep()
  if dropped then return end
  for _, stream in ipairs(call('ZRANGEBYSCORE', STREAMS, '-inf', int(now()))) do forget(stream) end
end

local function oldest(stream)
  return call('XRANGE', EVENTS(stream), '-', '+', 'COUNT', 1)[1]
end

local function index(entry)
  return tonumber(string.match(entry[1], '^%d+'))
end

local function push(stream, head, size, data)
  head.n = head.n + 1
  call('XADD', EVENTS(stream), int(head.n)..'-0', size, data)
  head.b, units = head.b + size, units + size
end

local function evict(stream, head)
  local entry = oldest(stream)
  if not entry then units, head.b = units - head.b, 0 return end
  call('XDEL', EVENTS(stream), entry[1])
  local size = tonumber(entry[2][1])
  head.b, units = head.b - size, units - size
end

-- Another process of Redis than the one before may lack events that clients have seen.
local function compareServer()
  local process = server()
  if process == '' or process == state[5] then return end
  call('HSET', LOG, 'server', process)
  if not state[5] then return end
  skipped = skipped + SKIP
  call('HSET', LOG, 'lostAt', int(now()), 'skipped', int(skipped))
end

local function skipLost(head)
  local behind = skipped - (head.e or 0)
  if behind > 0 then head.n, head.e = head.n + behind, skipped end
end

-- The writer has written to a stream that is unknown: it was finished and forgotten, or it was lost a short while ago.
local function isLost(keptMs)
  compareServer()
  local at = call('HGET', LOG, 'lostAt')
  return at and now() - at < tonumber(keptMs)
end

-- Evicts until there are at most so many units, but for the newest event of each stream: from finished streams first.
local function shrink(streams, most)
  for _, stream in ipairs(streams) do
    if units <= most then return end
    local kept = call('XLEN', EVENTS(stream))
    if kept > 1 then
      local head = load(stream)
      while kept > 1 and units > most do evict(stream, head) kept = kept - 1 end
      save(stream, head)
    end
  end
end

-- More than it must, since all streams are looked through: the largest of the open ones first, then finished ones as a whole.
local function relieve(limit)
  if units * 2 <= limit then return end
  local most = limit * 7 / 16
  local finished = call('ZRANGEBYSCORE', STREAMS, '-inf', '(+inf')
  shrink(finished, most)
  local open, size = {}, {}
  for _, stream in ipairs(call('ZRANGEBYSCORE', STREAMS, '+inf', '+inf')) do
    if stream ~= 'inbox' then table.insert(open, stream) size[stream] = load(stream).b end
  end
  table.sort(open, function(one, other) return size[one] > size[other] end)
  shrink(open, most)
  for _, stream in ipairs(finished) do
    if units * 2 <= limit then return end
    forget(stream)
  end
end

local function describe(stream, head)
  local first = oldest(stream)
  local node, reader = '', ''
  if head.r then node, reader = head.r[1], head.r[2] end
  return {'ok', head.n, first and index(first) or head.n + 1, head.d, head.x or 0, node, reader}
end

local function acknowledge(stream, head, index)
  local upTo = math.min(tonumber(index), head.n)
  if upTo > head.d then head.d = upTo save(stream, head) end
end
`;

/**
 * The scripts are the calls of the event store, each in one step. KEYS[1] is the log of the session; names are codes. A
 * refusal says which.
 */
const script = (name: string, body: string): RedisScript => new RedisScript(name, `${SESSION_LOG}${body}`);

/** ARGV: life. */
export const openLog = new RedisScript(
  'open',
  `
if call('HEXISTS', KEYS[1], 'dropped') == 1 then return end
call('HSETNX', KEYS[1], 'units', 0)
call('HSETNX', KEYS[1], 'server', server())
call('PEXPIRE', KEYS[1], ARGV[1])
`,
);

/**
 * ARGV: what is to be done, as JSON (see redis-event-store.ts), the text for the newest reader's node, then units and data of each
 * event. Returns the index of the first, the newest reader if it is on the node that appends, the node that need no longer note
 * the stream, and whether events were lost.
 */
export const appendToLog = script(
  'append',
  `
if not opened or dropped then return {'gone'} end
local a = cjson.decode(ARGV[1])
local stream, count = a.stream, (#ARGV - 2) / 2
sweep()
if not a.newest then compareServer() end
local head = load(stream)

local lost = false

local function result(first)
  local reader = head.r and head.r[1] == a.self and head.r[2] or ''
  return {'ok', first, reader, #head.o == 0 and head.k or '', lost and 1 or 0}
end
local writer
for _, mark in ipairs(head and head.w or {}) do
  if mark[1] == a.writer then writer = mark end
end
if writer and a.seq <= writer[2] then return result(writer[3]) end
if head and head.x then return {'ended'} end
if not head and a.seq > 1 and stream ~= '0' and not (a.newest and isLost(a.finished)) then return {'ended'} end
keep(a.life)
head = head or begin(stream)
if stream == 'inbox' and count > 0 then
  local at, upTo = tonumber(state[3] or 0), tonumber(state[4] or 0)
  if now() - at >= INBOX_MS then
    local entry = oldest(stream)
    while entry and index(entry) <= upTo do evict(stream, head) entry = oldest(stream) end
    call('HSET', LOG, 'inboxAt', int(now()), 'inboxUpTo', int(head.n))
  end
  if call('XLEN', EVENTS(stream)) + count > a.maxEvents then save(stream, head) return {'full', 'eventLog.maxEvents'} end
  if head.b * 2 > a.maxBytes then save(stream, head) return {'full', 'eventLog.maxBytes'} end
end

lost = a.newest and a.newest > head.n
if lost then head.n = a.newest elseif not a.newest then skipLost(head) end
local first = head.n + 1
for i = 3, #ARGV, 2 do push(stream, head, tonumber(ARGV[i]), ARGV[i + 1]) end
local kept = call('XLEN', EVENTS(stream))
if count > 0 and kept == count then call('PEXPIRE', EVENTS(stream), int(life)) end
while kept > a.maxEvents do evict(stream, head) kept = kept - 1 end

if writer then writer[2], writer[3] = a.seq, first
else
  if #head.w == WRITERS then table.remove(head.w, 1) end
  table.insert(head.w, {a.writer, a.seq, first})
end
if a.node and not head.k then head.k, head.o = a.node, a.requests end
for _, settled in ipairs(a.settles) do
  for i, request in ipairs(head.o) do
    if request == settled then table.remove(head.o, i) break end
  end
end
if a.ends then
  head.x, head.o = 1, {}
  if stream ~= '0' then
    put(stream, int(now() + a.finished))
    call('PEXPIRE', EVENTS(stream), int(a.finished + 1000))
    if call('ZCOUNT', STREAMS, '-inf', '(+inf') > a.maxEvents then forget(call('ZRANGE', STREAMS, 0, 0)[1]) end
  end
end
save(stream, head)
relieve(a.maxBytes)

local reader = head.r
if reader and reader[1] ~= a.self and (count > 0 or a.ends) then call('PUBLISH', a.channel..reader[1], ARGV[2]) end
return result(first)
`,
);

/** ARGV: stream, after, limit, delivered. Returns the head, and the events that come first after the cursor. */
export const readLog = script(
  'read',
  `
if not opened then return {'gone'} end
sweep()
local stream, limit = ARGV[1], tonumber(ARGV[3])
local head = load(stream)
if not head then
  if stream == '0' then return {'ok', 0, 1, 0, 0, '', ''} end
  return {'unknown'}
end
acknowledge(stream, head, ARGV[4])
local result = describe(stream, head)
local from = tonumber(ARGV[2]) + 1
if limit < 1 or from > head.n then return result end
for _, entry in ipairs(call('XRANGE', EVENTS(stream), int(from), '+', 'COUNT', limit)) do
  table.insert(result, entry[1])
  table.insert(result, entry[2][2])
end
return result
`,
);

/** ARGV: life, stream, node, reader, '1' for the first of a stream. Returns the head, with the reader that was the newest before. */
export const claimStream = script(
  'claim',
  `
if not opened then return {'gone'} end
sweep()
keep(ARGV[1])
local stream = ARGV[2]
local head = load(stream)
if not head then
  if stream ~= '0' then return {'unknown'} end
  head = begin(stream)
end
local before = describe(stream, head)
if head.r and (head.r[2] == ARGV[4] or ARGV[5] == '1') then return before end
head.r = {ARGV[3], ARGV[4]}
save(stream, head)
return before
`,
);

/** ARGV: stream, reader, delivered. */
export const releaseReader = script(
  'release',
  `
local head = opened and load(ARGV[1])
if not head then return end
acknowledge(ARGV[1], head, ARGV[3])
if head.r and head.r[2] == ARGV[2] then
  head.r = nil
  save(ARGV[1], head)
end
`,
);

/** ARGV: node, streams. Returns a list of each stream whose requests it has opened and that are not all settled: the stream, then they. */
export const unfinishedOf = script(
  'unfinished',
  `
local found = {}
for i = 2, #ARGV do
  local head = opened and not dropped and load(ARGV[i])
  if head and head.k == ARGV[1] and #head.o > 0 then
    table.insert(head.o, 1, ARGV[i])
    table.insert(found, head.o)
  end
end
return found
`,
);

/** ARGV: how long it can be read, '1' if there is an error, what comes before and after the id in it. Returns stream and node of what was noted. */
export const dropLog = script(
  'drop',
  `
if not opened or dropped then return {} end
keep(ARGV[1])
sweep()
compareServer()
if not load('0') then begin('0') end
local noted = {}
for _, stream in ipairs(call('ZRANGE', STREAMS, 0, -1)) do
  local head = load(stream)
  if not head.x then
    if head.k and #head.o > 0 then table.insert(noted, stream) table.insert(noted, head.k) end
    if ARGV[2] == '1' and #head.o > 0 then
      skipLost(head)
      for _, request in ipairs(head.o) do push(stream, head, 0, ARGV[3]..request..ARGV[4]) end
    end
    head.x, head.o = 1, {}
    save(stream, head)
  end
  call('PEXPIRE', EVENTS(stream), ARGV[1])
end
call('HSET', LOG, 'dropped', 1)
call('PEXPIRE', LOG, ARGV[1])
call('PEXPIRE', STREAMS, ARGV[1])
return noted
`,
);
