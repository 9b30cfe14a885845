"""Everything that is stored of a user: counted, removed, and searched for afterwards."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import msgspec

from wenmai.errors import Undecipherable
from wenmai.memory.episodes import EpisodeIndex
from wenmai.memory.usage import UsageLedger
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents, Logs
from wenmai.stores.records import RECORDS, Record, Session, UsageRecord
from wenmai.stores.structs import SearchQuery, Stored

if TYPE_CHECKING:
    from wenmai.stores.encryption.data_keys import DataKeys

T = TypeVar("T")

MESSAGES, ENTRIES, KEYS = "messages", "search entries", "data keys"

_PAGE = 50
_CONCURRENT = 8
_SAMPLES = 20
_SAMPLE_CHARACTERS = 200


class Inventory(msgspec.Struct, frozen=True):
    """What is stored of a user.

    Attributes:
        counts: number of items by kind; kinds without any are missing.
        sessions: id and incarnation of each session.
        words: beginnings of some of the user's messages.
    """

    counts: Counter[str]
    sessions: list[tuple[str, str]]
    words: list[str]


def user_records() -> list[type[Record]]:
    """The types whose records belong to a user, sessions first, because what is bound to a session goes with it."""
    return [Session, *(of for of in RECORDS if not of.spec.shared and of is not Session)]


class UserData:
    """The data of users in one store.

    Args:
        documents: the records; those that are not shared belong to their user.
        logs: the messages.
        episodes: the recall index; None without search.
        usage: the daily counters, which are shared records of the tenant that name users.
        keys: the data keys of an encrypted store, else None; its ``documents`` are then not decrypted, so that they can
            be removed without their key.
    """

    def __init__(
        self,
        documents: Documents,
        logs: Logs,
        episodes: EpisodeIndex | None,
        usage: UsageLedger,
        keys: "DataKeys | None" = None,
    ) -> None:
        self._documents = documents
        self._keys = keys
        self._logs = logs
        self._episodes = episodes
        self._usage = usage

    async def inventory(self, scope: Scope) -> Inventory:
        """Count what is stored of the user."""
        counts: Counter[str] = Counter()
        sessions: list[tuple[str, str]] = []
        words: list[str] = []
        for of in user_records():
            async for page in self._pages(scope, of):
                counts[of.spec.collection] += len(page)
                if of is Session:
                    found = [stored.record for stored in page if isinstance(stored.record, Session)]
                    sessions += [(session.session_id, session.incarnation) for session in found]
                    counts[MESSAGES] += sum(await _all(self._count_messages(scope, each) for each in found))
                    words += await self._words(scope, found[: max(0, _SAMPLES - len(words))])
        counts[UsageRecord.spec.collection] += len(await self._usage.keys_of_user(scope))
        if self._keys is not None:
            counts[KEYS] += await self._keys.count(scope)
        if self._episodes is not None:
            counts[ENTRIES] += await self._episodes.count(scope)
        return Inventory(+counts, sessions, words)

    async def remove(self, scope: Scope) -> None:
        """Remove everything; what arrives meanwhile may stay."""
        for of in user_records():
            async for page in self._pages(scope, of):
                if of is Session:
                    # A page at a time, so that a long transaction does not block other writers.
                    named = [stored.record.incarnation for stored in page if isinstance(stored.record, Session)]
                    await self.remove_entries(scope, named)
                await _all(self._documents.delete(scope, of, stored.record.key) for stored in page)
        await self._usage.forget_user(scope)
        if self._episodes is not None:
            # All others: background work may have indexed messages until their sessions were deleted.
            await self._episodes.remove_user(scope)
        await self._documents.sweep()

    async def forget_key(self, scope: Scope) -> None:
        """Erase the user's data key, so that copies of the store, without the key, are unreadable."""
        if self._keys is not None:
            await self._keys.forget(scope)

    async def remove_entries(self, scope: Scope, incarnations: Iterable[str]) -> None:
        """Remove the search entries of these sessions, which may be deleted: killed work can have left entries."""
        if self._episodes is not None:
            for batch in _batches(incarnations, 5_000):
                await self._episodes.remove_sessions(scope, batch)

    async def left(self, scope: Scope, removed: Inventory) -> Counter[str]:
        """What is still found of the user: by listing, by the ids of removed sessions, by the user's words."""
        found = (await self.inventory(scope)).counts
        for batch in _batches(removed.sessions, _PAGE):
            threads = await _all(self._logs.threads(scope, session_id) for session_id, _ in batch)
            found[MESSAGES] += sum(thread.message_count for each in threads for thread in each)
        if self._episodes is not None and removed.words:
            queries = [SearchQuery(text=words) for words in removed.words]
            found[ENTRIES] += await self._episodes.count_hits(scope, queries)
        return +found

    async def _pages(self, scope: Scope, of: type[Record]) -> AsyncIterator[list[Stored[Record]]]:
        cursor, more = None, True
        while more:
            page = await self._documents.list(scope, of, limit=_PAGE, cursor=cursor)
            if page.items:
                yield page.items
            cursor, more = page.next_cursor, page.next_cursor is not None

    async def _count_messages(self, scope: Scope, session: Session) -> int:
        threads = await self._logs.threads(scope, session.session_id, incarnation=session.incarnation)
        return sum(thread.message_count for thread in threads)

    async def _words(self, scope: Scope, sessions: list[Session]) -> list[str]:
        words = []
        for session in sessions:
            for info in await self._logs.threads(scope, session.session_id, incarnation=session.incarnation):
                try:
                    newest = await self._logs.latest(scope, session.thread(info.persona_id), 2)
                except Undecipherable:
                    continue  # its words are unknown, so they cannot be searched for
                words += [message.content[:_SAMPLE_CHARACTERS] for message in newest if message.content.strip()]
        return words[:_SAMPLES]


async def _all(work: Iterable[Awaitable[T]]) -> list[T]:
    """The results, in order, of at most so many at a time."""
    results: list[T] = []
    for batch in _batches(work, _CONCURRENT):
        results += await asyncio.gather(*batch)
    return results


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
