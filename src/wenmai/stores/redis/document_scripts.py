"""The Lua of the documents. A script runs alone on the server; what it reads cannot change before it writes.

The first write of each is one that a server without memory refuses, so that it refuses the whole. All keys are
declared.
"""

from wenmai.stores.redis.link import Script

PUT = Script("""
local doc, index, ending = KEYS[1], KEYS[2], KEYS[3]
local user, shared, expected, now, updated = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local key, ends, end_name, expire_at = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local born, seen, new_filters, words, first = ARGV[10], ARGV[11], tonumber(ARGV[12]), tonumber(ARGV[13]), 14

local is = redis.call('HMGET', doc, '_version', '_user', '_ends', '_born', '_created')
local version = tonumber(is[1] or '0')
if version > 0 then
  if is[3] and tonumber(is[3]) <= tonumber(now) then return {'ended'} end
  if shared == '0' and is[2] ~= user then return {'taken'} end
end
if expected ~= '' and tonumber(expected) ~= version then return {'taken'} end
local state = (is[4] or '') .. ':' .. version
if version > 0 and new_filters > 0 and seen ~= state then return {'look'} end

local owner, created = is[2] or user, is[5] or now
local fields = {'_version', version + 1, '_user', owner, '_born', is[4] or born, '_created', created,
  'updated_at', updated}
if ends ~= '' then
  fields[#fields + 1] = '_ends'
  fields[#fields + 1] = ends
end
for at = first, first + words - 1 do fields[#fields + 1] = ARGV[at] end
redis.call('HSET', doc, unpack(fields))
if ends == '' then redis.call('HDEL', doc, '_ends') end
for at = first + words, #ARGV do redis.call('HDEL', doc, ARGV[at]) end

local member = string.format('%020d', tonumber(created)) .. ':' .. key
redis.call('ZADD', index, 0, member)
for at = 4 + new_filters, #KEYS do redis.call('ZREM', KEYS[at], member) end
for at = 4, 3 + new_filters do redis.call('ZADD', KEYS[at], 0, member) end
if ends == '' then redis.call('ZREM', ending, end_name) else redis.call('ZADD', ending, ends, end_name) end
if expire_at == '' then redis.call('PERSIST', doc) else redis.call('PEXPIREAT', doc, expire_at) end
return {'put', version + 1, owner, created}
""")
"""Write a record.

KEYS: the document, its index, the index of ends, the filters that are to hold it, those that hold it now.
ARGV: user, shared, expected or '', now, updated_at, key, end or '', its name in the index of ends, the server's expiry
in ms or '', a fresh incarnation, the state as it was seen (``born:version``), how many filters are to hold it, how many
words of fields and values, those words, the fields that are None.
Returns: 'put' with version, owner and creation; or 'ended' (remove it first), 'taken' (another version or owner), or
'look' (the filters that hold it must be known).
"""

REMOVE = Script("""
local doc, index, ending = KEYS[1], KEYS[2], KEYS[3]
local state, member, end_name, filters, threads = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local is = redis.call('HMGET', doc, '_born', '_version')
if (is[1] or '') .. ':' .. (is[2] or '0') ~= state then return 0 end
local registry = KEYS[4 + filters]
if registry then
  if redis.call('ZCARD', registry) ~= threads then return 0 end
  for at = 6, 5 + threads do
    if not redis.call('ZSCORE', registry, ARGV[at]) then return 0 end
  end
end
redis.call('DEL', doc)
redis.call('ZREM', index, member)
redis.call('ZREM', ending, end_name)
for at = 4, 3 + filters do redis.call('ZREM', KEYS[at], member) end
for at = 4 + filters, #KEYS do redis.call('DEL', KEYS[at]) end
return 1
""")
"""Remove a record, and a session's threads with it, if all is still as it was seen.

KEYS: the document, its index, the index of ends, the filters that hold it; for a session its list of threads and
their keys.
ARGV: the state as it was seen, the member in index and filters, the name in the index of ends, how many filters, how
many threads, their personas.
Returns: 1 if it is done, 0 if something has changed in between.
"""
