"""The three store contracts; all state of Wenmai is stored through them.

``Documents`` store versioned records, ``Logs`` store the messages of threads, ``Search`` finds text by words and by
vectors. A backend is one module that implements some of them and passes the conformance suite
(``wenmai conformance URL``).

Rules for every method of every contract:

* Every call takes a :class:`Scope`. Data of another tenant or site, and private records of another user, are absent:
  reads return nothing, deletes delete nothing, and neither reveals that the data exists.
* A method that returns has made its change durable, as far as the backend can; one that raises has changed nothing.
* Keys are any text of 1 to 512 characters without NUL: punctuation, ``..``, glob characters and Chinese are
  ordinary, and ``session-1`` is unrelated to ``session-10``.
* Time comes from the clock that the backend was opened with. Timestamps are aware, UTC, with microseconds, from the
  beginning of the year 2 to the end of 9998.
* Texts are valid Unicode, NUL included, without lone surrogates. Integers are signed 64-bit, floats are finite, and
  JSON values are nested at most 500 levels deep. A message id in the store's own format (``msg-0a1b2c3d-7``) has a
  number of at most 15 digits.
* A value outside these bounds, or not of its declared type, raises :class:`~wenmai.errors.InvalidInput`, which names
  its field as ``messages[1].metadata.score``. Values are checked before anything is queued
  (:mod:`wenmai.stores.values`), so an invalid one never fails a shared transaction.
* A backend that cannot be reached raises :class:`~wenmai.errors.StoreUnavailable`; it never returns an empty result.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol

from wenmai.scope import Scope, ThreadKey
from wenmai.stores.records import Message, NewMessage
from wenmai.stores.structs import (
    ActiveThreads,
    Appended,
    CollectionSize,
    Hit,
    Page,
    R,
    SearchEntry,
    SearchQuery,
    Stored,
    ThreadInfo,
    ThreadPart,
    Where,
)


class Documents(Protocol):
    """Versioned records with an owner and an optional expiry."""

    async def get(self, scope: Scope, of: type[R], key: str) -> Stored[R] | None:
        """The record of that key, or None if it is absent, foreign, or past its ``keep_until``."""
        ...

    async def get_many(self, scope: Scope, of: type[R], keys: Sequence[str]) -> dict[str, Stored[R]]:
        """The records of at most 500 keys, by key, in one round trip; absent ones (see :meth:`get`) are omitted."""
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

        A record whose type is ``bound_to`` a session belongs to the incarnation that it names and disappears with it,
        atomically, whether the session is deleted, swept, or replaced after its expiry. Without an incarnation it is
        bound to the session that has the id now. With an empty ``session_id`` it is bound to none.

        A new record whose type has an ``identity`` gets a random one. A new record that names an identity was read
        from a deleted record, and is refused. An existing record keeps its identity. Its ``monotonic`` fields take the
        later of the stored and the given timestamp.

        Args:
            scope: the owner; a record that is not shared belongs to ``scope.user_id`` from its first put on.
            record: the record to store; its key is unique within tenant, site and collection, over all users.
            expected: the version that must be stored now; 0 means that the key must be free (insert-if-absent).
                None overwrites the scope's own record, whatever its version.
            keep_until: from then on the record is absent; None never expires. Replaces the previous value.

        Returns:
            The record as stored.

        Raises:
            InvalidInput: a value cannot be stored.
            VersionConflict: another version is stored, the record names another identity, or the key is taken by
                another user.
            SessionNotFound: the session that the record is bound to is absent, foreign, or another incarnation.
        """
        ...

    async def delete(
        self, scope: Scope, of: type[R], key: str, *, expected: int | None = None, identity: str | None = None
    ) -> bool:
        """Delete the record, exactly that key; True if there was one.

        A session is deleted with its threads and bound records: they are absent from the moment of the delete, and
        removed when it returns.

        Args:
            scope: the owner.
            of: the record type.
            key: of the record.
            expected: the version that must be stored.
            identity: of the record to delete, for a type that has one; another record that has the key now is kept.

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
            where: equalities on fields of the type's ``spec.filters``, by their stored names.
            limit: 1 to 500 records.
            cursor: ``next_cursor`` of the previous page.

        Raises:
            InvalidInput: the cursor is invalid, a filter is not declared, or the limit is out of range.
        """
        ...

    async def sweep(self) -> int:
        """Remove the expired records of all scopes (past ``keep_until``); return how many."""
        ...


class Logs(Protocol):
    """The messages of threads: append-only, numbered by the store, total order, no gaps.

    A thread belongs to an incarnation of its session (a :class:`~wenmai.stores.records.Session` document of the same
    backend) and is deleted with it, by a delete or a sweep. If the session is absent, foreign, or another incarnation
    than the key names, appends are refused and reads return nothing. Every read sees one snapshot: never rows of a
    session that reused the id meanwhile. An append to an expired session is refused unless ``slide`` is False; it can
    still be read.
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
        """Append all the messages, or none, with consecutive numbers.

        A ``user`` message begins the next turn; any other joins the turn before it (the first message of a thread
        begins turn 1 whatever its role). A message whose ``id`` the thread already has changes nothing and is
        returned as stored; the others are appended. Messages without an id get one that is unique in the session;
        messages without a timestamp get the clock's.

        Args:
            scope: the owner of the session.
            thread: the session and the persona.
            messages: 1 to 1 000 messages.
            tail: return also the latest ``tail`` messages of completed turns, as :meth:`latest` with
                ``whole_turns`` would, in the same snapshot.
            slide: move the session's ``expires_at`` to now plus its lifetime, and refuse if it is past already.
                The record's version does not change. The move may be skipped while it is less than a hundredth of the
                lifetime and less than 1 s.
                False does not move ``expires_at`` and appends to expired sessions too (imports).

        Raises:
            SessionNotFound: the session is absent, foreign, or another incarnation.
            SessionExpired: the session's ``expires_at`` is past.
            InvalidInput: a message has a value that cannot be stored.
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
            whole_turns: omit every turn that has a message with ``completed=False``. ``limit`` may still cut the
                oldest turn.
        """
        ...

    async def read(self, scope: Scope, thread: ThreadKey, *, start: int = 1, limit: int = 500) -> list[Message]:
        """The messages from ``seq`` ``start`` on, ascending, at most ``limit`` (1 to 10 000)."""
        ...

    async def read_parts(self, scope: Scope, parts: Sequence[ThreadPart]) -> list[list[Message]]:
        """The messages of each of at most 100 parts of threads, as by :meth:`read`.

        In one round trip, if the backend can; each part is of one snapshot.
        """
        ...

    async def complete(
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
        """Complete a message that was appended with ``completed=False``, once.

        Args:
            scope: the owner of the session.
            thread: the session and the persona.
            message: as the append returned it. Only the message with its ``id`` at its ``seq`` is completed, never
                one that took its place after the thread was erased or truncated.
            content: replaces the stored content.
            completed: False leaves the message open.
            tokens: of the content.
            metadata: replaces the stored metadata; None keeps it.

        Returns:
            The message as it is now, or None if there is none, or it was completed before: a completed message
            never changes.
        """
        ...

    async def threads(self, scope: Scope, session_id: str, *, incarnation: str | None = None) -> list[ThreadInfo]:
        """The threads of a session that have messages, in the order of creation.

        With an ``incarnation``, none if another one has the id now.
        """
        ...

    async def active_threads(
        self, *, since: datetime | None = None, cursor: str | None = None, limit: int = 500
    ) -> ActiveThreads:
        """The threads of all scopes that have messages, in no particular order; for maintenance only.

        The only method without a scope. An enumeration, page by page, returns each thread that has messages from its
        first page to its last, once or more often.

        Args:
            since: only threads of sessions whose ``active_at`` is later; an append with ``slide=False`` may not
                change it.
            cursor: ``next_cursor`` of the previous page.
            limit: 1 to 500 sessions to examine for this page, about; it may have fewer threads, or none.

        Raises:
            InvalidInput: the cursor is invalid, or the limit is out of range.
        """
        ...

    async def erase(
        self, scope: Scope, session_id: str, persona_id: str | None = None, *, incarnation: str | None = None
    ) -> int:
        """Remove one thread, or all threads of the session; return the number of messages.

        The next append to an erased thread starts at turn 1 again. With an ``incarnation``, nothing is removed if
        another one has the id now.
        """
        ...

    async def truncate(self, scope: Scope, thread: ThreadKey, last_seq: int) -> int:
        """Remove the messages whose ``seq`` is greater than ``last_seq`` (0 or more); return how many.

        The next append continues at ``last_seq`` + 1, in or after the turn of that message. The store never reuses an
        id that it generated for a removed message.
        """
        ...


class Search(Protocol):
    """Lexical and vector search. A collection is shared by the site or private to the user."""

    async def index(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> None:
        """Add or replace entries, all or none; visible to the next query.

        Raises:
            InvalidInput: a value cannot be stored, or a vector's length is not that of the collection.
        """
        ...

    async def embed(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> int:
        """Give indexed entries their vectors, which may arrive long after the text; return how many got theirs.

        Only ``id``, ``text`` and ``vector`` are read. An entry that is absent, or was indexed with another text since,
        is left as it is.

        Raises:
            InvalidInput: a vector is missing, or its length is not that of the collection.
        """
        ...

    async def without_vector(
        self, scope: Scope, collection: str, *, after: str = "", limit: int = 500, shared: bool = False
    ) -> list[str]:
        """The ids, greater than ``after``, of the first ``limit`` (1 to 500) entries without a vector, ascending."""
        ...

    async def query(
        self, scope: Scope, collection: str, queries: Sequence[SearchQuery], *, shared: bool = False
    ) -> list[list[Hit]]:
        """The best entries for each of at most 20 queries, in one round trip and one snapshot.

        With ``text`` alone, those that contain one of its terms, ordered by ``lexical``; with ``vector`` alone, those
        that have a vector, by ``similarity``; with both, the union of the best ``pool`` of each, ordered by ``fusion``.
        With ``ids`` the candidates are those entries instead. Ties are ordered by id.

        Args:
            scope: the owner of the entries.
            collection: any name.
            queries: see :class:`SearchQuery`.
            shared: as the entries were indexed.

        Raises:
            InvalidInput: a query has neither text nor vector, a number is out of range, a filter's value is none, or
                a vector's length is not that of the collection; the field is named as ``queries[0].limit``.
        """
        ...

    async def remove(
        self,
        scope: Scope,
        collection: str,
        ids: Sequence[str] | None = None,
        *,
        where: Where | None = None,
        shared: bool = False,
    ) -> int:
        """Remove the entries with these ids, or those that match ``where``; return how many there were.

        Raises:
            InvalidInput: not exactly one of the two is given, or ``where`` has no field.
        """
        ...

    async def size(self, scope: Scope, collection: str, *, shared: bool = False) -> CollectionSize:
        """The size of the scope's collection."""
        ...


Capability = Literal["documents", "logs", "search"]


class Store(Protocol):
    """An open backend: the contracts that it implements, None for the others.

    Attributes:
        name: short, for ``degraded`` and metrics: ``sqlite``, ``memory``, ``redis`` …
    """

    @property
    def name(self) -> str:
        """The short name of the backend."""
        ...

    @property
    def documents(self) -> Documents | None:
        """The documents contract, if implemented."""
        ...

    @property
    def logs(self) -> Logs | None:
        """The logs contract, if implemented."""
        ...

    @property
    def search(self) -> Search | None:
        """The search contract, if implemented."""
        ...

    async def ping(self) -> None:
        """Return if the backend answers.

        Raises:
            StoreUnavailable: it does not.
        """
        ...


SLIDE_STEP = timedelta(seconds=1)
"""How far ``expires_at`` may lag behind the last activity (see :meth:`Logs.append`)."""

BM25_K1 = 0.9
BM25_B = 0.4
"""Short texts: measured better than 1.2 and 0.75 on conversation turns."""
