"""Record types that are declared by tests alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import msgspec

from wenmai.stores.records import RECORDS, Record, RecordSpec


class Note(Record, frozen=True, kw_only=True):
    """One record per session, which a cache keeps."""

    spec: ClassVar = RecordSpec("notes", key="session_id", bound_to="session", cached=True, private=("text",))

    session_id: str
    incarnation: str = ""
    text: str = ""


class Clue(Record, frozen=True, kw_only=True):
    """Several records per thread."""

    spec: ClassVar = RecordSpec(
        "clues", key="clue_id", filters=("session_id", "npc_id"), bound_to="thread", private=("text",)
    )

    clue_id: str
    session_id: str
    incarnation: str = ""
    persona_id: str = msgspec.field(name="npc_id")
    text: str | None = None
    seen: list[str]


DECLARED: tuple[type[Record], ...] = (Note, Clue)


@contextmanager
def declared() -> Iterator[None]:
    """The two types are declared for as long as the context lasts."""
    RECORDS.extend(DECLARED)
    try:
        yield
    finally:
        for of in DECLARED:
            RECORDS.remove(of)
