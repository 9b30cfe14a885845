"""Messages of a file reader: batches of passages, then the bad lines, each encoded on its own.

The receiver decodes a bounded batch at a time, whether they come from a thread or from another process.
"""

from collections.abc import Iterator

import msgspec

from wenmai.errors import InvalidInput
from wenmai.grounding.evidence.parsing import BadLine, parse
from wenmai.stores.records import EvidenceRecord

PASSAGES = 200
CHARACTERS = 50_000
"""A batch ends after this many passages, or with the one that exceeds this many characters."""

NAMED_BAD_LINES = 100
LENGTH_BYTES = 4
"""Between processes each message is preceded by its length, in this many bytes."""


class Batch(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Passages in the order of the file."""

    records: list[EvidenceRecord]


class Outcome(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The end of a file that was read: its first 100 bad lines, how many there are, and the passages before."""

    bad: list[BadLine]
    bad_count: int
    passages: int


class Refusal(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The end of a file that cannot be read at all; the fields of :class:`~wenmai.errors.InvalidInput`."""

    field: str
    allowed: str


Message = Batch | Outcome | Refusal

_encoder = msgspec.msgpack.Encoder()


def messages(data: bytes, name: str) -> Iterator[bytes]:
    """The file as encoded messages; the last one is an :class:`Outcome` or a :class:`Refusal`."""
    bad: list[BadLine] = []
    bad_count = passages = characters = 0
    batch: list[EvidenceRecord] = []
    try:
        for item in parse(data, name):
            if isinstance(item, BadLine):
                bad_count += 1
                bad += [item] if bad_count <= NAMED_BAD_LINES else []
                continue
            passages += 1
            batch.append(item)
            characters += len(item.text)
            if len(batch) == PASSAGES or characters >= CHARACTERS:
                yield _encoder.encode(Batch(batch))
                batch, characters = [], 0
    except InvalidInput as problem:
        yield _encoder.encode(Refusal(problem.field, problem.allowed))
        return
    if batch:
        yield _encoder.encode(Batch(batch))
    yield _encoder.encode(Outcome(bad, bad_count, passages))
