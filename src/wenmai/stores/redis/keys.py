"""The names of all keys, in one place; other programs may read the ones that are documented as fixed.

================================================================  =====  ==========================================
key                                                               type   holds
================================================================  =====  ==========================================
``{prefix}:session:short:{tenant}:{site}:{session}:{npc}``        list   the thread's messages as JSON (fixed)
``{prefix}:session:pref:{tenant}:{site}:{session}``               hash   the session's preferences (fixed)
``{prefix}:session:numbers:{tenant}:{site}:{session}:{npc}``      hash   how far the thread is numbered, ids, open turns
``{prefix}:session:threads:{tenant}:{site}:{session}``            zset   the session's personas, as they began
``{prefix}:doc:{collection}:{tenant}:{site}:{key}``               hash   a record of any other type
``{prefix}:index:{collection}:{tenant}:{site}[:{user}]``          zset   the owner's records by creation
``{prefix}:filter:{collection}:{tenant}:{site}[:{user}]:{f}:{v}`` zset   those of them whose field f is v
``{prefix}:ending``                                               zset   records that have an end, by it
================================================================  =====  ==========================================

Each part between colons is percent-encoded (RFC 3986, all but ``A-Z a-z 0-9 _ . - ~``), so any text is a key and
no two texts meet. No key is ever searched for by a pattern.

The fixed formats leave room for a cluster's hash tag in the prefix alone. With ``prefix={yantian}`` every key of every
session is in one slot, which a script that checks the session, numbers the messages and moves the session's end needs;
without braces each key has a slot of its own, and a cluster is refused when the store is opened.
"""

from urllib.parse import quote, unquote

from wenmai.errors import InvalidInput
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.records import Preferences, Record


def escape(part: str) -> str:
    """The part percent-encoded; two parts are equal if and only if their encodings are.

    Raises:
        InvalidInput: it has half a surrogate pair, which is no text.
    """
    try:
        return quote(part, safe="")
    except UnicodeEncodeError as error:
        raise InvalidInput("key", part, "text that can be encoded") from error


class Keys:
    """The keys below one prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.ending = f"{prefix}:ending"

    def document(self, scope: Scope, of: type[Record], key: str) -> str:
        """Where a record is kept."""
        family = "session:pref" if of is Preferences else f"doc:{of.spec.collection}"
        return self._of_site(family, scope, key)

    def index(self, scope: Scope, of: type[Record]) -> str:
        """The listing of the scope's records of a type; of the site's, if they are shared."""
        return self._of_site(f"index:{of.spec.collection}", scope, *_owner(scope, of))

    def filter(self, scope: Scope, of: type[Record], field: str, value: str) -> str:
        """The part of that listing in which the field has the value."""
        return self._of_site(f"filter:{of.spec.collection}", scope, *_owner(scope, of), field, value)

    def threads(self, scope: Scope, session_id: str) -> str:
        """Which personas a session has threads of."""
        return self._of_site("session:threads", scope, session_id)

    def messages(self, scope: Scope, thread: ThreadKey) -> str:
        """The messages of a thread."""
        return self._of_site("session:short", scope, *thread)

    def numbers(self, scope: Scope, thread: ThreadKey) -> str:
        """What a thread needs besides its messages to be continued."""
        return self._of_site("session:numbers", scope, *thread)

    def _of_site(self, family: str, scope: Scope, *parts: str) -> str:
        escaped = ":".join(map(escape, (scope.tenant_id, scope.site_id, *parts)))
        return f"{self._prefix}:{family}:{escaped}"


def _owner(scope: Scope, of: type[Record]) -> tuple[str, ...]:
    return () if of.spec.shared else (scope.user_id,)


def ending_member(scope: Scope, of: type[Record], key: str) -> str:
    """How the index of ends names a record."""
    return ":".join(map(escape, (of.spec.collection, scope.tenant_id, scope.site_id, key)))


def parse_ending_member(member: str) -> tuple[str, str, str, str]:
    """Collection, tenant, site and key of :func:`ending_member`."""
    collection, tenant, site, key = map(unquote, member.split(":"))
    return collection, tenant, site, key
