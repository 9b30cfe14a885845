"""The names of all keys; other programs may read those that are documented as fixed.

================================================================  =====  ==========================================
key                                                               type   holds
================================================================  =====  ==========================================
``{prefix}:session:short:{tenant}:{site}:{session}:{npc}``        list   the thread's messages as JSON (fixed)
``{prefix}:session:pref:{tenant}:{site}:{session}``               hash   the session's preferences (fixed)
``{prefix}:l2_memory:{tenant}:{site}:{session}``                  hash   the session's business state (fixed)
``{prefix}:session:numbers:{tenant}:{site}:{session}:{npc}``      hash   the thread's last numbers, ids, open turns
``{prefix}:session:threads:{tenant}:{site}:{session}``            zset   the session's personas, in order of creation
``{prefix}:doc:{collection}:{tenant}:{site}:{key}``               hash   a record of any other type
``{prefix}:index:{collection}:{tenant}:{site}[:{user}]``          zset   the owner's records by creation
``{prefix}:filter:{collection}:{tenant}:{site}[:{user}]:{f}:{v}`` zset   those of them with field f equal to v
``{prefix}:ending``                                               zset   records that have an end, by it, and deleted
                                                                         sessions until their parts are removed
``{prefix}:ending:where``                                         hash   the places of each of them in the listings
``{prefix}:session:copy:{tenant}:{site}:{session}``               hash   cache: metadata of a session's entry
``{prefix}:session:changes``                                      –      cache: the invalidation channel
``{prefix}:session:probe``                                        string cache: written by probes
``{prefix}:rate:{digest}``                                        string when a caller's bucket of requests is full
================================================================  =====  ==========================================

Each part between colons is percent-encoded (RFC 3986, all but ``A-Z a-z 0-9 _ . - ~``), so any text can be a key, and
different texts give different keys. Keys are searched by pattern only for the maintenance of all sessions.

The fixed formats allow a cluster's hash tag in the prefix only. With ``prefix={chat}`` all keys are in one slot, as
scripts over several keys need; without braces each key has a slot of its own, and opening the store on a cluster fails.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote

from wenmai.errors import InvalidInput
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.records import BusinessState, Preferences, Record, Session

_FAMILIES: Mapping[type[Record], str] = {Preferences: "session:pref", BusinessState: "l2_memory"}
"""Records whose keys are fixed."""


def escape(part: str) -> str:
    """The part percent-encoded, which is injective.

    Raises:
        InvalidInput: it has half a surrogate pair, which is no text.
    """
    try:
        return quote(part, safe="")
    except UnicodeEncodeError as error:
        raise InvalidInput("key", part, "text that can be encoded") from error


class ThreadKeys(NamedTuple):
    """The keys of a script on one thread, in the order of its KEYS."""

    document: str
    threads: str
    messages: str
    numbers: str


class Keys:
    """The keys with one prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.ending: str = f"{prefix}:ending"
        self.ending_where: str = f"{prefix}:ending:where"
        self.changes: str = f"{prefix}:session:changes"
        self.probe: str = f"{prefix}:session:probe"

    def document(self, scope: Scope, of: type[Record], key: str) -> str:
        """The hash of a record."""
        family = _FAMILIES.get(of) or f"doc:{of.spec.collection}"
        return self._of_site(family, scope, key)

    def index(self, scope: Scope, of: type[Record]) -> str:
        """The listing of the scope's records of a type; of the site's, if they are shared."""
        return self._of_site(f"index:{of.spec.collection}", scope, *_owner(scope, of))

    def filter(self, scope: Scope, of: type[Record], field: str, value: str) -> str:
        """The part of that listing in which the field has the value."""
        return self._of_site(f"filter:{of.spec.collection}", scope, *_owner(scope, of), field, value)

    def sessions(self, scope: Scope) -> str:
        """The key prefix of the site's session documents; the escaped session id follows."""
        return self._of_site(f"doc:{Session.spec.collection}", scope, "")

    @property
    def all_sessions(self) -> str:
        """A glob pattern of all session documents, for SCAN."""
        escaped = re.sub(r"([*?\[\]\\])", r"\\\1", self._prefix)
        return f"{escaped}:doc:{Session.spec.collection}:*"

    def parse_session(self, name: str) -> tuple[str, str, str]:
        """Tenant, site and session id of a session document's key."""
        tenant, site, session_id = map(unquote, name.removeprefix(self._prefix).split(":")[-3:])
        return tenant, site, session_id

    def session(self, scope: Scope, session_id: str, persona_ids: Sequence[str]) -> list[str]:
        """The session's document, its list of threads, and the messages and the numbers of each of these threads."""
        site, session = self._site(scope), escape(session_id)
        keys = [self._session_document(site, session), f"{self._prefix}:session:threads:{site}:{session}"]
        for persona_id in map(escape, persona_ids):
            keys += self._thread(f"{site}:{session}:{persona_id}")
        return keys

    def cache_entry(self, scope: Scope, session_id: str) -> str:
        """The metadata of a session's cache entry, where this server is the cache of another store."""
        return self._of_site("session:copy", scope, session_id)

    def thread(self, scope: Scope, thread: ThreadKey) -> ThreadKeys:
        """The keys of a thread and of its session."""
        return ThreadKeys(*self.session(scope, thread.session_id, (thread.persona_id,)))

    def _thread(self, thread: str) -> tuple[str, str]:
        return f"{self._prefix}:session:short:{thread}", f"{self._prefix}:session:numbers:{thread}"

    def _session_document(self, site: str, session: str) -> str:
        return f"{self._prefix}:doc:{Session.spec.collection}:{site}:{session}"

    def _site(self, scope: Scope) -> str:
        return f"{escape(scope.tenant_id)}:{escape(scope.site_id)}"

    def _of_site(self, family: str, scope: Scope, *parts: str) -> str:
        return ":".join((self._prefix, family, self._site(scope), *map(escape, parts)))


def _owner(scope: Scope, of: type[Record]) -> tuple[str, ...]:
    return () if of.spec.shared else (scope.user_id,)


def ending_member(scope: Scope, of: type[Record], key: str) -> str:
    """The name of a record in the index of ends."""
    return ":".join(map(escape, (of.spec.collection, scope.tenant_id, scope.site_id, key)))


def parse_ending_member(member: str) -> tuple[str, str, str, str]:
    """Collection, tenant, site and key of :func:`ending_member`."""
    collection, tenant, site, key = map(unquote, member.split(":"))
    return collection, tenant, site, key
