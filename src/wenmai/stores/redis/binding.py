"""The Lua that checks whether the session that a record is bound to still exists.

The session is known only after the record has been read, so the script itself makes the key of the session, the only
key that is not declared. It has the prefix of the declared keys, so on a cluster it is in their slot.
"""

from wenmai.stores.redis.link import Script

BINDING = """
local function past(moment, now) return moment and tonumber(moment) <= tonumber(now) end
local function escaped(part)
  return (string.gsub(part, '[^A-Za-z0-9_.~-]', function(c) return string.format('%%%02X', string.byte(c)) end))
end
local function bound_incarnation(sessions, now, user, created, session_id, incarnation)
  local is = redis.call('HMGET', sessions .. escaped(session_id), '_user', '_ends', '_born', '_created')
  if is[1] ~= user or past(is[2], now) then return nil end
  if not incarnation or incarnation == '' then return tonumber(created) >= tonumber(is[4]) and is[3] or nil end
  return incarnation == is[3] and is[3] or nil
end
"""
"""The incarnation of the session that a record is bound to, nil if that is gone. A record of an older version names no
incarnation: it is bound to the session with the id, if that is not younger than the record."""

READ = Script(
    BINDING
    + """
local rows = {}
for at = 1, #KEYS do
  local row = redis.call('HGETALL', KEYS[at])
  local is = redis.call('HMGET', KEYS[at], '_user', '_created', 'session_id', 'incarnation')
  if is[3] and is[3] ~= '' then
    row[#row + 1] = '_session'
    row[#row + 1] = bound_incarnation(ARGV[1], ARGV[2], is[1], is[2], is[3], is[4]) or ''
  end
  rows[at] = row
end
return rows
"""
)
"""KEYS: documents of a type that is bound to sessions. ARGV: the key prefix of the site's session documents, now.
Returns: the hashes as HGETALL does, with ``_session``."""
