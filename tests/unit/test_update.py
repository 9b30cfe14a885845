"""The compare-and-set loop: no update is lost, a change may refuse, and the attempts are bounded."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from wenmai.clock import MovableClock, system_clock
from wenmai.errors import Conflict, SessionNotFound, VersionConflict
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.inprocess.documents import InProcessDocuments
from wenmai.stores.opening import open_store
from wenmai.stores.records import Marker, Preferences, Record, Session
from wenmai.stores.structs import Stored
from wenmai.stores.update import ATTEMPTS, update

SCOPE = Scope()
WRITERS = 40


class Interrupted(InProcessDocuments):
    """A store in which another writer changes the marker between a read and the next write, so many times."""

    def __init__(self, times: int) -> None:
        super().__init__(system_clock)
        self.times = times
        self.puts = 0

    async def put(
        self, scope: Scope, record: Any, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[Any]:
        """Write after the other writer."""
        self.puts += 1
        if self.puts <= self.times:
            await super().put(scope, Marker(name="m", value=f"other {self.puts}"))
        return await super().put(scope, record, expected=expected, keep_until=keep_until)


def with_mark(stored: Stored[Marker] | None) -> Marker:
    """What is stored, with one more mark."""
    return Marker(name="m", value=(stored.record.value if stored else "") + "+")


async def test_concurrent_updates_are_all_applied(store_url: str) -> None:
    """Each of many writers sees the result of the one before."""
    async with open_store(store_url) as store:
        documents = store.documents
        assert documents is not None
        await asyncio.gather(*(update(documents, SCOPE, Marker, "m", with_mark) for _ in range(WRITERS)))
        found = await documents.get(SCOPE, Marker, "m")
    assert found is not None
    assert (found.record.value, found.version) == ("+" * WRITERS, WRITERS)


async def test_an_update_starts_over_from_what_another_writer_stored() -> None:
    """The change is made again from the record as it is now."""
    documents = Interrupted(2)
    assert (await update(documents, SCOPE, Marker, "m", with_mark)).record.value == "other 2+"


async def test_the_attempts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that is never fast enough gets an error that says so, and is no VersionConflict of one attempt."""
    monkeypatch.setattr("wenmai.stores.update.LONGEST_DELAY", 0.001)
    documents = Interrupted(ATTEMPTS + 1)
    with pytest.raises(Conflict, match="markers m is being changed by too many writers at once") as caught:
        await update(documents, SCOPE, Marker, "m", with_mark)
    assert not isinstance(caught.value, VersionConflict)
    assert documents.puts == ATTEMPTS


async def test_an_unchanged_record_is_not_written_unless_it_is_to_be() -> None:
    """With ``rewrite`` the version rises, so that a concurrent update conflicts."""
    documents = InProcessDocuments(system_clock)
    await documents.put(SCOPE, Marker(name="m"))

    def same(stored: Stored[Marker] | None) -> Marker:
        assert stored is not None
        return stored.record

    assert (await update(documents, SCOPE, Marker, "m", same)).version == 1
    assert (await update(documents, SCOPE, Marker, "m", same, rewrite=True)).version == 2


async def test_a_check_that_raises_refuses_the_update() -> None:
    """Nothing is written."""

    async def refuse() -> None:
        raise LookupError

    documents = InProcessDocuments(system_clock)
    with pytest.raises(LookupError):
        await update(documents, SCOPE, Marker, "m", with_mark, check=refuse)
    assert await documents.get(SCOPE, Marker, "m") is None


async def test_a_record_of_a_deleted_session_is_read_again() -> None:
    """If the session was deleted since the read, the change is made from nothing; without a session it is refused."""
    clock = MovableClock()
    documents: Documents = InProcessDocuments(clock)
    session = Session(session_id="s", expires_at=clock() + timedelta(hours=1), lifetime_seconds=3600)
    await documents.put(SCOPE, session)
    first = await documents.put(SCOPE, Preferences(session_id="s", tone="casual"))
    seen: list[Record | None] = []

    async def replaced() -> None:
        if not seen:
            await documents.delete(SCOPE, Session, "s")
            await documents.put(SCOPE, session)

    def brief(stored: Stored[Preferences] | None) -> Preferences:
        seen.append(stored.record if stored else None)
        return replace(stored.record if stored else Preferences(session_id="s"), verbosity="brief")

    stored = await update(documents, SCOPE, Preferences, "s", brief, check=replaced)
    assert seen == [first.record, None]
    assert (stored.record.tone, stored.record.verbosity) == ("formal", "brief")
    await documents.delete(SCOPE, Session, "s")
    with pytest.raises(SessionNotFound):
        await update(documents, SCOPE, Preferences, "s", brief)


async def test_a_known_record_saves_the_read_and_a_stale_one_is_read_again() -> None:
    """A fresh one is written at once; on a stale one neither a change nor the absence of one is believed."""
    documents = InProcessDocuments(system_clock)
    first = await documents.put(SCOPE, Marker(name="m", value="a"))
    reads = 0

    async def counted() -> None:
        nonlocal reads
        reads += 1

    fresh = await update(documents, SCOPE, Marker, "m", with_mark, known=first)
    assert (fresh.record.value, fresh.version) == ("a+", 2)
    stale = await update(documents, SCOPE, Marker, "m", with_mark, known=first, check=counted)
    assert (stale.record.value, reads) == ("a++", 2)
    same = await update(documents, SCOPE, Marker, "m", lambda _: Marker(name="m", value="a"), known=first)
    assert (same.record.value, same.version) == ("a", 4)
