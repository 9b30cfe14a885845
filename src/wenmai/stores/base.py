"""The three store contracts. Everything Wenmai remembers is written over these, and nothing else.

``Documents`` keep versioned records, ``Logs`` keep the messages of threads, ``Search`` finds text by words and
by meaning. A backend is one module that implements some of them, and the conformance suite that says so
(``wenmai conformance URL``).

What holds for every method of every contract:

* Every call takes a :class:`Scope`. What belongs to another tenant or site, or to another user where the record
  is a user's own, is absent: reads give nothing, deletes delete nothing, and neither says that it exists.
* A method that returns has done its work durably, as far as the backend can; a method that raises has done none.
* Keys are any text of 1 to 512 characters without NUL: punctuation, ``..``, glob characters and Chinese are
  ordinary, and ``session-1`` has nothing to do with ``session-10``.
* Time comes from the clock that the backend was opened with. Moments are aware and UTC, to the microsecond, from the
  beginning of the year 2 to the end of 9998.
* Texts are valid Unicode, NUL included; a lone surrogate is none. Whole numbers are signed 64-bit integers, floats are
  finite, and JSON values are nested at most 500 deep. A message's id that looks like the store's own
  (``msg-0a1b2c3d-7``) has a number of at most 15 digits.
* A value outside these bounds, or not of its declared type, raises :class:`~wenmai.errors.InvalidInput`, which names
  its field as ``messages[1].metadata.score``, before anything is queued (:mod:`wenmai.stores.values`): it never fails
  a transaction that others share.
* A backend that cannot be reached raises :class:`~wenmai.errors.StoreUnavailable`, never returns an empty result.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

from wenmai.scope import Scope, ThreadKey
from wenmai.stores.records import Message, NewMessage, Record

R = TypeVar("R", bound=Record)


class Stored(msgspec.Struct, Generic[R], frozen=True):
    """A record with what the store knows of it.

    Attributes:
        version: 1 when first put, one more at each change.
        user_id: who put it first; for a record that is not shared, its owner.
    """

    record: R
    version: int
    user_id: str
    created_at: datetime
    updated_at: datetime


class Page(msgspec.Struct, Generic[R], frozen=True):
    """Part of a listing, newest first; ``next_cursor`` is None on the last page."""

    items: list[Stored[R]]
    next_cursor: str | None


class Documents(Protocol):
    """Versioned records with an owner and, where wanted, an end."""

    async def get(self, scope: Scope, of: type[R], key: str) -> Stored[R] | None:
        """The record of that key, or None if it is absent, foreign, or past its ``keep_until``."""
        ...

    async def get_many(self, scope: Scope, of: type[R], keys: Sequence[str]) -> dict[str, Stored[R]]:
        """The records of at most 500 keys, by key, in one round trip; what :meth:`get` gives None for is left out."""
        ...

    async def put(
        self,
        scope: Scope,
        record: R,
        *,
        expected: int | None = None,
        keep_until: datetime | None = None,
    ) -> Stored[R]:
        """Write the whole record.

        A record whose type is ``bound_to`` a session hangs on the incarnation that it names and goes with it, in the
        same step of the store, however the session goes: deleted, swept, or replaced after its end. Without an
        incarnation it is given that of the session that has the id now. With an empty ``session_id`` it hangs on none.

        A new record whose type has an ``identity`` is given a random one; one that names an identity was read from a
        record that is gone, and is refused. A record that is there keeps its own. Its ``rising`` fields take the later
        of the stored and the given moment.

        Args:
            scope: the owner; a record that is not shared belongs to ``scope.user_id`` from its first put on.
            record: what to store; its key is unique within tenant, site and collection, over all users.
            expected: the version that must be stored now; 0 means that the key must be free (insert-if-absent).
                None overwrites whatever the scope itself has there.
            keep_until: from then on the record is absent; None keeps it. Replaces the previous value.

        Returns:
            The record as it is stored.

        Raises:
            InvalidInput: a value cannot be kept.
            VersionConflict: another version is stored, the record names another identity, or the key is taken by
                another user.
            SessionNotFound: the session that the record is bound to is absent, foreign, or another incarnation.
        """
        ...

    async def delete(
        self, scope: Scope, of: type[R], key: str, *, expected: int | None = None, identity: str | None = None
    ) -> bool:
        """Delete the record, exactly that key; True if there was one.

        With a session go its threads and the records that are bound to it: they are absent from the moment of the
        delete, and removed when it returns.

        Args:
            scope: the owner.
            of: the record type.
            key: of the record.
            expected: the version that must be stored.
            identity: of the record that is meant, for a type that has one; another one that has the key now is left.

        Raises:
            VersionConflict: ``expected`` is given and another version is stored.
        """
        ...

    async def list(
        self,
        scope: Scope,
        of: type[R],
        *,
        where: Mapping[str, str] | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page[R]:
        """The scope's records, newest created first; a record created later never moves an older page.

        Args:
            scope: the owner; for shared records its user does not matter.
            of: the record type.
            where: equalities on fields named in the type's ``spec.filters``.
            limit: 1 to 500 records.
            cursor: ``next_cursor`` of the previous page.

        Raises:
            InvalidInput: the cursor is not one of ours, a filter is not declared, or the limit is out of bounds.
        """
        ...

    async def sweep(self) -> int:
        """Remove the records of all scopes that are past their ``keep_until``; how many there were."""
        ...


class Appended(msgspec.Struct, frozen=True):
    """What an append did.

    Attributes:
        messages: the messages as stored, in the order given; one whose id was already in the thread is the
            stored one, unchanged.
        repeated: how many of them were already there.
        tail: the latest messages of the thread after the append, ascending, if a tail was asked for.
        incarnation: of the session that they were appended to.
    """

    messages: list[Message]
    repeated: int
    tail: list[Message]
    incarnation: str


class ThreadInfo(msgspec.Struct, frozen=True):
    """A thread of a session: how many messages and turns it has, and when its last one came."""

    npc_id: str
    message_count: int
    turn_count: int
    first_at: datetime
    last_at: datetime


class Logs(Protocol):
    """The messages of threads: append-only, numbered by the store, total order, no gaps.

    A thread hangs on an incarnation of its session (a :class:`~wenmai.stores.records.Session` document of the same
    backend) and goes with it, whether that is deleted or swept. An append within a session that is absent, foreign, or
    another incarnation than the key names is refused, reads of it give nothing. Every read is of one moment: a reader
    never sees rows of a session that took the id meanwhile. An append within an expired session is refused unless it is
    told to ignore that; it can still be read.
    """

    async def append(
        self,
        scope: Scope,
        thread: ThreadKey,
        messages: Sequence[NewMessage],
        *,
        tail: int = 0,
        slide: bool = True,
    ) -> Appended:
        """Append all the messages, or none, as neighbours.

        A ``user`` message begins the next turn; any other joins the turn before it (the first message of a thread
        begins turn 1 whatever its role). A message whose ``id`` the thread already has changes nothing and is
        reported as it is stored; the others are appended. Messages without an id get one that is unique in the
        session; messages without a timestamp get the clock's.

        Args:
            scope: the owner of the session.
            thread: the session and the persona.
            messages: 1 to 1 000 messages.
            tail: return also the latest ``tail`` messages of completed turns, as :meth:`latest` with
                ``whole_turns`` would, seen in the same instant.
            slide: move the session's ``expires_at`` to now plus its lifetime, and refuse if it is past already.
                The record's version stays. The move may be left out while it is less than a hundredth of the lifetime
                and less than 1 s.
                False leaves the lifetime alone and appends to expired sessions too (imports).

        Raises:
            SessionNotFound: the session is absent, foreign, or another incarnation.
            SessionExpired: the session's ``expires_at`` is past.
            InvalidInput: a message has a value that cannot be kept.
        """
        ...

    async def latest(
        self,
        scope: Scope,
        thread: ThreadKey,
        limit: int,
        *,
        before: int | None = None,
        whole_turns: bool = False,
    ) -> list[Message]:
        """The newest ``limit`` messages, ascending.

        Args:
            scope: the owner of the session.
            thread: the session and the persona.
            limit: 1 to 10 000.
            before: only messages whose ``seq`` is smaller.
            whole_turns: leave out every turn that has a message with ``completed=False``. The oldest turn may
                still be cut by ``limit``.
        """
        ...

    async def read(self, scope: Scope, thread: ThreadKey, *, start: int = 1, limit: int = 500) -> list[Message]:
        """The messages from ``seq`` ``start`` on, ascending, at most ``limit`` (1 to 10 000)."""
        ...

    async def settle(
        self,
        scope: Scope,
        thread: ThreadKey,
        message: Message,
        *,
        content: str,
        completed: bool = True,
        tokens: int = 0,
        metadata: Mapping[str, Any] | None = None,
    ) -> Message | None:
        """Fill a message that was appended with ``completed=False``, once.

        Args:
            scope: the owner of the session.
            thread: the session and the persona.
            message: as the append returned it. The message of its ``id`` at its ``seq`` is filled, never another that
                took its place after the thread was erased or cut.
            content: replaces what is there.
            completed: False leaves the message open.
            tokens: of the content.
            metadata: replaces what is there; None keeps it.

        Returns:
            The message as it is now, or None if there is none, or it was completed before: a completed message
            never changes.
        """
        ...

    async def threads(self, scope: Scope, session_id: str, *, incarnation: str | None = None) -> list[ThreadInfo]:
        """The threads of a session that have messages, in the order in which they began.

        With an ``incarnation``, none of another that has the id now.
        """
        ...

    async def erase(
        self, scope: Scope, session_id: str, npc_id: str | None = None, *, incarnation: str | None = None
    ) -> int:
        """Remove one thread, or all threads of the session; how many messages there were.

        The next append to an erased thread begins at turn 1 again. With an ``incarnation`` nothing is removed of
        another that has the id now.
        """
        ...

    async def truncate(self, scope: Scope, thread: ThreadKey, last_seq: int) -> int:
        """Remove the messages whose ``seq`` is greater than ``last_seq`` (0 or more); how many there were.

        The next append goes on at ``last_seq`` + 1, in or after the turn of that message. No id that the store made
        for a removed message is made again.
        """
        ...


class SearchEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be found.

    Attributes:
        id: unique in its collection and scope; indexing it again replaces it.
        text: raw text; the backend analyses it with :func:`wenmai.text.cjk.terms`, as it does the query.
        vector: its embedding, or None; all vectors of a collection have one length.
        fields: what queries may filter by; a list means that any of its values matches.
    """

    id: str
    text: str
    vector: Sequence[float] | None = None
    fields: Mapping[str, str | Sequence[str]] = {}


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that was found.

    Attributes:
        lexical: BM25 score (k1 0.9, b 0.4; statistics of the scope alone), 0 if no term matched.
        coverage: the share, 0 to 1, of the query's terms that the entry holds, weighted by their rarity.
        similarity: cosine with the query's vector, or None if one of the two has none.
    """

    id: str
    lexical: float
    coverage: float
    similarity: float | None


class Search(Protocol):
    """Text and vectors, found by words and by meaning. A collection is shared by the site or is the user's own."""

    async def index(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> None:
        """Add or replace entries, all or none; found by the next query.

        Raises:
            InvalidInput: a vector's length is not that of the collection.
        """
        ...

    async def query(
        self,
        scope: Scope,
        collection: str,
        *,
        text: str | None = None,
        vector: Sequence[float] | None = None,
        where: Mapping[str, str | Sequence[str]] | None = None,
        limit: int = 10,
        shared: bool = False,
    ) -> list[Hit]:
        """The best entries by words, by vector, or by both.

        With ``text`` alone, ordered by ``lexical``; with ``vector`` alone, by ``similarity``; with both, the union
        of the best ``limit`` of each, ordered by reciprocal rank fusion (constant 60; Cormack et al. 2009). Ties
        go by id. Entries that match nothing of the text are found by vector only.

        Args:
            scope: whose entries.
            collection: any name.
            text: raw text.
            vector: an embedding of the collection's length.
            where: for each field the value, or the values of which one must match.
            limit: 1 to 500.
            shared: as the entries were indexed.

        Raises:
            InvalidInput: neither text nor vector is given, or the vector's length is not that of the collection.
        """
        ...

    async def remove(self, scope: Scope, collection: str, ids: Sequence[str], *, shared: bool = False) -> int:
        """Remove the entries of these ids; how many there were."""
        ...

    async def count(self, scope: Scope, collection: str, *, shared: bool = False) -> int:
        """How many entries the scope has in the collection."""
        ...


Capability = Literal["documents", "logs", "search"]


class Store(Protocol):
    """An open backend: the contracts that it offers, None for those that it does not.

    Attributes:
        name: short, as in ``degraded`` and the metrics: ``sqlite``, ``memory``, ``redis`` …
    """

    @property
    def name(self) -> str:
        """How the backend is called."""
        ...

    @property
    def documents(self) -> Documents | None:
        """The documents, if it keeps them."""
        ...

    @property
    def logs(self) -> Logs | None:
        """The logs, if it keeps them."""
        ...

    @property
    def search(self) -> Search | None:
        """The search, if it offers it."""
        ...

    async def ping(self) -> None:
        """Return if the backend answers.

        Raises:
            StoreUnavailable: it does not.
        """
        ...


class Opener(Protocol):
    """What a backend module offers to the registry."""

    def __call__(self, url: str, *, clock: "ClockLike") -> AbstractAsyncContextManager[Store]:
        """Open the store at ``url`` for as long as the context lasts."""
        ...


class ClockLike(Protocol):
    """See :data:`wenmai.clock.Clock`."""

    def __call__(self) -> datetime:
        """The present moment, aware, UTC."""
        ...


SLIDE_STEP = timedelta(seconds=1)
"""How far a session's end may lag behind its last activity (see :meth:`Logs.append`)."""

RRF_CONSTANT = 60
"""Cormack, Clarke and Büttcher, SIGIR 2009."""

BM25_K1 = 0.9
BM25_B = 0.4
"""Short texts: measured better than 1.2 and 0.75 on conversation turns."""
