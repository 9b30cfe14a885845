"""Files are read off the event loop: small ones in a thread, large ones in a process with a timeout."""

import asyncio
import json

import pytest

from wenmai.errors import InvalidInput
from wenmai.grounding.evidence.reading import SMALL_BYTES, FileReader

LINE = {"text": "The bell was cast in 1651.", "title": "The bell"}


def lines(count: int) -> bytes:
    """A file of different passages, with a bad line at its end."""
    passages = (json.dumps(LINE | {"evidence_id": f"bell-{number}"}) for number in range(count))
    return "\n".join([*passages, "not json"]).encode()


@pytest.mark.parametrize("small_bytes", [SMALL_BYTES, 0], ids=["thread", "process"])
async def test_a_thread_and_a_process_read_the_same(small_bytes: int) -> None:
    """Passages in order, and bad lines."""
    found = await FileReader(small_bytes=small_bytes).read(lines(450), "钟.jsonl")
    assert [record.evidence_id for record in found.records()] == [f"bell-{number}" for number in range(450)]
    assert {record.source_ref for record in found.records()} == {"钟.jsonl"}
    assert (found.passages, found.bad_count, [line.line for line in found.bad]) == (450, 1, [451])


@pytest.mark.parametrize("small_bytes", [SMALL_BYTES, 0], ids=["thread", "process"])
@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"x", "a.pdf"),
        (b"\0\1", "a.txt"),
        (b"---\ntitle: [\n---\nx", "a.md"),
        (b"x", "a\x1b.txt"),
        (b"x", "a" * 600 + ".txt"),
    ],
)
async def test_an_unreadable_file_is_an_error(data: bytes, name: str, small_bytes: int) -> None:
    """The same field and text, from a thread or a process."""
    with pytest.raises(InvalidInput) as refused:
        await FileReader(small_bytes=small_bytes).read(data, name)
    assert refused.value.field.startswith(("file", "a.md:1-3"))


async def test_a_timeout_kills_the_reading_process() -> None:
    """The error says so; none of the file is used."""
    with pytest.raises(InvalidInput, match=r"within 0\.01 s"):
        await FileReader(seconds=0.01, small_bytes=0).read(lines(10_000), "a.jsonl")


async def test_cancellation_kills_the_reading_process() -> None:
    """A cancelled request frees its slot."""
    reader = FileReader(small_bytes=0)
    for _ in range(5):
        reading = asyncio.create_task(reader.read(lines(10_000), "a.jsonl"))
        await asyncio.sleep(0.01)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    assert (await reader.read(b"a", "a.txt")).passages == 1
