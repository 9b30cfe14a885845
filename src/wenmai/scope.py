"""Who owns what: every store call takes a :class:`Scope`."""

from typing import NamedTuple


class Scope(NamedTuple):
    """The owner of data: a user of a site of a tenant.

    A record of one scope does not exist for another: what is foreign reads as absent.
    """

    tenant_id: str = "default"
    site_id: str = "default"
    user_id: str = "anonymous"


class ThreadKey(NamedTuple):
    """A thread is the conversation of one persona within one session.

    Attributes:
        incarnation: of the session: a thread of a session that was deleted since is absent, also if its id was taken
            again. None means the session that has the id now.
    """

    session_id: str
    npc_id: str
    incarnation: str | None = None
