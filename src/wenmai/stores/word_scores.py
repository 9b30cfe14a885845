"""The BM25 scores of a query's terms over a whole partition, as one numpy expression; shared by backends.

A backend numbers the entries of a partition by *places*. It may store the postings of a term in blocks: those of
:data:`BLOCK` successive places in one row. A posting is 8 bytes: the place within its block, the count of the term (3
bytes), the length of the entry. So a common word of 10 000 entries is 79 rows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from struct import Struct
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from wenmai.stores.bm25 import UNIT, idf, length_factor
from wenmai.stores.contracts import BM25_B, BM25_K1

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLOCK_BITS = 7
BLOCK = 1 << BLOCK_BITS
"""Places of a block."""

_POSTING = Struct(">II")
POSTING_BYTES = _POSTING.size
_COUNT_BITS = 24
_MOST = (1 << _COUNT_BITS) - 1

SPREAD = 16
"""Places, for each posting, up to which an array of all places is smaller than sorting them is slow."""

CACHED_SCORES = 8
"""Scores kept by a store, so that a question that is asked again, such as for neighbours, reads no postings."""

CACHED_ENTRIES = 1_000_000
"""Entries whose scores are kept, in 24 MB."""

CACHED_POSTINGS = 2_000_000
"""Postings kept by a store, in 32 MB."""

_TERM_POSTINGS = 25
"""What a term itself counts as, for its text and its arrays."""


class Scored(NamedTuple):
    """The scores of entries, see :class:`wenmai.stores.structs.Hit`: BM25, and coverage of the terms."""

    lexical: list[float]
    coverage: list[float]


class Sums(NamedTuple):
    """Of a partition: the number of its entries, and their terms together."""

    entries: int
    length: int


class Postings(NamedTuple):
    """The postings of a term: the place, count and length of each entry that contains it."""

    places: NDArray[np.int64]
    counts: NDArray[np.uint32]
    lengths: NDArray[np.uint32]

    def copied(self) -> Postings:
        """In memory of their own."""
        return Postings._make([column.copy() for column in self])


def posting(place: int, count: int, length: int) -> bytes:
    """A posting of the block that has this place."""
    return _POSTING.pack((place % BLOCK) << _COUNT_BITS | min(count, _MOST), length)


def without_postings(postings: bytes, places: Iterable[int]) -> bytes:
    """The postings of a block without those of the places."""
    for place in places:
        at = postings[:: _POSTING.size].find(place % BLOCK) * _POSTING.size
        if at >= 0:
            postings = postings[:at] + postings[at + _POSTING.size :]
    return postings


def from_blocks(blocks: Sequence[tuple[int, int, bytes]], terms: int) -> list[Postings]:
    """The postings of so many terms, from blocks: the number of the term, ascending, the block, and its postings."""
    numbers, those, lists = zip(*blocks, strict=True) if blocks else ((), (), ())
    return from_joined(numbers, those, list(map(len, lists)), b"".join(lists), terms)


def from_joined(
    numbers: Sequence[int], blocks: Sequence[int], sizes: Sequence[int], joined: bytes, terms: int
) -> list[Postings]:
    """As :func:`from_blocks`, of blocks of these sizes, joined."""
    import numpy as np  # noqa: PLC0415 — only searches need it

    read = np.frombuffer(joined, ">u4").reshape(-1, 2)
    packed, lengths = read[:, 0].astype(np.uint32), read[:, 1].astype(np.uint32)
    repeats = np.asarray(sizes, np.intp) // POSTING_BYTES
    places = np.repeat(np.asarray(blocks, np.int64) << BLOCK_BITS, repeats) + (packed >> _COUNT_BITS)
    counts = packed & np.uint32(_MOST)
    found = np.bincount(np.asarray(numbers, np.intp), repeats, terms)
    ends = [0, *np.cumsum(found).astype(np.intp).tolist()]
    return [Postings(places[start:end], counts[start:end], lengths[start:end]) for start, end in pairwise(ends)]


class WordScores:
    """The scores of all entries that contain a term of a query; never changed, so that threads may share it.

    Args:
        sums: of the partition.
        postings: of each term.
    """

    def __init__(self, sums: Sums, postings: Sequence[Postings]) -> None:
        import numpy as np  # noqa: PLC0415

        found = [len(each.places) for each in postings]
        idfs = [idf(sums.entries, count) for count in found]
        self._total = sum(idfs)
        places, counts, lengths = (
            map(np.concatenate, zip(*postings, strict=True)) if postings else np.zeros((3, 0), np.int64)
        )
        weights = np.repeat(np.array(idfs, np.float64), found)
        # In the order of operations of wenmai.stores.bm25.term_score, with few arrays.
        by_length = counts + BM25_K1 * (1 - BM25_B)
        by_length += length_factor(*sums) * lengths
        scores = weights * (BM25_K1 + 1)
        scores *= counts
        scores /= by_length
        held, slots = _numbered(places)
        # Weights and scores are whole numbers, whose sums are exact.
        covered = np.bincount(slots, weights, len(held))
        matched = np.flatnonzero(covered)
        self._places: NDArray[np.int64] = held[matched]
        self._scores = np.bincount(slots, np.floor(scores, out=scores), len(held))[matched]
        self._covered = covered[matched]

    def __len__(self) -> int:
        """Number of entries that contain a term."""
        return len(self._places)

    def best(self, limit: int, allowed: Collection[int] | None = None) -> dict[int, int]:
        """The scores, in units, of the best by place, in descending order, with all that equal the last of them.

        Args:
            limit: at least so many, if there are.
            allowed: only these places.
        """
        import numpy as np  # noqa: PLC0415

        chosen = np.arange(len(self))
        if allowed is not None:
            found, positions = self._found(np.unique(np.fromiter(allowed, np.int64, len(allowed))))
            chosen = positions[found]
        scores = self._scores[chosen]
        if limit < len(chosen):
            kept = scores >= np.partition(scores, len(scores) - limit)[len(scores) - limit]
            chosen, scores = chosen[kept], scores[kept]
        order = np.argsort(-scores, kind="stable")
        return dict(zip(self._places[chosen[order]].tolist(), scores[order].astype(np.int64).tolist(), strict=True))

    def at(self, places: Sequence[int]) -> Scored:
        """The scores of the entries at these places; zeros for those that contain no term."""
        import numpy as np  # noqa: PLC0415

        found, positions = self._found(np.asarray(places, np.int64))
        columns = np.zeros((2, len(places)))
        columns[:, found] = UNIT * self._scores[positions[found]], self._covered[positions[found]] / max(1, self._total)
        return Scored(*columns.tolist())

    def _found(self, places: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
        """Whether the entries at these places contain a term, and their positions here."""
        import numpy as np  # noqa: PLC0415

        positions = np.searchsorted(self._places, places)
        if not len(self):
            return np.zeros(len(places), bool), positions
        positions[positions == len(self)] = 0
        return self._places[positions] == places, positions


def _numbered(places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Ascending places, among them all of these, and the positions of these; sorted only if they are far apart."""
    import numpy as np  # noqa: PLC0415

    first, last = (int(places.min()), int(places.max())) if len(places) else (0, -1)
    if last - first < SPREAD * len(places) + BLOCK:
        return np.arange(first, last + 1), places - first
    return np.unique(places, return_inverse=True)


class CachedScores:
    """The last scores of a store's partitions, by the partition's state and the text of the query."""

    def __init__(self) -> None:
        self._scores: OrderedDict[tuple[int, int, str], WordScores] = OrderedDict()
        self._lock = Lock()

    def get(self, partition: int, changes: int, text: str) -> WordScores | None:
        """The scores of the text in this state of the partition, if they are kept."""
        with self._lock:
            return self._scores.get((partition, changes, text))

    def keep(self, partition: int, changes: int, text: str, scores: WordScores) -> None:
        """Keep them, instead of the oldest."""
        with self._lock:
            self._scores[partition, changes, text] = scores
            entries = sum(map(len, self._scores.values()))
            while len(self._scores) > CACHED_SCORES or (entries > CACHED_ENTRIES and len(self._scores) > 1):
                entries -= len(self._scores.popitem(last=False)[1])


class CachedPostings:
    """The postings of a store's terms, each partition's in one state; the least recently used go first.

    A state is never used twice, so that a write by any process, which changes it, leaves nothing to be found here.
    """

    def __init__(self) -> None:
        self._partitions: OrderedDict[int, _Kept] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def __len__(self) -> int:
        """What is kept, in postings."""
        return self._size

    def get(self, partition: int, changes: int, terms: Iterable[str]) -> tuple[Sums, dict[str, Postings]]:
        """Those of the terms that are kept, in this state of the partition, and its sums if there are any."""
        with self._lock:
            kept = self._partitions.get(partition)
            if kept is None or kept.changes != changes:
                return Sums(0, 0), {}
            self._partitions.move_to_end(partition)
            found = [term for term in terms if term in kept.postings]
            for term in found:
                kept.postings.move_to_end(term)
            return kept.sums, {term: kept.postings[term] for term in found}

    def keep(self, partition: int, changes: int, sums: Sums, postings: Mapping[str, Postings]) -> None:
        """Keep them, instead of those of an earlier state; not if a later one is kept."""
        own = {term: each.copied() for term, each in postings.items()}
        with self._lock:
            kept = self._partitions.setdefault(partition, _Kept(changes, sums, OrderedDict()))
            if kept.changes > changes:
                return
            if kept.changes < changes:
                self._size -= sum(map(_size, kept.postings.values()))
                kept = self._partitions[partition] = _Kept(changes, sums, OrderedDict())
            self._partitions.move_to_end(partition)
            new = own.keys() - kept.postings.keys()
            kept.postings.update(own)
            self._size += sum(_size(own[term]) for term in new)
            while self._size > CACHED_POSTINGS:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        partition, kept = next(iter(self._partitions.items()))
        if kept.postings:
            self._size -= _size(kept.postings.popitem(last=False)[1])
        else:
            del self._partitions[partition]


class _Kept(NamedTuple):
    """The postings of a partition in one state."""

    changes: int
    sums: Sums
    postings: OrderedDict[str, Postings]


def _size(postings: Postings) -> int:
    return _TERM_POSTINGS + len(postings.places)


def by_block(entries: Sequence[tuple[int, Mapping[str, int], int]]) -> dict[int, dict[str, bytes]]:
    """The postings of entries (place, counts of terms, length) by block and term."""
    blocks: dict[int, dict[str, bytes]] = {}
    for place, counts, length in entries:
        block = blocks.setdefault(place >> BLOCK_BITS, {})
        packed = {count: posting(place, count, length) for count in set(counts.values())}
        for term, count in counts.items():
            block[term] = block.get(term, b"") + packed[count]
    return blocks
