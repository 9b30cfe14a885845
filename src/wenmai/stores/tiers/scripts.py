"""The Lua of the copies on Redis. What a script does to a session's copy happens at once, for all who read it.

A session's copy is a hash that says what is known since when (the marks), and beside it the record, the preferences
and the newest messages of each thread in their own keys. A mark is two moments in microseconds: the server's when it
was set, and that of the process which read the durable store. What has no mark is not there.
"""

from wenmai.stores.redis.link import Script
from wenmai.stores.tiers.copies import TAIL_MESSAGES

_NOW = """
local time = redis.call('TIME')
local now = time[1] .. string.format('%06d', time[2])
"""

READ = Script(
    _NOW
    + """
local marks = redis.call('HGETALL', KEYS[1])
if #marks == 0 then return {now, marks} end
local tail = ARGV[1] == '' and {} or redis.call('LRANGE', KEYS[4], 0, -1)
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
local is = redis.call('HMGET', marks, 'revision', 'user')
if ask.expected and (is[1] or '') ~= ask.expected then return 0 end
if is[2] and is[2] ~= ask.user then redis.call('DEL', marks, record, preferences, list) end

local function mark(part) redis.call('HSET', marks, part, now .. ' ' .. ask.checked) end
local function seq_of(raw)
  return raw and tonumber(string.match(raw, '^{"role":"%a+","turn_id":%d+,"seq":(%d+),'))
end
local function write_hash(key, words)
  redis.call('DEL', key)
  redis.call('HSET', key, unpack(words))
  redis.call('PEXPIRE', key, ask.keep)
end

redis.call('HSET', marks, 'user', ask.user)
if ask.revision then redis.call('HSET', marks, 'revision', ask.revision) end

if ask.record then
  write_hash(record, ask.record)
  mark('record')
elseif ask.expires and redis.call('EXISTS', record) == 1 then
  redis.call('HSET', record, 'expires_at', ask.expires, 'updated_at', ask.updated)
end

if ask.no_preferences then
  redis.call('DEL', preferences)
  redis.call('HSET', marks, 'none', '1')
  mark('preferences')
elseif ask.preferences then
  write_hash(preferences, ask.preferences)
  redis.call('HDEL', marks, 'none')
  mark('preferences')
end

if ask.threads then
  redis.call('HSET', marks, 'infos', cmsgpack.pack(ask.threads))
  mark('threads')
end

if ask.tail then
  local last, newest = ask.appended, seq_of(redis.call('LINDEX', list, -1))
  local first = seq_of(ask.tail[1])
  if last and newest == first - 1 then
    redis.call('RPUSH', list, unpack(ask.tail))
    redis.call('LTRIM', list, -{TAIL_MESSAGES}, -1)
  elseif not (last and newest and newest >= last) then
    redis.call('DEL', list)
    redis.call('RPUSH', list, unpack(ask.tail))
    mark('tail:' .. ask.npc)
  end
  redis.call('PEXPIRE', list, ask.keep)
end

if ask.appended then
  local packed = redis.call('HGET', marks, 'infos')
  local infos = packed and cmsgpack.unpack(packed)
  local mine, fits = ask.info, false
  for at = 1, infos and #infos or 0 do
    local info = infos[at]
    if info[1] == mine[1] then
      fits = info[2] == ask.first - 1
      mine[4] = info[4]
      infos[at] = mine
    end
  end
  if infos and ask.first == 1 and not fits then
    infos[#infos + 1] = mine
    fits = true
    for at = 1, #infos - 1 do fits = fits and infos[at][1] ~= mine[1] end
  end
  if fits then redis.call('HSET', marks, 'infos', cmsgpack.pack(infos))
  elseif infos then redis.call('HDEL', marks, 'infos', 'threads') end
end

if ask.settled then
  local first, seq = seq_of(redis.call('LINDEX', list, 0)), seq_of(ask.settled)
  if first and seq >= first and seq < first + redis.call('LLEN', list) then
    redis.call('LSET', list, seq - first, ask.settled)
  end
end

if ask.doubt then
  for _, part in ipairs(redis.call('HKEYS', marks)) do
    if part ~= 'user' and part ~= 'revision' and part ~= 'none' and part ~= 'infos' then
      redis.call('HSET', marks, part, '0 0')
    end
  end
end
if ask.forget then redis.call('HDEL', marks, 'tail:' .. ask.npc, 'threads') end
redis.call('PEXPIRE', marks, ask.keep)
if ask.channel then redis.call('PUBLISH', ask.channel, ask.change) end
return 1
""".replace("{TAIL_MESSAGES}", str(TAIL_MESSAGES))
)
"""Bring a session's copy in line with the durable store.

KEYS: as for READ. ARGV: MessagePack of :class:`.hot._Ask`. Returns 1, or 0 if another change came first.
"""
