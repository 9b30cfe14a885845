"""The Lua of the copies on Redis. What a script does to a session's copy happens at once, for all who read it.

A session's copy is a hash that says what is known since when (the marks), and beside it the record, the preferences
and the newest messages of each thread in their own keys. A mark is two moments in microseconds: the server's when it
was set, and that of the process which read the durable store. What has no mark is not there. Beside a thread's mark
stands how many bytes its messages take; without it the list is not read. A list is cut by number and by bytes, and a
thread whose newest message alone is too large has none.

Changes of different processes come in any order, and any key may be gone at any moment, because it was flushed or room
was made. So an append extends a list, and a record replaces an earlier version; what is absent is begun only where it
is known that there was none before, else readers bring it. What was read is kept only if a revision
that was there before is there still. And after a removal changes only forget for a while, for they may be older.
"""

from datetime import timedelta

from wenmai.stores.redis.link import Script
from wenmai.stores.tiers.copies import TAIL_BYTES, TAIL_MESSAGES

LATE = timedelta(seconds=30)
"""How much later than the durable store's word a change may be told here."""

PLANTED = "p"
"""Begins the revision of a session of which nothing is copied and no change is known; others are hexadecimal."""

_NOW = """
local time = redis.call('TIME')
local now = time[1] .. string.format('%06d', time[2])
"""

READ = Script(
    _NOW
    + """
local marks = redis.call('HGETALL', KEYS[1])
if #marks == 0 then return {now, marks} end
local known = ARGV[1] ~= '' and redis.call('HEXISTS', KEYS[1], 'bytes:' .. ARGV[1]) == 1
local tail = known and redis.call('LRANGE', KEYS[4], 0, -1) or {}
local messages = '[' .. table.concat(tail, ',') .. ']'
return {now, marks, redis.call('HGETALL', KEYS[2]), redis.call('HGETALL', KEYS[3]), messages}
"""
)
"""KEYS: marks, record, preferences, messages of a thread. ARGV: the persona or ''.

Returns the server's time in microseconds, the marks, and, if there are any, the record, the preferences and the
messages as JSON.
"""

APPLY = Script(
    _NOW
    + """
local marks, record, preferences, list = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ask = cmsgpack.unpack(ARGV[1])
local is = redis.call('HMGET', marks, 'revision', 'user', 'dropped', 'incarnation')
if ask.expected and is[1] ~= ask.expected then
  if not is[1] then
    redis.call('HSET', marks, 'revision', '{PLANTED}' .. now)
    redis.call('PEXPIRE', marks, ask.keep)
  end
  return 0
end

local function mark(part) redis.call('HSET', marks, part, now .. ' ' .. ask.checked) end
local function marked(part) return redis.call('HEXISTS', marks, part) == 1 end
local function seq_of(raw)
  return raw and tonumber(string.match(raw, '^{"role":"%a+","turn_id":%d+,"seq":(%d+),'))
end
local function id_of(raw) return raw and cjson.decode(raw).id end
local function word(words, name)
  for at = 1, #words, 2 do if words[at] == name then return tonumber(words[at + 1]) end end
end
local function write_hash(key, part, words, first)
  local there = redis.call('HMGET', key, '_created', '_version')
  local known = marked(part) and there[2]
  if known then
    local age = tonumber(there[1]) - word(words, '_created')
    if age > 0 or (age == 0 and tonumber(there[2]) > word(words, '_version')) then return end
  end
  redis.call('DEL', key)
  if not (known or first or ask.expected) then return redis.call('HDEL', marks, part) end
  redis.call('HSET', key, unpack(words))
  redis.call('PEXPIRE', key, ask.keep)
  mark(part)
end
local function done()
  if ask.revision then redis.call('HSET', marks, 'revision', ask.revision) end
  redis.call('PEXPIRE', marks, ask.keep)
  if ask.channel then redis.call('PUBLISH', ask.channel, ask.change) end
  return 1
end

if ask.doubt then
  if ask.own and is[2] ~= ask.user then return 0 end
  for _, part in ipairs(redis.call('HKEYS', marks)) do
    if part == 'record' or part == 'preferences' or part == 'threads' or string.sub(part, 1, 5) == 'tail:' then
      redis.call('HSET', marks, part, '0 0')
    end
  end
  return done()
end

local function forget_tails()
  for _, part in ipairs(redis.call('HKEYS', marks)) do
    if string.sub(part, 1, 5) == 'tail:' or string.sub(part, 1, 6) == 'bytes:' then redis.call('HDEL', marks, part) end
  end
end
local function forget_tail()
  redis.call('DEL', list)
  redis.call('HDEL', marks, 'tail:' .. ask.npc, 'bytes:' .. ask.npc)
end
local function extend_tail(raws, size)
  redis.call('RPUSH', list, unpack(raws))
  for at = 1, #raws do size = size + #raws[at] end
  return size
end
local function cut_tail(size)
  local count = redis.call('LLEN', list)
  while count > {TAIL_MESSAGES} or (size > {TAIL_BYTES} and count > 1) do
    size, count = size - #redis.call('LPOP', list), count - 1
  end
  redis.call('HSET', marks, 'bytes:' .. ask.npc, size)
end
local function begin_tail(raws)
  forget_tail()
  if #raws == 0 then return end
  cut_tail(extend_tail(raws, 0))
  mark('tail:' .. ask.npc)
end

local gone = is[3] and now - is[3] < {LATE_MICROSECONDS}
local other = is[2] == ask.user and ask.incarnation and is[4] ~= ask.incarnation
local later = other and ask.record and marked('record')
  and (tonumber(redis.call('HGET', record, '_created')) or 0) < word(ask.record, '_created')
if other and ask.record and not later and marked('record') then return done() end
if other or (is[2] and is[2] ~= ask.user) or (gone and not ask.expected) then
  redis.call('DEL', record, preferences, list)
  redis.call('HDEL', marks, 'record', 'preferences', 'none', 'threads', 'infos', 'incarnation')
  forget_tails()
end
if gone and not ask.expected then return done() end
if other and is[4] and not (ask.expected or later) then return done() end
if ask.incarnation then redis.call('HSET', marks, 'incarnation', ask.incarnation) end
local planted = not is[1] or string.sub(is[1], 1, 1) == '{PLANTED}'
redis.call('HSET', marks, 'user', ask.user)
if ask.expected and planted then ask.revision = 'filled' .. now end

if ask.fresh then
  forget_tails()
  redis.call('HDEL', marks, 'preferences', 'none', 'threads', 'infos')
  if planted then ask.no_preferences, ask.threads = true, {} end
end

if ask.record then
  write_hash(record, 'record', ask.record, ask.fresh)
elseif ask.expires and redis.call('EXISTS', record) == 1 then
  redis.call('HSET', record, 'expires_at', ask.expires, 'updated_at', ask.updated)
end

if ask.no_preferences then
  redis.call('DEL', preferences)
  redis.call('HSET', marks, 'none', '1')
  mark('preferences')
elseif ask.preferences then
  write_hash(preferences, 'preferences', ask.preferences, redis.call('HDEL', marks, 'none') == 1)
end

if ask.threads then
  redis.call('HSET', marks, 'infos', cmsgpack.pack(ask.threads))
  mark('threads')
end

local packed = redis.call('HGET', marks, 'infos')
local infos = packed and cmsgpack.unpack(packed)

if ask.appended then
  local tail, first, last, raws = 'tail:' .. ask.npc, ask.first, ask.appended, ask.tail
  local size = marked(tail) and tonumber(redis.call('HGET', marks, 'bytes:' .. ask.npc) or nil)
  local from, newest = seq_of(raws[1]), size and seq_of(redis.call('LINDEX', list, -1))
  local begins = first == 1 and infos and not newest
  for at = 1, infos and #infos or 0 do begins = begins and infos[at][1] ~= ask.npc end
  if newest and newest == (from or 0) - 1 then
    cut_tail(extend_tail(raws, size))
  elseif begins or (newest and newest < first) then
    begin_tail(raws)
  elseif not (newest and from and id_of(redis.call('LINDEX', list, last - newest - 1)) == id_of(raws[#raws])) then
    forget_tail()
  end
  redis.call('PEXPIRE', list, ask.keep)
elseif ask.tail then
  begin_tail(ask.tail)
  redis.call('PEXPIRE', list, ask.keep)
end

if ask.appended then
  local mine, fits = ask.info, false
  for at = 1, infos and #infos or 0 do
    local info = infos[at]
    if info[1] == mine[1] then
      fits = info[2] == ask.first - 1
      mine[4] = info[4]
      infos[at] = mine
    end
  end
  if infos and #infos == 0 and ask.first == 1 then
    infos[1], fits = mine, true
  end
  if fits then redis.call('HSET', marks, 'infos', cmsgpack.pack(infos))
  elseif infos then redis.call('HDEL', marks, 'infos', 'threads') end
end

if ask.settled then
  local first, seq = seq_of(redis.call('LINDEX', list, 0)), seq_of(ask.settled)
  local at, size = first and seq - first, tonumber(redis.call('HGET', marks, 'bytes:' .. ask.npc) or nil)
  local there = at and at >= 0 and redis.call('LINDEX', list, at)
  if not at or not size or at >= redis.call('LLEN', list) or (there and id_of(there) ~= id_of(ask.settled)) then
    forget_tail()
    redis.call('HDEL', marks, 'threads', 'infos')
  elseif at >= 0 then
    size = size + #ask.settled - #redis.call('LINDEX', list, at)
    redis.call('LSET', list, at, ask.settled)
    cut_tail(size)
  end
end

if ask.forget then
  forget_tail()
  redis.call('HDEL', marks, 'threads')
end
return done()
""".replace("{TAIL_MESSAGES}", str(TAIL_MESSAGES))
    .replace("{TAIL_BYTES}", str(TAIL_BYTES))
    .replace("{LATE_MICROSECONDS}", str(LATE // timedelta(microseconds=1)))
    .replace("{PLANTED}", PLANTED)
)
"""Bring a session's copy in line with the durable store.

KEYS: as for READ. ARGV: MessagePack of :class:`.hot._Ask`. Returns 1, or 0 if another change came first.
"""

DROP = Script(
    _NOW
    + """
local marks, owner = KEYS[1], redis.call('HGET', KEYS[1], 'user')
if owner and owner ~= ARGV[1] then
  for at = 4, #KEYS do
    if redis.call('HEXISTS', marks, 'tail:' .. ARGV[at + 2]) == 0 then redis.call('DEL', KEYS[at]) end
  end
  return {}
end
local known, more = {}, {}
for at = 6, #ARGV do known['tail:' .. ARGV[at]] = true end
for _, part in ipairs(redis.call('HKEYS', marks)) do
  if string.sub(part, 1, 5) == 'tail:' and not known[part] then more[#more + 1] = string.sub(part, 6) end
end
if #more > 0 then return more end
for at = 1, #KEYS do redis.call('DEL', KEYS[at]) end
redis.pcall('HSET', marks, 'revision', ARGV[2], 'dropped', now)
redis.call('PEXPIRE', marks, ARGV[3])
redis.call('PUBLISH', ARGV[4], ARGV[5])
return {}
"""
)
"""Remove a session's copy, and leave the moment at which that was done.

KEYS: marks, record, preferences, then the messages of threads. ARGV: user, new revision, milliseconds to keep the
marks, the channel and what it is told, then the threads' personas. Returns the personas of further threads that are
copied: then nothing was done, and they are to be named too. Of a session that has become somebody else's, no more
than the messages that nobody vouches for are removed.
"""
