"""Values that the store contracts take and return."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from wenmai.scope import Scope, ThreadKey
from wenmai.stores.records import Message, Record

R = TypeVar("R", bound=Record)


class Stored(msgspec.Struct, Generic[R], frozen=True):
    """A record with its version, owner and timestamps.

    Attributes:
        version: 1 when created, incremented by each change.
        user_id: the user who created it; the owner, unless the record is shared.
    """

    record: R
    version: int
    user_id: str
    created_at: datetime
    updated_at: datetime


class Page(msgspec.Struct, Generic[R], frozen=True):
    """One page of a listing, newest first; ``next_cursor`` is None on the last page."""

    items: list[Stored[R]]
    next_cursor: str | None


class Appended(msgspec.Struct, frozen=True):
    """Result of an append.

    Attributes:
        messages: the messages as stored, in the order given; for an id that the thread already had, the stored
            message, unchanged.
        repeated: how many of them the thread already had.
        tail: the latest messages of the thread after the append, ascending, if a tail was requested.
        incarnation: of the session that they were appended to.
    """

    messages: list[Message]
    repeated: int
    tail: list[Message]
    incarnation: str


class ThreadPart(NamedTuple):
    """Messages of a thread: those from ``seq`` ``start`` on, at most ``limit`` (1 to 10 000)."""

    thread: ThreadKey
    start: int
    limit: int


class ThreadInfo(msgspec.Struct, frozen=True):
    """A thread of a session: its number of messages and turns, and the timestamps of the first and last message."""

    persona_id: Annotated[str, Meta(description="The persona's id.")] = msgspec.field(name="npc_id")
    message_count: Annotated[int, Meta(description="Number of messages.")]
    turn_count: Annotated[int, Meta(description="Number of turns.")]
    first_at: Annotated[datetime, Meta(description="Time of the first message.")]
    last_at: Annotated[datetime, Meta(description="Time of the newest message.")]


class ActiveThread(msgspec.Struct, frozen=True):
    """A thread as :meth:`Logs.active_threads` finds it.

    Attributes:
        scope: the owner of the session.
        thread: with the incarnation of its session.
        last_seq: of its last message.
        active_at: when the session's record, or by an append its expiry, was last changed.
    """

    scope: Scope
    thread: ThreadKey
    last_seq: int
    active_at: datetime


class ActiveThreads(msgspec.Struct, frozen=True):
    """One page of an enumeration, possibly empty; ``next_cursor`` is None on the last page."""

    items: list[ActiveThread]
    next_cursor: str | None


FieldValue = str | int | float
"""A value to filter by; integers within 53 bits, so that every backend compares them with floats exactly."""


class SearchEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a search index.

    Attributes:
        id: unique in its collection and scope; indexing it again replaces the entry.
        text: raw text; the backend analyses it with :func:`wenmai.text.cjk.terms`, as it does the query.
        vector: its embedding; all vectors of a collection have the same length. None if it arrives later
            (:meth:`Search.embed`): if the entry is indexed already with the same text, it keeps its vector.
        fields: values for filters, returned with each hit; a list matches by any of its values.
        private: the fields with what a user said, which may be encrypted: no filter finds them.
    """

    id: str
    text: str
    vector: Sequence[float] | None = None
    fields: Mapping[str, FieldValue | Sequence[FieldValue]] = {}
    private: tuple[str, ...] = ()


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """Values from ``low`` up to, but not including, ``high``; None is no bound.

    Both bounds are numbers, or both are texts, which compare by code points: dates in ISO 8601, all in UTC and one
    form, are in the order of time. A value of the other kind is in no range.
    """

    low: FieldValue | None = None
    high: FieldValue | None = None


Where = Mapping[str, FieldValue | Sequence[FieldValue] | Range]
"""For each field a value, the values of which one must match, or a range; all fields must match.

At most 100 fields, and 10 000 values of all fields together.
"""


class RankFusion(msgspec.Struct, frozen=True, kw_only=True, tag="rank"):
    """Reciprocal rank fusion: an entry scores ``1 / (constant + rank)`` in each list, ranks from 1.

    The constant is that of Cormack, Clarke and Büttcher, SIGIR 2009.
    """

    constant: int = 60


class WeightedFusion(msgspec.Struct, frozen=True, kw_only=True, tag="weighted"):
    """The weighted sum of both scores, each as its distance from the pool's mean in standard deviations (z-score).

    An entry without a vector counts as the mean. The defaults were measured on conversations (LoCoMo).
    """

    words: float = 0.3
    vector: float = 0.7


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One search; ``text``, ``vector`` or both must be given.

    Attributes:
        text: raw text.
        vector: an embedding of the collection's length. One of zeros is near nothing: it counts as none, and if there
            is no text, finds nothing.
        where: see :data:`Where`.
        ids: only these entries, at most 500, each of them whether it matches or not.
        limit: most hits, 1 to 500.
        pool: with text and vector, how many of the best entries by each are fused, at least ``limit``, at most
            1 000. The order of the hits depends on it, and never on ``limit``.
        fusion: of both scores.
        fields: False if the hits are needed without their fields, which may then be empty.
    """

    text: str | None = None
    vector: Sequence[float] | None = None
    where: Where = {}
    ids: Sequence[str] | None = None
    limit: int = 10
    pool: int = 200
    fusion: RankFusion | WeightedFusion = RankFusion()
    fields: bool = True


class Hit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A search result.

    Attributes:
        lexical: BM25 score (k1 0.9, b 0.4; statistics of the scope alone), 0 if no term matched.
        coverage: the share, 0 to 1, of the query's terms that the entry contains, weighted by idf.
        similarity: cosine with the query's vector, or None if one of the two has none.
        fields: as indexed.
    """

    id: str
    lexical: float
    coverage: float
    similarity: float | None
    fields: Mapping[str, FieldValue | Sequence[FieldValue]] = {}


class CollectionSize(msgspec.Struct, frozen=True):
    """The number of a collection's entries, and of those that have a vector."""

    entries: int
    vectors: int
