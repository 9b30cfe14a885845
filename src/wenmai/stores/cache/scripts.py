"""The Lua scripts of the cache on Redis. Each changes a session's entry atomically.

An entry is a metadata hash, and beside it the records and the newest messages of each thread in their own keys. The
metadata has a stamp for each cached part: two times in microseconds, the server's when it was written and
that of the process which read the durable store. A part without a stamp is not cached. With the stamp of a thread goes
the size of its messages in bytes; without it the list is not read. A list is bounded in number and in bytes, and a
thread whose newest message alone is too large has none.

Changes of different processes arrive in any order, and any key may be flushed or evicted at any moment. So an append
extends a list, and a record replaces an earlier version; a missing part is created by a change only if it is known that
there was none before, else a reader fills it. A fill is accepted only if the revision that the reader saw is still
there. For a while after a drop, changes only drop parts, because they may be older than it.
"""

from datetime import timedelta

from wenmai.stores.cache.entries import TAIL_BYTES, TAIL_MESSAGES
from wenmai.stores.redis.link import Script

MAX_DELAY = timedelta(seconds=30)
"""How long after its commit in the durable store a change may arrive."""

PLACEHOLDER = "p"
"""Prefix of the revision that a reader leaves for a session without an entry; other revisions are hexadecimal."""

_NOW = """
local time = redis.call('TIME')
local now = time[1] .. string.format('%06d', time[2])
"""

READ = Script(
    _NOW
    + """
local meta = redis.call('HGETALL', KEYS[1])
if #meta == 0 then return {now, meta} end
local known = ARGV[1] ~= '' and redis.call('HEXISTS', KEYS[1], 'bytes:' .. ARGV[1]) == 1
local tail = known and redis.call('LRANGE', KEYS[2], 0, -1) or {}
local answer = {now, meta, '[' .. table.concat(tail, ',') .. ']'}
for at = 3, #KEYS do answer[at + 1] = redis.call('HGETALL', KEYS[at]) end
return answer
"""
)
"""KEYS: metadata, messages of a thread, the record of each type, first the session's own. ARGV: the persona or ''.

Returns the server's time in microseconds, the metadata, and, if there is any, the messages as JSON and the records.
"""

APPLY = Script(
    _NOW
    + """
local meta, list, session = KEYS[1], KEYS[2], KEYS[3]
local update = cmsgpack.unpack(ARGV[1])
local own, records = 'record:' .. update.collections[1], update.records or {}
local record = records[update.collections[1]]
local is = redis.call('HMGET', meta, 'revision', 'user', 'dropped', 'incarnation')
if update.expected and is[1] ~= update.expected then
  if not is[1] then
    redis.call('HSET', meta, 'revision', '{PLACEHOLDER}' .. now)
    redis.call('PEXPIRE', meta, update.ttl)
  end
  return 0
end

local function stamp(part) redis.call('HSET', meta, part, now .. ' ' .. update.validated) end
local function starts(part, with) return string.sub(part, 1, #with) == with end
local function has_stamp(part) return redis.call('HEXISTS', meta, part) == 1 end
local function seq_of(raw)
  return raw and tonumber(string.match(raw, '^{"role":"%a+","turn_id":%d+,"seq":(%d+),'))
end
local function id_of(raw) return raw and cjson.decode(raw).id end
local function number_of(fields, name)
  for at = 1, #fields, 2 do if fields[at] == name then return tonumber(fields[at + 1]) end end
end
local function write_hash(key, part, fields, first)
  local there = redis.call('HMGET', key, '_created', '_version')
  local known = has_stamp(part) and there[2]
  if known then
    local age = tonumber(there[1]) - number_of(fields, '_created')
    if age > 0 or (age == 0 and tonumber(there[2]) > number_of(fields, '_version')) then return end
  end
  redis.call('DEL', key)
  if not (known or first or update.expected) then return redis.call('HDEL', meta, part) end
  redis.call('HSET', key, unpack(fields))
  redis.call('PEXPIRE', key, update.ttl)
  stamp(part)
end
local function done()
  if update.revision then redis.call('HSET', meta, 'revision', update.revision) end
  redis.call('PEXPIRE', meta, update.ttl)
  if update.channel then redis.call('PUBLISH', update.channel, update.announcement) end
  return 1
end

if update.mark_stale then
  if update.own_only and is[2] ~= update.user then return 0 end
  for _, part in ipairs(redis.call('HKEYS', meta)) do
    if part == 'threads' or starts(part, 'record:') or starts(part, 'tail:') then
      redis.call('HSET', meta, part, '0 0')
    end
  end
  return done()
end

local function drop_parts(but)
  for _, part in ipairs(redis.call('HKEYS', meta)) do
    local is_record = starts(part, 'record:') or starts(part, 'none:')
    local is_thread = part == 'threads' or part == 'infos' or starts(part, 'tail:') or starts(part, 'bytes:')
    if part ~= but and (is_record or is_thread) then redis.call('HDEL', meta, part) end
  end
end
local function drop_tail()
  redis.call('DEL', list)
  redis.call('HDEL', meta, 'tail:' .. update.npc, 'bytes:' .. update.npc)
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
  redis.call('HSET', meta, 'bytes:' .. update.npc, size)
end
local function begin_tail(raws)
  drop_tail()
  if #raws == 0 then return end
  cut_tail(extend_tail(raws, 0))
  stamp('tail:' .. update.npc)
end

local dropped = is[3] and now - is[3] < {DELAY_MICROSECONDS}
local mismatch = is[2] == update.user and update.incarnation and is[4] ~= update.incarnation
local later = mismatch and record and has_stamp(own)
  and (tonumber(redis.call('HGET', session, '_created')) or 0) < number_of(record, '_created')
if mismatch and record and not later and has_stamp(own) then return done() end
if mismatch or (is[2] and is[2] ~= update.user) or (dropped and not update.expected) then
  redis.call('DEL', unpack(KEYS, 2))
  redis.call('HDEL', meta, 'incarnation')
  drop_parts()
end
if dropped and not update.expected then return done() end
if mismatch and is[4] and not (update.expected or later) then return done() end
if update.incarnation then redis.call('HSET', meta, 'incarnation', update.incarnation) end
local placeholder = not is[1] or string.sub(is[1], 1, 1) == '{PLACEHOLDER}'
redis.call('HSET', meta, 'user', update.user)
if update.expected and placeholder then update.revision = 'filled' .. now end

local absent = {}
for _, collection in ipairs(update.absent or {}) do absent[collection] = true end
if update.begun then
  drop_parts(own)
  if placeholder then
    update.threads = {}
    for at = 2, #update.collections do absent[update.collections[at]] = true end
  end
end

for at, collection in ipairs(update.collections) do
  local key, none = KEYS[2 + at], 'none:' .. collection
  if absent[collection] then
    redis.call('DEL', key)
    redis.call('HSET', meta, none, '1')
    stamp('record:' .. collection)
  elseif records[collection] then
    local first = redis.call('HDEL', meta, none) == 1 or (at == 1 and update.begun)
    write_hash(key, 'record:' .. collection, records[collection], first)
  end
end
if update.expires and not record and redis.call('EXISTS', session) == 1 then
  redis.call('HSET', session, 'expires_at', update.expires, 'updated_at', update.updated)
end

if update.threads then
  redis.call('HSET', meta, 'infos', cmsgpack.pack(update.threads))
  stamp('threads')
end

local packed = redis.call('HGET', meta, 'infos')
local infos = packed and cmsgpack.unpack(packed)

if update.appended then
  local tail, first, last, raws = 'tail:' .. update.npc, update.first, update.appended, update.tail
  local size = has_stamp(tail) and tonumber(redis.call('HGET', meta, 'bytes:' .. update.npc) or nil)
  local from, newest = seq_of(raws[1]), size and seq_of(redis.call('LINDEX', list, -1))
  local begins = first == 1 and infos and not newest
  for at = 1, infos and #infos or 0 do begins = begins and infos[at][1] ~= update.npc end
  if newest and newest == (from or 0) - 1 then
    cut_tail(extend_tail(raws, size))
  elseif begins or (newest and newest < first) then
    begin_tail(raws)
  elseif not (newest and from and id_of(redis.call('LINDEX', list, last - newest - 1)) == id_of(raws[#raws])) then
    drop_tail()
  end
  redis.call('PEXPIRE', list, update.ttl)
elseif update.tail then
  begin_tail(update.tail)
  redis.call('PEXPIRE', list, update.ttl)
end

if update.appended then
  local mine, fits = update.info, false
  for at = 1, infos and #infos or 0 do
    local info = infos[at]
    if info[1] == mine[1] then
      fits = info[2] == update.first - 1
      mine[4] = info[4]
      infos[at] = mine
    end
  end
  if infos and #infos == 0 and update.first == 1 then
    infos[1], fits = mine, true
  end
  if fits then redis.call('HSET', meta, 'infos', cmsgpack.pack(infos))
  elseif infos then redis.call('HDEL', meta, 'infos', 'threads') end
end

if update.completed then
  local first, seq = seq_of(redis.call('LINDEX', list, 0)), seq_of(update.completed)
  local at, size = first and seq - first, tonumber(redis.call('HGET', meta, 'bytes:' .. update.npc) or nil)
  local there = at and at >= 0 and redis.call('LINDEX', list, at)
  if not at or not size or at >= redis.call('LLEN', list) or (there and id_of(there) ~= id_of(update.completed)) then
    drop_tail()
    redis.call('HDEL', meta, 'threads', 'infos')
  elseif at >= 0 then
    size = size + #update.completed - #redis.call('LINDEX', list, at)
    redis.call('LSET', list, at, update.completed)
    cut_tail(size)
  end
end

if update.drop_thread then
  drop_tail()
  redis.call('HDEL', meta, 'threads')
end
return done()
""".replace("{TAIL_MESSAGES}", str(TAIL_MESSAGES))
    .replace("{TAIL_BYTES}", str(TAIL_BYTES))
    .replace("{DELAY_MICROSECONDS}", str(MAX_DELAY // timedelta(microseconds=1)))
    .replace("{PLACEHOLDER}", PLACEHOLDER)
)
"""Fill, update or invalidate a session's entry.

KEYS: as for READ. ARGV: MessagePack of :class:`.redis_cache._Update`. Returns 1, or 0 if another change came first.
"""

DROP = Script(
    _NOW
    + """
local meta, owner, documents = KEYS[1], redis.call('HGET', KEYS[1], 'user'), tonumber(ARGV[6])
if owner and owner ~= ARGV[1] then
  for at = 7, #ARGV do
    if redis.call('HEXISTS', meta, 'tail:' .. ARGV[at]) == 0 then redis.call('DEL', KEYS[documents + at - 5]) end
  end
  return {}
end
local known, more = {}, {}
for at = 7, #ARGV do known['tail:' .. ARGV[at]] = true end
for _, part in ipairs(redis.call('HKEYS', meta)) do
  if string.sub(part, 1, 5) == 'tail:' and not known[part] then more[#more + 1] = string.sub(part, 6) end
end
if #more > 0 then return more end
for at = 1, #KEYS do redis.call('DEL', KEYS[at]) end
redis.pcall('HSET', meta, 'revision', ARGV[2], 'dropped', now)
redis.call('PEXPIRE', meta, ARGV[3])
redis.call('PUBLISH', ARGV[4], ARGV[5])
return {}
"""
)
"""Delete a session's entry; of its metadata the time of the drop stays.

KEYS: metadata, the record of each type, then the messages of threads. ARGV: user, new revision, TTL of the metadata in
milliseconds, the channel, the announcement, the number of types, then the threads' personas. Returns the personas of
further cached threads: then nothing was deleted, and the caller must name them too. If the session belongs to another
user now, only lists of messages without a stamp are deleted.
"""
