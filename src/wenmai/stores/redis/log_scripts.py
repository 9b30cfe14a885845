"""The Lua scripts of the logs.

A stored message begins with ``{"role":…,"turn_id":…,"seq":…,"id":…``, in this order, so that a script can read these
fields without decoding the rest, which is encoded in :mod:`.messages`.
"""

from wenmai.stores.redis.link import Script
from wenmai.stores.redis.retention import EXTEND

_SESSION = """
local function session_of(doc, user, now, incarnation)
  local is = redis.call('HMGET', doc, '_user', '_ends', '_born', 'expires_at', 'lifetime_seconds')
  if is[1] ~= user or (is[2] and tonumber(is[2]) <= tonumber(now)) then return nil end
  if incarnation ~= '*' and incarnation ~= is[3] then return nil end
  return {born = is[3], ends = is[2], expires_at = tonumber(is[4]), lifetime = tonumber(is[5]) * 1000000}
end
"""
"""The session, or nil if it is absent, another user's, past its end, or another incarnation ("*" for any)."""

ANY = "*"
"""In the place of an incarnation: the session that has the id now."""

_THREAD = """
local function thread_of(list, numbers, born)
  local is = redis.call('HMGET', numbers, '_born', '_label', '_turn', '_count', '_open')
  local count = redis.call('LLEN', list)
  if is[1] ~= born or tonumber(is[4]) ~= count then return nil end
  return {label = is[2], turn = tonumber(is[3]), count = count, open = tonumber(is[5] or '0')}
end
"""
"""The thread, or nil if there is none, it is of a former session of that id, or one of its keys was evicted."""

_NEWEST = """
local function newest(list, numbers, ends, limit, open)
  if ends < 1 or limit < 1 then return {} end
  if open == 0 then return redis.call('LRANGE', list, math.max(0, ends - limit), ends - 1) end
  local hidden, found = {}, {}
  while ends > 0 and #found < limit do
    local first = math.max(0, ends - limit)
    local raws = redis.call('LRANGE', list, first, ends - 1)
    for at = #raws, 1, -1 do
      local turn = string.match(raws[at], '^{"role":"%a+","turn_id":(%d+),')
      if hidden[turn] == nil then hidden[turn] = redis.call('HEXISTS', numbers, 'open:' .. turn) == 1 end
      if not hidden[turn] and #found < limit then found[#found + 1] = raws[at] end
    end
    ends = first
  end
  local ascending = {}
  for at = #found, 1, -1 do ascending[#ascending + 1] = found[at] end
  return ascending
end
"""
"""The newest ``limit`` of the first ``ends`` messages; without those of open turns unless ``open`` is 0."""

_JSON = """
local function json(raws) return '[' .. table.concat(raws, ',') .. ']' end
"""
"""Messages as one text: a single string is read much faster than one for each."""

APPEND = Script(
    _SESSION
    + _THREAD
    + _NEWEST
    + _JSON
    + EXTEND
    + """
local doc, threads, list, numbers = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local user, now, incarnation, updated, slide, step, kept, grace, tail, npc, new_label, messages =
  unpack(cmsgpack.unpack(ARGV[1]))

local session = session_of(doc, user, now, incarnation)
if not session then return 'absent' end
if slide and session.expires_at <= now then return 'expired' end
local known = thread_of(list, numbers, session.born)
local thread = known or {label = new_label, turn = 0, count = 0, open = 0}

local function stored(id)
  if not known then return nil end
  local seq = redis.call('HGET', numbers, 'id:' .. id)
  if seq then return redis.call('LINDEX', list, seq - 1) end
  seq = tonumber(string.match(id, '^msg%-%x+%-(%d+)$'))
  local raw = seq and seq <= thread.count and redis.call('LINDEX', list, seq - 1)
  local own = raw and string.match(raw, '^{"role":"%a+","turn_id":%d+,"seq":%d+,"id":"(msg%-%x+%-%d+)"')
  return own == id and raw or nil
end

for at = 1, #messages do
  local id, own = messages[at][2], 'msg-' .. thread.label .. '-'
  if string.sub(id, 1, #own) == own and not stored(id) then thread.label = new_label end
end

local answer, fresh, given, seq, turn, open = {}, {}, {}, thread.count, thread.turn, {}
local fields = {'_born', session.born, '_label', thread.label}
local function set(field, value)
  fields[#fields + 1] = field
  fields[#fields + 1] = value
end
for at = 1, #messages do
  local role, id, quoted, completed, moment, rest = unpack(messages[at])
  local raw = id ~= '' and (given[id] or stored(id))
  if not raw then
    seq = seq + 1
    if role == 'user' or turn == 0 then turn = turn + 1 end
    if id == '' then quoted = '"msg-' .. thread.label .. '-' .. seq .. '"' end
    raw = '{"role":"' .. role .. '","turn_id":' .. turn .. ',"seq":' .. seq .. ',"id":' .. quoted .. rest
    fresh[#fresh + 1] = raw
    if id ~= '' then
      given[id] = raw
      set('id:' .. id, seq)
    end
    if not completed then open[#open + 1] = turn end
    if seq == 1 then set('_first_at', moment) end
    set('_last_at', moment)
  end
  answer[#answer + 1] = raw
end

local left = kept > 0 and redis.call('PTTL', doc) or 0
local moved = left == -1
if slide then
  local expires_at = now + session.lifetime
  if expires_at - session.expires_at >= math.min(step, session.lifetime / 100) then
    redis.call('HSET', doc, 'expires_at', string.format('%.0f', expires_at), 'updated_at', updated)
    session.expires_at, moved = expires_at, kept > 0
  end
end
if moved then
  local until_micros = session.ends and session.ends + grace or session.expires_at + kept
  redis.call('PEXPIREAT', doc, string.format('%.0f', until_micros / 1000))
  left = redis.call('PTTL', doc)
end
if #fresh > 0 then
  if not known and redis.call('EXISTS', list, numbers) > 0 then redis.call('DEL', list, numbers) end
  set('_turn', turn)
  set('_count', seq)
  redis.call('HSET', numbers, unpack(fields))
  for at = 1, #open do redis.call('HINCRBY', numbers, 'open:' .. open[at], 1) end
  if #open > 0 then redis.call('HINCRBY', numbers, '_open', #open) end
  redis.call('RPUSH', list, unpack(fresh))
  if not known then
    local last = redis.call('ZREVRANGE', threads, 0, 0, 'WITHSCORES')
    redis.call('ZADD', threads, 'NX', tonumber(last[2] or '0') + 1, npc)
    if not last[1] then extend(threads, left) end
    extend(list, left)
    extend(numbers, left)
  end
end
local late = left > 0 and out_of_step(threads, left) and 1 or 0
local shown = newest(list, numbers, seq, tail, thread.open + #open)
return '[' .. #fresh .. ',' .. json(answer) .. ',' .. json(shown) .. ',' .. late .. ',"' .. session.born .. '"]'
"""
)
"""Append messages.

KEYS: the session's document, its threads, the thread's messages, the thread's numbers.
ARGV: MessagePack of :class:`.messages.Request`.
Returns: JSON of the number of new messages, the messages in the order given, the tail, 1 if the expiries of the
session's keys are out of step, and the session's incarnation; or 'absent', or 'expired'.
"""

LATEST = Script(
    _SESSION
    + _THREAD
    + _NEWEST
    + _JSON
    + """
local session = session_of(KEYS[1], ARGV[1], ARGV[2], ARGV[3])
local thread = session and thread_of(KEYS[3], KEYS[4], session.born)
if not thread then return '[]' end
local ends, limit, before, whole = thread.count, tonumber(ARGV[4]), ARGV[5], ARGV[6]
if before ~= '' then ends = math.min(ends, tonumber(before) - 1) end
return json(newest(KEYS[3], KEYS[4], ends, limit, whole == '1' and thread.open or 0))
"""
)
"""KEYS as for APPEND. ARGV: user, now, incarnation, limit, before or '', whole turns. Returns the messages as JSON,
ascending."""

READ = Script(
    _SESSION
    + _THREAD
    + _JSON
    + """
local session = session_of(KEYS[1], ARGV[1], ARGV[2], ARGV[3])
local thread = session and thread_of(KEYS[3], KEYS[4], session.born)
if not thread then return '[]' end
return json(redis.call('LRANGE', KEYS[3], ARGV[4], ARGV[5]))
"""
)
"""KEYS as for APPEND. ARGV: user, now, incarnation, first and last position from 0. Returns the messages as JSON,
ascending."""

COMPLETE = Script(
    _SESSION
    + _THREAD
    + """
local session = session_of(KEYS[1], ARGV[1], ARGV[2], ARGV[3])
local thread = session and thread_of(KEYS[3], KEYS[4], session.born)
local position, turn, completed, before, after = unpack(ARGV, 4)
if not thread or redis.call('LINDEX', KEYS[3], position) ~= before then return 0 end
redis.call('LSET', KEYS[3], position, after)
if completed == '1' then
  redis.call('HINCRBY', KEYS[4], '_open', -1)
  if redis.call('HINCRBY', KEYS[4], 'open:' .. turn, -1) == 0 then redis.call('HDEL', KEYS[4], 'open:' .. turn) end
end
return 1
"""
)
"""KEYS as for APPEND. ARGV: user, now, incarnation, position, turn, whether it is completed, the message before and
after. Returns 1, or 0 if it has changed in between."""

THREADS = Script(
    _SESSION
    + """
local session = session_of(KEYS[1], ARGV[1], ARGV[2], ARGV[3])
if not session then return {''} end
local answer = redis.call('ZRANGE', KEYS[2], 0, -1)
table.insert(answer, 1, session.born)
return answer
"""
)
"""KEYS: document, threads. ARGV: user, now, incarnation. Returns the session's incarnation, and its personas in
order of creation."""

ERASE = Script(
    _SESSION
    + _THREAD
    + """
local session = session_of(KEYS[1], ARGV[1], ARGV[2], ARGV[3])
if not session then return 0 end
local erased = 0
for at = 3, #KEYS, 2 do
  local thread = thread_of(KEYS[at], KEYS[at + 1], session.born)
  if thread then erased = erased + thread.count end
  redis.call('DEL', KEYS[at], KEYS[at + 1])
  redis.call('ZREM', KEYS[2], ARGV[(at + 5) / 2])
end
return erased
"""
)
"""KEYS: document, threads, then messages and numbers of each thread. ARGV: user, now, incarnation, the persona of each
thread."""

TRUNCATE = Script(
    _SESSION
    + _THREAD
    + """
local threads, list, numbers = KEYS[2], KEYS[3], KEYS[4]
local session = session_of(KEYS[1], ARGV[1], ARGV[2], ARGV[3])
local thread = session and thread_of(list, numbers, session.born)
local last, npc, label = tonumber(ARGV[4]), ARGV[5], ARGV[6]
if not thread or thread.count <= last then return 0 end
if last == 0 then
  redis.call('DEL', list, numbers)
  redis.call('ZREM', threads, npc)
  return thread.count
end
local newest = cjson.decode(redis.call('LINDEX', list, last - 1))
redis.call('HSET', numbers, '_turn', newest.turn_id, '_count', last, '_label', label, '_last_at', newest.timestamp)
for first = last, thread.count - 1, 100 do
  local raws = redis.call('LRANGE', list, first, first + 99)
  for at = 1, #raws do
    local message = cjson.decode(raws[at])
    redis.call('HDEL', numbers, 'id:' .. message.id)
    if message.completed == false then
      redis.call('HINCRBY', numbers, '_open', -1)
      local open = 'open:' .. message.turn_id
      if redis.call('HINCRBY', numbers, open, -1) == 0 then redis.call('HDEL', numbers, open) end
    end
  end
end
redis.call('LTRIM', list, 0, last - 1)
return thread.count - last
"""
)
"""KEYS as for APPEND. ARGV: user, now, incarnation, the last number to keep, the persona, a new label for the ids of
later messages. Returns the number of removed messages."""
