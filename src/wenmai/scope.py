"""Ownership of data: every store call takes a :class:`Scope`."""

from typing import NamedTuple


class Scope(NamedTuple):
    """The owner of data: a user of a site of a tenant.

    A record of another scope reads as absent.
    """

    tenant_id: str = "default"
    site_id: str = "default"
    user_id: str = "anonymous"


class ThreadKey(NamedTuple):
    """A thread: the conversation with one persona within one session.

    Attributes:
        incarnation: of the session; the thread of a deleted session stays absent even if the session id is reused.
            None means the session that has the id now.
    """

    session_id: str
    persona_id: str
    incarnation: str | None = None
