"""The Lua of the logs. A stored message begins with ``{"role":…,"turn_id":…,"seq":…,"id":…``, in this order, so that a
script can read these without decoding the rest; what follows is written by us and passes through unread.
"""

from wenmai.stores.redis.link import Script

_SESSION = """
local function session_of(doc, user, now)
  local is = redis.call('HMGET', doc, '_user', '_ends', '_born', 'expires_at', 'lifetime_seconds')
  if is[1] ~= user or (is[2] and tonumber(is[2]) <= now) then return nil end
  return {born = is[3], expires_at = tonumber(is[4]), lifetime = tonumber(is[5]) * 1000000}
end
"""
"""The session, or nil if it is absent, another user's or past its keeping."""

_THREAD = """
local function thread_of(list, numbers, born)
  local is = redis.call('HMGET', numbers, '_born', '_label', '_turn', '_count', '_open')
  local count = redis.call('LLEN', list)
  if is[1] ~= born or tonumber(is[4]) ~= count then return nil end
  return {label = is[2], turn = tonumber(is[3]), count = count, open = tonumber(is[5] or '0')}
end
"""
"""The thread, or nil if there is none, or what is there belongs to an earlier session of that name or has lost a part."""

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

APPEND = Script(
    _SESSION
    + _THREAD
    + _NEWEST
    + """
local doc, threads, list, numbers = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now, updated, slide, step = tonumber(ARGV[2]), ARGV[3], ARGV[4], tonumber(ARGV[5])
local tail, npc, new_label, each, first_word = tonumber(ARGV[6]), ARGV[7], ARGV[8], 6, 9

local session = session_of(doc, ARGV[1], now)
if not session then return {'absent'} end
if slide == '1' and session.expires_at <= now then return {'expired'} end
local known = thread_of(list, numbers, session.born)
local thread = known or {label = new_label, turn = 0, count = 0, open = 0}
local began = redis.call('ZREVRANGE', threads, 0, 0, 'WITHSCORES')

local function stored(id)
  local seq = known and redis.call('HGET', numbers, 'id:' .. id)
  if seq then return redis.call('LINDEX', list, seq - 1) end
  local start = 'msg-' .. thread.label .. '-'
  if not known or string.sub(id, 1, #start) ~= start then return nil end
  seq = tonumber(string.match(string.sub(id, #start + 1), '^%d+$') or '0')
  local raw = seq > 0 and seq <= thread.count and redis.call('LINDEX', list, seq - 1)
  local own = raw and string.match(raw, '^{"role":"%a+","turn_id":%d+,"seq":%d+,"id":"(msg%-%x+%-%d+)"')
  return own == id and raw or nil
end

local answer, fresh, given, fields = {}, {}, {}, {}
local seq, turn, open = thread.count, thread.turn, {}
local last_at
for at = first_word, #ARGV, each do
  local role, id, quoted, completed, moment, rest = unpack(ARGV, at, at + each - 1)
  local raw = id ~= '' and (given[id] or stored(id))
  if not raw then
    seq = seq + 1
    if role == 'user' or turn == 0 then turn = turn + 1 end
    if id == '' then quoted = '"msg-' .. thread.label .. '-' .. seq .. '"' end
    raw = '{"role":"' .. role .. '","turn_id":' .. turn .. ',"seq":' .. seq .. ',"id":' .. quoted .. rest
    fresh[#fresh + 1] = raw
    if id ~= '' then
      given[id] = raw
      fields[#fields + 1] = 'id:' .. id
      fields[#fields + 1] = seq
    end
    if completed == '0' then open[#open + 1] = turn end
    last_at = moment
    if seq == 1 then
      fields[#fields + 1] = '_first_at'
      fields[#fields + 1] = moment
    end
  end
  answer[#answer + 1] = raw
end

if slide == '1' then
  local expires_at = now + session.lifetime
  if expires_at - session.expires_at >= math.min(step, session.lifetime / 100) then
    redis.call('HSET', doc, 'expires_at', string.format('%.0f', expires_at), 'updated_at', updated)
  end
end
if #fresh > 0 then
  if not known and redis.call('EXISTS', list, numbers) > 0 then redis.call('DEL', list, numbers) end
  redis.call('HSET', numbers, '_born', session.born, '_label', thread.label, '_turn', turn, '_count', seq,
    '_last_at', last_at)
  for at = 1, #fields, 2 do redis.call('HSET', numbers, fields[at], fields[at + 1]) end
  for at = 1, #open do redis.call('HINCRBY', numbers, 'open:' .. open[at], 1) end
  if #open > 0 then redis.call('HINCRBY', numbers, '_open', #open) end
  for at = 1, #fresh do redis.call('RPUSH', list, fresh[at]) end
  redis.call('ZADD', threads, 'NX', tonumber(began[2] or '0') + 1, npc)
end
return {'appended', #fresh, answer, newest(list, numbers, seq, tail, thread.open + #open)}
"""
)
"""Append messages.

KEYS: the session's document, its threads, the thread's messages, the thread's numbers.
ARGV: user, now, updated_at, whether to slide, the least step of a slide, the tail's length, persona, a label for the ids of a
new thread; then for each message role, id or '', the id as JSON, whether it is completed, its moment, the JSON after the id.
Returns: 'appended' with how many are new, the messages in the order given, and the tail; or 'absent', or 'expired'.
"""

LATEST = Script(
    _SESSION
    + _THREAD
    + _NEWEST
    + """
local session = session_of(KEYS[1], ARGV[1], tonumber(ARGV[2]))
local thread = session and thread_of(KEYS[2], KEYS[3], session.born)
if not thread then return {} end
local ends, limit, before, whole = thread.count, tonumber(ARGV[3]), ARGV[4], ARGV[5]
if before ~= '' then ends = math.min(ends, tonumber(before) - 1) end
return newest(KEYS[2], KEYS[3], ends, limit, whole == '1' and thread.open or 0)
"""
)
"""KEYS: document, messages, numbers. ARGV: user, now, limit, before or '', whole turns. Returns the messages, ascending."""

READ = Script(
    _SESSION
    + _THREAD
    + """
local session = session_of(KEYS[1], ARGV[1], tonumber(ARGV[2]))
local thread = session and thread_of(KEYS[2], KEYS[3], session.born)
if not thread then return {} end
return redis.call('LRANGE', KEYS[2], ARGV[3], ARGV[4])
"""
)
"""KEYS: document, messages, numbers. ARGV: user, now, first and last position from 0. Returns the messages, ascending."""

SETTLE = Script(
    _SESSION
    + _THREAD
    + """
local session = session_of(KEYS[1], ARGV[1], tonumber(ARGV[2]))
local thread = session and thread_of(KEYS[2], KEYS[3], session.born)
local position, turn, completed, before, after = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
if not thread or redis.call('LINDEX', KEYS[2], position) ~= before then return 0 end
redis.call('LSET', KEYS[2], position, after)
if completed == '1' then
  redis.call('HINCRBY', KEYS[3], '_open', -1)
  if redis.call('HINCRBY', KEYS[3], 'open:' .. turn, -1) == 0 then redis.call('HDEL', KEYS[3], 'open:' .. turn) end
end
return 1
"""
)
"""KEYS: document, messages, numbers. ARGV: user, now, position, turn, whether it is completed, the message as it was read,
and as it is to be. Returns 1, or 0 if it has changed in between."""

THREADS = Script(
    _SESSION
    + """
local session = session_of(KEYS[1], ARGV[1], tonumber(ARGV[2]))
if not session then return {''} end
local answer = redis.call('ZRANGE', KEYS[2], 0, -1)
table.insert(answer, 1, session.born)
return answer
"""
)
"""KEYS: document, threads. ARGV: user, now. Returns the session's incarnation, and its personas as they began."""

ERASE = Script(
    _SESSION
    + _THREAD
    + """
local session = session_of(KEYS[1], ARGV[1], tonumber(ARGV[2]))
if not session then return 0 end
local erased = 0
for at = 3, #KEYS, 2 do
  local thread = thread_of(KEYS[at], KEYS[at + 1], session.born)
  if thread then erased = erased + thread.count end
  redis.call('DEL', KEYS[at], KEYS[at + 1])
  redis.call('ZREM', KEYS[2], ARGV[(at + 3) / 2])
end
return erased
"""
)
"""KEYS: document, threads, then messages and numbers of each thread. ARGV: user, now, the persona of each thread."""
