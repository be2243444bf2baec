/**
 * # The event log of one session, as Lua
 *
 *     :log      hash    events, units: sums; age: counts the events; ending; s:<stream>: the head of a stream
 *     :streams  zset    each stream; score: when it is forgotten, +inf while it is open
 *     :order    zset    each stream with something to evict; score: the age of its oldest such event
 *     :spent    zset    each stream that has ended and holds no event; score: in the order in which that happened
 *     :events:  stream  `<index>-0`: age, units and data of an event
 *
 * A head, as JSON that only Lua reads (so that an empty list may become `{}`):
 *
 *     n  index of the newest event         d  index up to which it was delivered
 *     e  events that are kept              u  unread answers: {index, age}, ascending
 *     b  UTF-16 units that are kept        c  index of the oldest event that may be evicted; absent: there is none
 *     x  1: it has ended                   g  age of the newest event
 *     r  readers: {node, reader}, the newest last
 *     t  readers that have left lately: a call that was given up may still arrive, and must not bring one back
 *     w  writers: {writer, seq, first} of their last append
 *     o  open requests: {request, node}    k  nodes that have noted the stream for its open requests
 *
 * An event is pinned while it is the newest of an open stream, or an unread answer. Invariants: a stream is in `:order` exactly if
 * it has a `c`; before `c` everything is evicted or pinned. What is unpinned before `c` moves `c` back.
 *
 * Heads are read once and written once per script: `heads` holds them, `flush` writes what was `changed`.
 *
 * Streams that were finished are forgotten by the next script that runs on the session; their events expire by themselves.
 */
export const SESSION_LOG = `
local base = string.sub(KEYS[1], 1, -4)
local LOG, STREAMS, ORDER, SPENT = KEYS[1], base..'streams', base..'order', base..'spent'
local WRITERS, LEFT = 32, 8
local function EVENTS(stream) return base..'events:'..stream end

local heads, changed, dirty = {}, {}, false
local sums = call('HMGET', LOG, 'events', 'units', 'age', 'ending')
local opened = sums[1] ~= false
local events, units, age = tonumber(sums[1]), tonumber(sums[2]), tonumber(sums[3])

local function load(stream)
  if heads[stream] == nil then
    local text = call('HGET', LOG, 's:'..stream)
    heads[stream] = text and cjson.decode(text)
  end
  return heads[stream]
end

local function flush()
  if not dirty and not next(changed) then return end
  for stream in pairs(changed) do
    if heads[stream] then call('HSET', LOG, 's:'..stream, cjson.encode(heads[stream])) end
  end
  call('HSET', LOG, 'events', int(events), 'units', int(units), 'age', int(age))
end

local function forget(stream)
  local head = load(stream)
  if head then
    events, units = events - head.e, units - head.b
    call('HDEL', LOG, 's:'..stream)
  end
  heads[stream], changed[stream], dirty = false, nil, true
  call('ZREM', STREAMS, stream)
  call('ZREM', ORDER, stream)
  call('ZREM', SPENT, stream)
  call('UNLINK', EVENTS(stream))
end

-- Forgets what has finished long enough ago. To be called first.
local function sweep()
  for _, stream in ipairs(call('ZRANGEBYSCORE', STREAMS, '-inf', int(now()))) do forget(stream) end
end

-- Milliseconds that what is written now may stay. Refreshed for everything when a tenth of it has passed.
local life
local function keep(ms)
  life = tonumber(ms)
  local left = call('PTTL', LOG)
  if sums[4] then life = left return end
  if left > life * 0.9 then return end
  for _, key in ipairs({LOG, STREAMS, ORDER, SPENT}) do call('PEXPIRE', key, int(life)) end
  for _, stream in ipairs(call('ZRANGEBYSCORE', STREAMS, '+inf', '+inf')) do call('PEXPIRE', EVENTS(stream), int(life)) end
end

local function put(key, score, stream)
  call('ZADD', key, score, stream)
  call('PEXPIRE', key, int(life))
end

local function begin(stream)
  heads[stream] = {n = 0, e = 0, b = 0, d = 0, g = 0, u = {}, r = {}, t = {}, w = {}, o = {}, k = {}}
  changed[stream] = true
  put(STREAMS, '+inf', stream)
  return heads[stream]
end

local function unread(head, index)
  for _, answer in ipairs(head.u) do
    if answer[1] == index then return true end
  end
  return false
end

local function pinned(head, index)
  return (index == head.n and not head.x) or unread(head, index)
end

local function candidate(stream, head, index, itsAge)
  head.c = index
  put(ORDER, int(itsAge), stream)
end

local function noteSpent(stream, head)
  if head.x and head.e == 0 and stream ~= '0' then put(SPENT, int(age), stream) end
end

local function indexOf(entry) return tonumber(string.match(entry[1], '^%d+')) end

-- Entries are {id, {'g', age, 's', units, 'd', data}}.
local function nextCandidate(stream, head, entry)
  while entry do
    local index = indexOf(entry)
    if not pinned(head, index) then return candidate(stream, head, index, tonumber(entry[2][2])) end
    entry = call('XRANGE', EVENTS(stream), '('..entry[1], '+', 'COUNT', 1)[1]
  end
  head.c = nil
  call('ZREM', ORDER, stream)
end

local function evictOldest(stream)
  local head = load(stream)
  if not head or not head.c then return call('ZREM', ORDER, stream) end
  changed[stream] = true
  local found = call('XRANGE', EVENTS(stream), int(head.c)..'-0', '+', 'COUNT', 2)
  if not found[1] then
    -- Its events are gone, as after a failover: then they hold no room either.
    events, units = events - head.e, units - head.b
    head.e, head.b, head.u = 0, 0, {}
  end
  if not found[1] or indexOf(found[1]) ~= head.c then
    nextCandidate(stream, head, found[1])
    return noteSpent(stream, head)
  end
  local size = tonumber(found[1][2][4])
  call('XDEL', EVENTS(stream), found[1][1])
  head.e, head.b = head.e - 1, head.b - size
  events, units = events - 1, units - size
  nextCandidate(stream, head, found[2])
  noteSpent(stream, head)
end

-- Evicts until there is room. Returns the bound that is not met because only pinned events are left.
local function evict(room, limits)
  while true do
    local limit = nil
    if events + room > limits[1] then limit = 'eventLog.maxEvents'
    elseif units * 2 + room > limits[2] then limit = 'eventLog.maxBytes' end
    if not limit then return nil end
    local oldest = call('ZRANGE', ORDER, 0, 0)[1]
    if not oldest then return limit end
    evictOldest(oldest)
  end
end

-- The reader that messages go to, or nothing.
local function newest(head) return head.r[#head.r] end
`;
