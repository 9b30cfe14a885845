"""The rows of a Milvus store: keys made of digests, entries as JSON, in several rows if long.

Every collection has the same fields:

=========  ===============================================================================================
pk         digest of owner and entry id; a long entry continues in ``{pk}-1`` and so on; ``{owner}-state``
tenant     digest of the tenant: the partition key
owner      digest of collection and scope; empty in rows that continue another, or hold a state
version    random, new with each write; of a vector, the digest of its text too
payload    the entry without its text, the rest of one, or a state
vector     the embedding; in rows of words, zeros, as Milvus wants a vector in each row
=========  ===============================================================================================
"""

from base64 import b85decode, b85encode
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, NamedTuple
from zlib import compress, decompress

import msgspec

from wenmai.scope import Scope
from wenmai.stores.inprocess.partition import IndexedEntry
from wenmai.stores.milvus.client import PAYLOAD_BYTES, Row
from wenmai.stores.structs import FieldValue

EPISODES, OTHERS = "conversation_episodes", "search_entries"
"""Milvus collections of episodes, and of every other library collection."""

NO_VECTOR = [0.0, 0.0]
"""Of a row of words; two is the fewest dimensions that Milvus allows."""

_SEPARATOR = "\0"
"""In no name."""


class Owner(NamedTuple):
    """A library collection of one scope.

    Attributes:
        tenant: its digest.
        key: digest of collection and scope.
        words: Milvus collection of the entries; their vectors are in one per dimension, see :meth:`vectors`.
    """

    tenant: str
    key: str
    words: str

    def vectors(self, dimension: int) -> str:
        """The Milvus collection of vectors of that length."""
        return f"{self.words}_{dimension}"

    @property
    def state_pk(self) -> str:
        """The key of the row that holds the :class:`State`."""
        return f"{self.key}-state"

    def pk(self, id_: str) -> str:
        """The key of an entry's first row, and of its vector."""
        return _digest(self.key, id_)


class State(msgspec.Struct, frozen=True, array_like=True):
    """A version of an owner's rows: another after each write.

    Attributes:
        version: random.
        dimensions: lengths that its vectors have had; the last is that of any vectors now.
    """

    version: str
    dimensions: tuple[int, ...]


class Payload(msgspec.Struct, frozen=True, array_like=True):
    """An entry as it is stored."""

    id: str
    digest: bytes
    counts: dict[str, int]
    fields: dict[str, FieldValue | list[FieldValue]]

    def indexed(self) -> IndexedEntry:
        """The entry as it is searched."""
        counts = Counter(self.counts)
        return IndexedEntry(digest=self.digest, counts=counts, length=counts.total(), fields=dict(self.fields))


def owner_of(scope: Scope, collection: str, *, shared: bool) -> Owner:
    """The owner of a scope's entries in a library collection."""
    user = ("shared",) if shared else ("user", scope.user_id)
    name = collection.partition(":")[0]
    return Owner(
        _digest(scope.tenant_id),
        _digest(scope.tenant_id, scope.site_id, collection, *user),
        EPISODES if name == "episodes" else OTHERS,
    )


def entry_rows(owner: Owner, id_: str, entry: IndexedEntry, version: str) -> list[Row]:
    """The rows of an entry."""
    fields: Any = entry.fields
    payload = msgspec.json.encode(Payload(id_, entry.digest, dict(entry.counts), fields)).decode()
    parts = [payload]
    if len(payload.encode()) > PAYLOAD_BYTES:
        packed = b85encode(compress(payload.encode(), level=1)).decode()
        parts = [packed[start : start + PAYLOAD_BYTES] for start in range(0, len(packed), PAYLOAD_BYTES)]
    keys = part_keys(owner.pk(id_), len(parts))
    first = f"{version}:{len(parts)}"
    return [
        _row(owner, pk, owner.key if pk == keys[0] else "", first, part, NO_VECTOR)
        for pk, part in zip(keys, parts, strict=True)
    ]


def part_keys(pk: str, parts: int) -> list[str]:
    """The keys of the rows of an entry."""
    return [pk, *(f"{pk}-{number}" for number in range(1, parts))]


def parts_in(version: str) -> int:
    """The number of rows of an entry, by the version of its first."""
    return int(version.partition(":")[2])


def decode_entry(payloads: Sequence[str]) -> Payload:
    """The entry in its rows."""
    text = "".join(payloads)
    if not text.startswith("["):
        return msgspec.json.decode(decompress(b85decode(text)), type=Payload)
    return msgspec.json.decode(text, type=Payload)


def vector_row(owner: Owner, id_: str, digest: bytes, vector: Sequence[float], version: str) -> Row:
    """The row of the vector of an entry whose text has that digest."""
    padded = [*vector, 0.0] if len(vector) == 1 else list(vector)
    return _row(owner, owner.pk(id_), owner.key, f"{version}:{digest.hex()[:32]}", "", padded)


def is_of_text(version: str, digest: bytes) -> bool:
    """Whether the version of a vector's row says that it is of the text with that digest."""
    return version.partition(":")[2] == digest.hex()[:32]


def state_row(owner: Owner, state: State) -> Row:
    """The row of a state."""
    return _row(owner, owner.state_pk, "", state.version, msgspec.json.encode(state).decode(), NO_VECTOR)


def decode_state(payload: str) -> State:
    """The state in its row."""
    return msgspec.json.decode(payload, type=State)


def _row(owner: Owner, pk: str, key: str, version: str, payload: str, vector: list[float]) -> Row:
    return {
        "pk": pk,
        "tenant": owner.tenant,
        "owner": key,
        "version": version,
        "payload": payload,
        "vector": vector,
    }


def _digest(*names: str) -> str:
    """Of names without NUL, 40 hexadecimal digits."""
    return sha256(_SEPARATOR.join(names).encode()).hexdigest()[:40]
