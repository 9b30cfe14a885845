"""A collection of one scope: stored in Milvus, searched in memory, where it follows what other processes write.

Milvus has no statistics of a scope and no transactions. So words are counted and vectors compared here, by the
:class:`~wenmai.stores.inprocess.partition.Partition` that is read once and then kept; a write changes the rows first,
then the version in the state's row, then the partition. A read that finds another version there reads the rows that
have changed. Calls block: they run in a thread, one at a time.
"""

from collections.abc import Iterable, Mapping, Sequence
from secrets import token_hex
from typing import NamedTuple

from wenmai.stores.inprocess.partition import IndexedEntry, Partition, analysed
from wenmai.stores.milvus.client import Client
from wenmai.stores.milvus.rows import (
    NO_VECTOR,
    Owner,
    State,
    decode_entry,
    decode_state,
    entry_rows,
    is_of_text,
    part_keys,
    parts_in,
    state_row,
    vector_row,
)
from wenmai.stores.search_values import check_dimension, check_entries, check_vectors, text_digest
from wenmai.stores.structs import SearchEntry, Where


class _Known(NamedTuple):
    """An entry's id, and the version of its rows."""

    id: str
    version: str


class StoredPartition:
    """See the module.

    Attributes:
        partition: as of the last :meth:`follow`.
    """

    def __init__(self, client: Client, owner: Owner) -> None:
        self._client = client
        self._owner = owner
        self.partition = Partition()
        self._known: dict[str, _Known] = {}
        self._vectors: dict[str, str] = {}
        self._state: State | None = None
        self._is_current = False

    @property
    def size(self) -> int:
        """Number of entries in memory."""
        return len(self.partition.entries)

    def follow(self, *, whole: bool = False) -> Partition:
        """Read what has changed since the last call; if ``whole``, even if the state has not."""
        state = self._read_state()
        if not whole and self._is_current and state == self._state:
            return self.partition
        self._is_current = False
        if state is None and not whole:
            self._forget()
        else:
            self._follow_entries()
            self._follow_vectors(state)
        self._state, self._is_current = state, True
        return self.partition

    def index(self, entries: Sequence[SearchEntry]) -> None:
        """See :meth:`wenmai.stores.contracts.Search.index`."""
        check_entries(entries, None)
        self.follow()
        dimension = check_dimension(entries, self.partition.vectors.dimension)
        latest = {entry.id: entry for entry in entries}
        indexed = {id_: analysed(entry) for id_, entry in latest.items()}
        version = token_hex(8)
        rows = {id_: entry_rows(self._owner, id_, entry, version) for id_, entry in indexed.items()}
        before = self._begin(dimension)
        vectors = self._put_vectors(latest.values(), indexed, version)
        self._client.upsert(self._owner.words, [row for each in rows.values() for row in each])
        self._delete_rest({id_: len(each) for id_, each in rows.items()})
        self._delete_vectors([id_ for id_, entry in latest.items() if self._loses_vector(entry, indexed[id_])])
        for id_, entry in latest.items():
            pk = self._owner.pk(id_)
            if self._loses_vector(entry, indexed[id_]):
                self._vectors.pop(pk, None)
            self._known[pk] = _Known(id_, rows[id_][0]["version"])
            self.partition.add(id_, indexed[id_], entry.vector)
        self._vectors |= vectors
        self._commit(before)

    def embed(self, entries: Sequence[SearchEntry]) -> int:
        """See :meth:`wenmai.stores.contracts.Search.embed`."""
        check_vectors(entries, None)
        self.follow()
        dimension = check_dimension(entries, self.partition.vectors.dimension)
        indexed = self.partition.entries
        fresh = {
            entry.id: entry
            for entry in {entry.id: entry for entry in entries}.values()
            if entry.id in indexed and indexed[entry.id].digest == text_digest(entry.text)
        }
        if fresh:
            before = self._begin(dimension)
            vectors = self._put_vectors(fresh.values(), indexed, token_hex(8))
            for id_, entry in fresh.items():
                self.partition.vectors.put(id_, entry.vector or ())
            self._vectors |= vectors
            self._commit(before)
        return len(fresh)

    def remove(self, ids: Iterable[str]) -> int:
        """Remove the entries with these ids; return how many there were."""
        self.follow()
        pks = {self._owner.pk(id_): id_ for id_ in ids}
        known = {pk: self._known[pk] for pk in pks if pk in self._known}
        if not known and self._state is None:
            return 0
        before = self._begin(None)
        self._delete_vectors(pks.values())
        continued = [key for pk, each in known.items() for key in part_keys(pk, parts_in(each.version))[1:]]
        self._client.delete(self._owner.words, [*pks, *continued])
        for pk, each in known.items():
            del self._known[pk]
            self._vectors.pop(pk, None)
            self.partition.drop(each.id)
        self._commit(before)
        return len(known)

    def remove_matching(self, where: Where) -> int:
        """Remove the entries that match; return how many there were."""
        return self.remove(self.follow(whole=True).matching(where))

    def _forget(self) -> None:
        self.partition = Partition()
        self._known.clear()
        self._vectors.clear()

    @property
    def _dimensions(self) -> tuple[int, ...]:
        return self._state.dimensions if self._state else ()

    @property
    def _dimension(self) -> int | None:
        """The dimension of the rows of vectors."""
        return self._dimensions[-1] if self._dimensions else None

    def _read_state(self) -> State | None:
        rows = self._client.get(self._owner.words, [self._owner.state_pk], ["payload"])
        return decode_state(rows[0]["payload"]) if rows else None

    def _follow_entries(self) -> None:
        """Read the entries that have another version, and drop those that are gone."""
        owner = self._owner
        listed = {
            row["pk"]: row["version"]
            for row in self._client.list_rows(owner.words, owner.tenant, owner.key, ["pk", "version"])
        }
        for pk in [pk for pk in self._known if pk not in listed]:
            self.partition.drop(self._known.pop(pk).id)
            self._vectors.pop(pk, None)
        changed = {
            pk: version for pk, version in listed.items() if pk not in self._known or self._known[pk][1] != version
        }
        keys = [key for pk, version in changed.items() for key in part_keys(pk, parts_in(version))]
        read = {row["pk"]: row for row in self._client.get(owner.words, keys, ["pk", "version", "payload"])}
        for pk, version in changed.items():
            parts = [read.get(key) for key in part_keys(pk, parts_in(version))]
            rows = [row for row in parts if row is not None and row["version"] == version]
            if len(rows) == len(parts):  # otherwise changed again meanwhile, and then so is the state
                entry = decode_entry([row["payload"] for row in rows])
                self.partition.add(entry.id, entry.indexed(), None)
                self._known[pk] = _Known(entry.id, version)

    def _follow_vectors(self, state: State | None) -> None:
        """Read the vectors that have another version, and drop those that are gone, or of another text."""
        owner, vectors = self._owner, self.partition.vectors
        dimension = state.dimensions[-1] if state and state.dimensions else None
        if dimension != self._dimension:
            for id_ in self.partition.entries:
                vectors.discard(id_)
            self._vectors.clear()
        if dimension is None:
            return
        listed = self._client.list_rows(owner.vectors(dimension), owner.tenant, owner.key, ["pk", "version"])
        versions = {
            row["pk"]: row["version"]
            for row in listed
            if row["pk"] in self._known
            and is_of_text(row["version"], self.partition.entries[self._known[row["pk"]].id].digest)
        }
        for pk in [pk for pk in self._vectors if versions.get(pk) != self._vectors[pk]]:
            vectors.discard(self._known[pk].id)
            del self._vectors[pk]
        missing = [pk for pk in versions if pk not in self._vectors]
        for row in self._client.get(owner.vectors(dimension), missing, ["pk", "version", "vector"]):
            if row["version"] == versions[row["pk"]]:
                vectors.put(self._known[row["pk"]].id, row["vector"][:dimension])
                self._vectors[row["pk"]] = row["version"]

    def _begin(self, dimension: int | None) -> State | None:
        """Prepare a write; return the state before it. The partition is stale until :meth:`_commit`."""
        self._is_current = False
        self._client.create(self._owner.words, len(NO_VECTOR))
        if dimension is not None and dimension != self._dimension:
            self._client.create(self._owner.vectors(dimension), max(dimension, len(NO_VECTOR)))
            # Before the vectors: it says where they are.
            self._write_state((*(each for each in self._dimensions if each != dimension), dimension))
        return self._state

    def _commit(self, before: State | None) -> None:
        """Write another state; the partition stays stale if another process has written one meanwhile."""
        self._is_current = self._write_state(self._dimensions) == before

    def _write_state(self, dimensions: tuple[int, ...]) -> State | None:
        """Write another state, with the dimensions that another process has added too; return the one before it."""
        before = self._read_state()
        added = [each for each in (before.dimensions if before else ()) if each not in dimensions]
        self._state = State(token_hex(8), (*added, *dimensions))
        self._client.upsert(self._owner.words, [state_row(self._owner, self._state)])
        return before

    def _put_vectors(
        self, entries: Iterable[SearchEntry], indexed: Mapping[str, IndexedEntry], version: str
    ) -> dict[str, str]:
        """Store the vectors that the entries have; return their versions by key."""
        rows = [
            (len(entry.vector), vector_row(self._owner, entry.id, indexed[entry.id].digest, entry.vector, version))
            for entry in entries
            if entry.vector is not None
        ]
        if rows:
            self._client.upsert(self._owner.vectors(rows[0][0]), [row for _, row in rows])
        return {row["pk"]: row["version"] for _, row in rows}

    def _loses_vector(self, entry: SearchEntry, indexed: IndexedEntry) -> bool:
        old = self.partition.entries.get(entry.id)
        return entry.vector is None and old is not None and old.digest != indexed.digest

    def _delete_vectors(self, ids: Iterable[str]) -> None:
        pks = [self._owner.pk(id_) for id_ in ids]
        for dimension in self._dimensions:
            self._client.delete(self._owner.vectors(dimension), pks)

    def _delete_rest(self, parts: Mapping[str, int]) -> None:
        """Delete the last rows of entries that had more of them."""
        rest = []
        for id_, count in parts.items():
            known = self._known.get(self._owner.pk(id_))
            rest += part_keys(self._owner.pk(id_), parts_in(known.version))[count:] if known else []
        self._client.delete(self._owner.words, rest)
