import { RedisScript } from '../connection/redis-script.js';
import { SESSION_LOG } from './session-log.lua.js';

/**
 * The calls of the event store, each in one step. KEYS[1] is the log of the session; ids are codes. A refusal is a list whose first
 * member says which; whatever else was to be done is not.
 */
const script = (name: string, body: string): RedisScript => new RedisScript(name, `${SESSION_LOG}${body}`);

/** ARGV: life. */
export const openLog = new RedisScript(
  'open',
  `
if call('HSETNX', KEYS[1], 'events', 0) == 1 then call('HSET', KEYS[1], 'units', 0, 'age', 0) end
call('PEXPIRE', KEYS[1], ARGV[1])
`,
);

/**
 * ARGV: what is to be done, as JSON (see redis-event-store.ts), the text for the newest reader's node, then units and data of each
 * event. Returns the index of the first, and the nodes that need no longer note the stream.
 */
export const appendToLog = script(
  'append',
  `
if not opened then return {'gone'} end
local a = cjson.decode(ARGV[1])
local stream = a.stream
sweep()
local head = load(stream)
local function settled()
  if #head.o > 0 then return {} end
  return head.k
end
if head then
  for _, mark in ipairs(head.w) do
    if mark[1] == a.writer and a.seq <= mark[2] then flush() return {'ok', mark[3], settled()} end
  end
end
if (head and head.x) or (not head and a.seq > 1 and stream ~= '0') then flush() return {'ended'} end
local function openElsewhere()
  for _, other in ipairs(call('ZRANGEBYSCORE', STREAMS, '+inf', '+inf')) do
    local theirs = load(other)
    for _, open in ipairs(theirs and theirs.o or {}) do
      for _, request in ipairs(a.requests) do
        if open[1] == request and open[2] ~= a.node then return request end
      end
    end
  end
end
local duplicate = a.node and openElsewhere()
if duplicate then flush() return {'duplicate', duplicate} end
local count = (#ARGV - 2) / 2
keep(a.life)
if count > 0 then
  local limit = evict(1, a.limits)
  if limit then flush() return {'full', limit} end
end
head = head or begin(stream)
changed[stream] = true

local before, ageBefore = head.n, head.g
local oldestAge = age
for i = 1, count do
  local size, data = ARGV[1 + i * 2], ARGV[2 + i * 2]
  call('XADD', EVENTS(stream), int(before + i)..'-0', 'g', int(age + i), 's', size, 'd', data)
  head.b, units = head.b + size, units + size
end
if count > 0 then
  if before == 0 then call('PEXPIRE', EVENTS(stream), int(life)) end
  head.n, head.e, events, age = before + count, head.e + count, events + count, age + count
  head.g = age
end

local writer = nil
for _, mark in ipairs(head.w) do if mark[1] == a.writer then writer = mark end end
if writer then writer[2], writer[3] = a.seq, before + 1
else
  if #head.w == WRITERS then table.remove(head.w, 1) end
  table.insert(head.w, {a.writer, a.seq, before + 1})
end

local function close(request)
  for i, open in ipairs(head.o) do
    if open[1] == request then return table.remove(head.o, i) end
  end
end
if a.node then
  for _, request in ipairs(a.requests) do close(request) table.insert(head.o, {request, a.node}) end
  table.insert(head.k, a.node)
end
for _, settle in ipairs(a.settles) do
  close(settle[1])
  if settle[2] then table.insert(head.u, {before + settle[2], oldestAge + settle[2]}) end
end
if #a.settles > 1 then table.sort(head.u, function(x, y) return x[1] < y[1] end) end

if a.ends then head.x, head.o = 1, {} end
if not head.c then
  local last = head.n
  if not a.ends then last = last - 1 end
  for index = math.max(before, 1), last do
    if not unread(head, index) then
      candidate(stream, head, index, index == before and ageBefore or oldestAge + index - before)
      break
    end
  end
end
if a.ends then
  noteSpent(stream, head)
  if stream ~= '0' then
    put(STREAMS, int(now() + a.finished), stream)
    call('PEXPIRE', EVENTS(stream), int(a.finished + 1000))
  end
end
evict(0, a.limits)
while call('ZCARD', SPENT) > a.limits[1] do forget(call('ZPOPMIN', SPENT)[1]) end
flush()

local reader = newest(head)
if reader and reader[1] ~= a.self and (count > 0 or a.ends) then call('PUBLISH', a.channel..reader[1], ARGV[2]) end
if a.ends or #a.settles > 0 then return {'ok', before + 1, settled()} end
return {'ok', before + 1, {}}
`,
);

/** ARGV: stream, after, limit. Returns the newest index, whether it has ended, and the events right after the cursor. */
export const readLog = script(
  'read',
  `
if not opened then return {'gone'} end
sweep()
flush()
local head = load(ARGV[1])
if not head then
  if ARGV[1] == '0' then return {'ok', 0, 0} end
  return {'unknown'}
end
local after = tonumber(ARGV[2])
local result = {'ok', head.n, head.x or 0}
if after >= head.n or tonumber(ARGV[3]) < 1 then return result end
local found = call('XRANGE', EVENTS(ARGV[1]), '('..ARGV[2]..'-0', '+', 'COUNT', ARGV[3])
for i, entry in ipairs(found) do
  if indexOf(entry) ~= after + i then break end
  table.insert(result, entry[2][6])
end
if #result > 3 then return result end
return {'evicted', found[1] and indexOf(found[1]) or head.n + 1}
`,
);

/** ARGV: stream. Returns the numbers of the head, and the newest reader. */
export const describeStream = script(
  'describe',
  `
if not opened then return false end
sweep()
flush()
local head = load(ARGV[1])
if not head then
  if ARGV[1] == '0' then return {0, 1, 0, 0, 0} end
  return false
end
local oldest = call('XRANGE', EVENTS(ARGV[1]), '-', '+', 'COUNT', 1)[1]
local result = {head.n, oldest and indexOf(oldest) or head.n + 1, head.d, head.x or 0, #head.r}
local reader = newest(head)
if reader then table.insert(result, reader[1]) table.insert(result, reader[2]) end
return result
`,
);

/** ARGV: life, stream, node, reader. Returns the newest of the other readers. A reader that has left does not come back. */
export const attachReader = script(
  'attach',
  `
if not opened then return {'gone'} end
sweep()
keep(ARGV[1])
local stream = ARGV[2]
local head = load(stream)
if not head then
  if stream ~= '0' then flush() return {'unknown'} end
  head = begin(stream)
end
for _, left in ipairs(head.t) do
  if left == ARGV[4] then flush() return {'ok'} end
end
for i, reader in ipairs(head.r) do
  if reader[2] == ARGV[4] then table.remove(head.r, i) break end
end
local before = newest(head)
table.insert(head.r, {ARGV[3], ARGV[4]})
changed[stream] = true
flush()
return before and {'ok', before[1], before[2]} or {'ok'}
`,
);

/** ARGV: life, stream, then the reader, or '' and the node all of whose readers are meant. Returns who is the newest now, if that has changed. */
export const detachReaders = script(
  'detach',
  `
if not opened then return {} end
local stream, gone, node = ARGV[2], ARGV[3], ARGV[4]
keep(ARGV[1])
local head = load(stream)
if not head and stream == '0' and not node then head = begin(stream) end
if not head then return {} end
local before, rest = newest(head), {}
for _, reader in ipairs(head.r) do
  local leaves = reader[2] == gone
  if node then leaves = reader[1] == node end
  if not leaves then table.insert(rest, reader) end
end
if not node then
  table.insert(head.t, gone)
  if #head.t > LEFT then table.remove(head.t, 1) end
elseif #rest == #head.r then return {} end
head.r = rest
changed[stream] = true
flush()
local after = newest(head)
return after and after ~= before and after or {}
`,
);

/** ARGV: life, stream, index, bounds of events and bytes. */
export const noteDelivered = script(
  'delivered',
  `
if not opened then return end
sweep()
keep(ARGV[1])
local stream = ARGV[2]
local head = load(stream)
local upTo = head and math.min(tonumber(ARGV[3]), head.n)
if not head or upTo <= head.d then return flush() end
head.d = upTo
changed[stream] = true
local still = {}
local released = {}
for _, answer in ipairs(head.u) do
  if answer[1] > upTo then table.insert(still, answer) else table.insert(released, answer) end
end
head.u = still
for _, answer in ipairs(released) do
  if not pinned(head, answer[1]) and (not head.c or answer[1] < head.c) then candidate(stream, head, answer[1], answer[2]) end
end
evict(0, {tonumber(ARGV[4]), tonumber(ARGV[5])})
flush()
`,
);

/** Returns stream, request and node of each open request. */
export const openRequestsOf = script(
  'openRequests',
  `
if not opened then return false end
local found = {}
for _, stream in ipairs(call('ZRANGEBYSCORE', STREAMS, '+inf', '+inf')) do
  local head = load(stream)
  for _, open in ipairs(head and head.o or {}) do
    for _, part in ipairs({stream, open[1], open[2]}) do table.insert(found, part) end
  end
end
return found
`,
);

/** Returns which of the streams have ended, or hold no open request, so that nobody need note them. ARGV: streams. */
export const idleStreams = script(
  'openRequests',
  `
local idle = {}
for _, stream in ipairs(ARGV) do
  local head = opened and load(stream)
  if not opened or (head and #head.o == 0) then table.insert(idle, stream) end
end
return idle
`,
);

/** Returns 'c', stream and node of what was noted for open requests, and 'r', stream, node and reader of each reader. */
export const dropLog = script(
  'drop',
  `
if not opened then return {} end
local noted = {}
local keys = {LOG, STREAMS, ORDER, SPENT}
for _, stream in ipairs(call('ZRANGE', STREAMS, 0, -1)) do
  local head = load(stream)
  for _, node in ipairs(head and head.k or {}) do table.insert(noted, {'c', stream, node}) end
  for _, reader in ipairs(head and head.r or {}) do table.insert(noted, {'r', stream, reader[1], reader[2]}) end
  table.insert(keys, EVENTS(stream))
end
for _, key in ipairs(keys) do call('UNLINK', key) end
return noted
`,
);

/** Streams, events and units of one session. */
export const logStats = script(
  'stats',
  `
if not opened then return false end
sweep()
flush()
return {call('ZCARD', STREAMS), events, units}
`,
);
