"""The Lua scripts of the documents. Each is atomic.

The first write of each is one that a server without memory refuses, so that it refuses the whole script. All keys are
declared but one, see :mod:`.binding`.
"""

import msgspec

from wenmai.errors import InvalidInput
from wenmai.stores.redis.binding import BINDING
from wenmai.stores.redis.link import Script
from wenmai.stores.redis.retention import EXTEND

_pack = msgspec.msgpack.Encoder().encode


class PutRequest(msgspec.Struct, array_like=True, frozen=True):
    """The argument of PUT, in the order in which it is unpacked.

    Attributes:
        expected: the required version, or "" for any.
        ends: the end of the record, or "".
        end_name: its name in the index of ends.
        expire_at: when the server expires the record, in milliseconds, or "".
        due: its score in the index of ends, or "".
        place: the record's places in listings, as JSON.
        born: a new incarnation.
        seen: the state when it was read (``born:version``).
        filters: the fields by which it is listed.
        words: fields and values by turns.
        absent: the fields that are None.
        relation: ``leads`` if the expiry of other keys follows the record's, ``bound`` if the record is bound to a
            session, else "".
        sessions: the key prefix of session documents, if the type is bound to sessions.
        identity: whether ``holder`` is set at the creation.
        holder: the field that holds an incarnation, or "".
        incarnation: as the caller gave it.
        monotonic: fields whose value never decreases.
    """

    user: str
    shared: bool
    expected: str
    now: str
    updated_at: str
    key: str
    ends: str
    end_name: str
    expire_at: str
    due: str
    place: str
    born: str
    seen: str
    filters: list[str]
    words: list[str]
    absent: list[str]
    relation: str
    sessions: str
    identity: bool
    holder: str
    incarnation: str
    monotonic: list[str]

    def pack(self) -> bytes:
        """As MessagePack.

        Raises:
            InvalidInput: a part is half a surrogate pair, which is no text.
        """
        try:
            return _pack(self)
        except UnicodeEncodeError as error:
            raise InvalidInput("record", error.object, "text that can be encoded") from error


PUT = Script(
    BINDING
    + EXTEND
    + """
local doc, index, ending, where, companion = unpack(KEYS, 1, 5)
local user, shared, expected, now, updated, key, ends, end_name, expire_at, due, place, born, seen, filters, words,
  absent, relation, sessions, identity, holder, incarnation, monotonic = unpack(cmsgpack.unpack(ARGV[1]))

local is = redis.call('HMGET', doc, '_version', '_user', '_ends', '_born', '_created', 'session_id', 'incarnation')
local version = tonumber(is[1] or '0')
if relation == 'bound' then
  local session = redis.call('HMGET', companion, '_user', '_ends', '_born')
  if session[1] ~= user or past(session[2], now) then return {'no session'} end
  if incarnation ~= '' and incarnation ~= session[3] then return {'no session'} end
  incarnation = session[3]
end
if version > 0 then
  if past(is[3], now) then return {'ended'} end
  local bound = sessions ~= '' and is[6] and is[6] ~= ''
  if bound and not bound_incarnation(sessions, now, is[2], is[5], is[6], is[7]) then return {'ended'} end
  if not shared and is[2] ~= user then return {'taken'} end
end
if expected ~= '' and tonumber(expected) ~= version then return {'taken'} end
if identity then
  if incarnation ~= '' and incarnation ~= is[4] then return {'taken'} end
  incarnation = is[4] or born
end

local given = {}
for at = 1, #words, 2 do given[words[at]] = words[at + 1] end
if holder ~= '' then given[holder] = incarnation end
if version > 0 and seen ~= (is[4] or '') .. ':' .. version then
  for at = 1, #filters do
    if redis.call('HGET', doc, filters[at]) ~= given[filters[at]] then return {'look'} end
  end
end
local raised, later = {}, 0
for at = 1, #monotonic do
  local stored = redis.call('HGET', doc, monotonic[at])
  if stored and tonumber(stored) > tonumber(given[monotonic[at]]) then
    later = stored - given[monotonic[at]]
    given[monotonic[at]] = stored
  end
  raised[at] = given[monotonic[at]]
end
if relation == 'leads' and ends == '' and expire_at ~= '' then
  expire_at, due = string.format('%.0f', expire_at + later / 1000), string.format('%.0f', due + later)
end

local owner, created = is[2] or user, is[5] or now
local fields = {'_version', version + 1, '_user', owner, '_born', is[4] or born, '_created', created,
  'updated_at', updated}
if ends ~= '' then
  fields[#fields + 1] = '_ends'
  fields[#fields + 1] = ends
end
for at = 1, #words, 2 do
  fields[#fields + 1] = words[at]
  fields[#fields + 1] = given[words[at]]
end
redis.call('HSET', doc, unpack(fields))
if ends == '' then redis.call('HDEL', doc, '_ends') end
for at = 1, #absent do redis.call('HDEL', doc, absent[at]) end

local member = string.format('%020d', tonumber(created)) .. ':' .. key
redis.call('ZADD', index, 0, member)
for at = 6 + #filters, #KEYS do redis.call('ZREM', KEYS[at], member) end
for at = 6, 5 + #filters do redis.call('ZADD', KEYS[at], 0, member) end
if expire_at ~= '' then redis.call('PEXPIREAT', doc, expire_at) else redis.call('PERSIST', doc) end
local late = relation == 'leads' and out_of_step(companion, redis.call('PTTL', doc))
if relation == 'bound' and expire_at == '' then
  local left = redis.call('PTTL', companion)
  extend(doc, left)
  if left > 0 then due = string.format('%.0f', tonumber(now) + left * 1000) end
end
if due == '' then
  redis.call('ZREM', ending, end_name)
  redis.call('HDEL', where, end_name)
else
  redis.call('ZADD', ending, due, end_name)
  redis.call('HSET', where, end_name, created .. ' ' .. place)
end
return {'put', version + 1, owner, created, late and 1 or 0, incarnation, unpack(raised)}
"""
)
"""Write a record.

KEYS: the document, its index, the index of ends and its places there, its companion (a session's list of threads, the
session that the record is bound to, or the document itself), the filters that will list it, those that list it now.
ARGV: MessagePack of :class:`PutRequest`.
Returns: 'put' with version, owner, creation, 1 if the session's other keys are to be extended, the incarnation, and the
monotonic fields; or 'ended' (it, or its session, is gone: remove it first), 'taken' (another version, identity or
owner), 'look' (the filters that list it must be read first), or 'no session'.
"""

UNINDEX = Script("""
if redis.call('EXISTS', KEYS[1]) == 1 or (redis.call('HGET', KEYS[4], ARGV[1]) or '') ~= ARGV[3] then return 0 end
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('HDEL', KEYS[4], ARGV[1])
if ARGV[2] ~= '' then
  redis.call('ZREM', KEYS[2], ARGV[2])
  for at = 5, #KEYS do redis.call('ZREM', KEYS[at], ARGV[2]) end
end
return 1
""")
"""Remove a record that is gone from all indexes, unless the key has been taken since.

KEYS: the document, its index, the index of ends and its places there, the filters that listed it.
ARGV: its name in the index of ends, its member in index and filters or '', its places as they were read or ''.
"""

REMOVE = Script("""
local doc, index, ending, where = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local state, member, end_name, filters, threads = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local now, places = ARGV[6], ARGV[7]
local is = redis.call('HMGET', doc, '_born', '_version')
if (is[1] or '') .. ':' .. (is[2] or '0') ~= state then return 0 end
local registry = KEYS[5 + filters]
if registry then
  if redis.call('ZCARD', registry) ~= threads then return 0 end
  for at = 8, 7 + threads do
    if not redis.call('ZSCORE', registry, ARGV[at]) then return 0 end
  end
end
redis.call('DEL', doc)
redis.call('ZREM', index, member)
if registry then
  redis.call('ZADD', ending, now, end_name)
  redis.call('HSET', where, end_name, places)
else
  redis.call('ZREM', ending, end_name)
  redis.call('HDEL', where, end_name)
end
for at = 5, 4 + filters do redis.call('ZREM', KEYS[at], member) end
for at = 5 + filters, #KEYS do redis.call('DEL', KEYS[at]) end
return 1
""")
"""Remove a record, and a session's threads with it, unless it has changed since it was read.

A session stays in the index of ends, as due: the records bound to it are absent from now on, and the sweep removes them
if the caller dies before it does.

KEYS: the document, its index, the index of ends and its places there, the filters that list it; for a session its list
of threads and their keys.
ARGV: the state when it was read, the member in index and filters, the name in the index of ends, the number of filters,
the number of threads, now, a session's places in listings or '', the personas of the threads.
Returns: 1 if it was removed, 0 if something has changed in between.
"""
