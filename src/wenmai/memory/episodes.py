"""The recall index: an entry for each message, private to its user, derived from the transcript.

A message is found by words once its thread was derived, and by meaning when its vector is there. The collection has the
name of the embedder, since vectors of two are not comparable; with another one all threads are derived anew.
"""

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from wenmai.errors import ModelError, SessionNotFound
from wenmai.memory.derived import Progress, ThreadChange
from wenmai.memory.episode_entries import VERSION, MessageEntry, entries_of, entry_id, parsed_id, thread_prefix
from wenmai.memory.watermarks import ThreadRef, Watermarks
from wenmai.providers.embedders import Embedder
from wenmai.resilience.grouped_work import GroupedWork
from wenmai.resilience.offload import run_by_size
from wenmai.retrieval.index import batches
from wenmai.retrieval.query_embedding import query_by_words_if_refused
from wenmai.retrieval.vector_cache import VectorCache
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Documents, Logs, Search
from wenmai.stores.records import Marker, Message
from wenmai.stores.structs import CollectionSize, Hit, Range, SearchEntry, SearchQuery, Where
from wenmai.text.cjk import ANALYSIS

_log = logging.getLogger(__name__)

READ_PAGE = 200
"""Messages read and indexed together."""

LOOK_BACK = 12
"""Messages read before those to index: the previous one, and the beginning of its turn."""

EMBEDDED_TOGETHER = 20

_LARGE = 2_000
"""From so many characters on, entries are made in a worker thread."""

WAITS, WAIT_SECONDS = 20, 0.05
"""How often, and for how long each time, vectors wait for their entries."""

_MARKER = "episodes/"
"""Before the names of the markers that list the collections of a site."""


class EpisodeIndex:
    """The entries of all users in one store.

    Args:
        documents: lists the collections, so that a deletion reaches those of other embedders too.
        logs: the transcripts.
        search: the index.
        embedder: None for words alone.
        keyed: whether the search indexes digests of words, which need an index of their own.
    """

    def __init__(
        self, documents: Documents, logs: Logs, search: Search, embedder: Embedder | None, *, keyed: bool = False
    ) -> None:
        self._documents = documents
        self._logs = logs
        self._search = search
        version = f"{ANALYSIS}.{VERSION}" + (".keyed" if keyed else "")
        self.version = version + (f":{embedder.name.replace('/', '_')}" if embedder else "")
        self._collection = f"episodes:{self.version}"
        self._listed: set[tuple[str, str]] = set()
        self._indexing = GroupedWork(self._index_words)

    async def add(self, scope: Scope, entries: Sequence[MessageEntry]) -> None:
        """Index by words; entries that are unchanged keep their vectors.

        Those of several threads of a user together: a word that they share is written once.
        """
        await self._list_collection(scope)
        await self._indexing.add(scope, [each.entry for each in entries])

    async def embed(self, scope: Scope, entries: Sequence[MessageEntry], vectors: Sequence[Sequence[float]]) -> None:
        """Give the entries their vectors."""
        given = [
            msgspec.structs.replace(each.entry, vector=vector) for each, vector in zip(entries, vectors, strict=True)
        ]
        await self._search.embed(scope, self._collection, given)

    async def query(self, scope: Scope, queries: Sequence[SearchQuery]) -> list[list[Hit]]:
        """See :func:`.query_by_words_if_refused`."""
        found, _ = await query_by_words_if_refused(self._search, scope, self._collection, queries)
        return found

    async def size(self, scope: Scope) -> CollectionSize:
        """How many entries the user has, and how many of them have a vector."""
        return await self._search.size(scope, self._collection)

    async def without_vector(self, scope: Scope, thread: ThreadKey, after: int, last: int) -> list[int]:
        """The numbers of the next messages after ``after`` up to ``last`` whose entries have no vector."""
        start = entry_id(thread, after)
        found = await self._search.without_vector(scope, self._collection, after=start, limit=EMBEDDED_TOGETHER)
        numbers = [parsed_id(id_)[1] for id_ in found if id_.startswith(thread_prefix(thread))]
        return [seq for seq in numbers if seq <= last]

    async def read(
        self, scope: Scope, thread: ThreadKey, first: int, last: int, newest: Sequence[Message] = ()
    ) -> list[MessageEntry]:
        """The entries of the messages ``first`` to ``last`` as their transcript is now, or as read in ``newest``."""
        start = max(1, first - LOOK_BACK)
        if newest and newest[0].seq <= start and newest[-1].seq >= last:
            messages = [message for message in newest if start <= message.seq <= last]
        else:
            messages = await self._logs.read(scope, thread, start=start, limit=last - start + 1)
        while start > 1 and messages and messages[0].turn_id == _turn_before(messages, first):
            before = await self._logs.latest(scope, thread, READ_PAGE, before=messages[0].seq)
            start, messages = before[0].seq if before else 1, [*before, *messages]
        size = sum(len(message.content) for message in messages)
        return await run_by_size(size, _LARGE, lambda: list(entries_of(thread, messages, first)))

    async def trim(self, change: ThreadChange) -> bool:
        """Remove the entries past the thread's last message; True if the thread has none.

        Called after entries were added, so that whichever comes last, this or a removal of messages, removes what is
        left. If all of the change is still there, no entry is past the end, unless a removal was cut short: then the
        thread is derived from its beginning.
        """
        newest = await self._logs.latest(change.scope, change.thread, 1)
        last = newest[-1].seq if newest else 0
        if last < change.last or not change.after:
            await self._search.remove(change.scope, self._collection, where=_after(change.thread, last))
        return not newest

    async def remove(self, scope: Scope, thread: ThreadKey, last: int = 0) -> None:
        """Remove the entries of the thread after ``last``, or those of its whole session if it names no persona."""
        for collection in await self._collections(scope):
            await self._search.remove(scope, collection, where=_after(thread, last))

    async def remove_user(self, scope: Scope) -> None:
        """Remove all entries of the user."""
        for collection in await self._collections(scope):
            await self._search.remove(scope, collection, where={"seq": Range(low=0)})

    async def remove_sessions(self, scope: Scope, incarnations: Sequence[str]) -> None:
        """Remove the entries of these sessions of the user."""
        for collection in await self._collections(scope):
            await self._search.remove(scope, collection, where={"incarnation": incarnations})

    async def remove_before(self, scope: Scope, micros: int) -> None:
        """Remove the user's entries of messages before that time."""
        for collection in await self._collections(scope):
            await self._search.remove(scope, collection, where={"at": Range(high=micros)})

    async def count(self, scope: Scope) -> int:
        """How many entries the user has, those of other embedders included."""
        return sum([(await self._search.size(scope, each)).entries for each in await self._collections(scope)])

    async def count_hits(self, scope: Scope, queries: Sequence[SearchQuery]) -> int:
        """How many entries of the user the queries find, in all collections."""
        found = [await self._search.query(scope, each, queries) for each in await self._collections(scope)]
        return sum(len(hits) for results in found for hits in results)

    async def _index_words(self, scope: Scope, entries: Sequence[SearchEntry]) -> None:
        for batch in batches(entries, READ_PAGE):
            await self._search.index(scope, self._collection, batch)

    async def _collections(self, scope: Scope) -> list[str]:
        """The collections of the site, those of other embedders included."""
        names, cursor, more = {self._collection: None}, None, True
        while more:
            page = await self._documents.list(scope, Marker, limit=500, cursor=cursor)
            found = [stored.record for stored in page.items]
            names |= {marker.value: None for marker in found if marker.name.startswith(_MARKER)}
            cursor, more = page.next_cursor, page.next_cursor is not None
        return list(names)

    async def _list_collection(self, scope: Scope) -> None:
        site = (scope.tenant_id, scope.site_id)
        if site in self._listed:
            return
        name = _MARKER + self._collection
        shared = scope._replace(user_id="")  # a marker is of all users, and outlives the one who happened to be first
        if await self._documents.get(shared, Marker, name) is None:
            await self._documents.put(shared, Marker(name=name, value=self._collection))
        self._listed.add(site)


def _after(thread: ThreadKey, last: int) -> Where:
    """The filter for the thread's entries after ``last``, or those of its whole session if it names no persona."""
    if not thread.persona_id:
        return {"incarnation": thread.incarnation or ""}
    return {"incarnation": thread.incarnation or "", "persona": thread.persona_id, "seq": Range(low=last + 1)}


def _turn_before(messages: Sequence[Message], first: int) -> int:
    """The turn of the message before ``first``; that of the first one if there is none."""
    before = [message for message in messages if message.seq < first]
    return before[-1].turn_id if before else messages[0].turn_id


class Episodes:
    """Indexes messages by words; see :mod:`wenmai.memory.derived`."""

    concurrency = 2
    of_session = False
    newest = LOOK_BACK + 2

    def __init__(self, index: EpisodeIndex) -> None:
        self.name = f"episodes:{index.version}"
        self._index = index

    async def progress(self, change: ThreadChange) -> Progress:  # noqa: ARG002 — any new message has an entry
        """Behind with each message."""
        return Progress.BEHIND

    async def derive(self, change: ThreadChange) -> Progress:
        """Index the new messages; of a thread that is derived from its beginning, all."""
        for first in range(change.after + 1, change.last + 1, READ_PAGE):
            last = min(first + READ_PAGE - 1, change.last)
            entries = await self._index.read(change.scope, change.thread, first, last, change.newest)
            await self._index.add(change.scope, entries)
        if await self._index.trim(change):
            raise SessionNotFound(change.thread.session_id)
        return Progress.CURRENT


class EpisodeVectors:
    """Embeds indexed messages; see :mod:`wenmai.memory.derived`.

    What is missing is read from the index itself, so that a run that was killed continues where it was.

    Args:
        index: the entries.
        words: indexes them first.
        watermarks: of ``words``.
        embedder: makes the vectors; a text is embedded once.
    """

    concurrency = 1
    of_session = False
    newest = 1

    def __init__(self, index: EpisodeIndex, words: Episodes, watermarks: Watermarks, embedder: Embedder) -> None:
        self.name = f"episode_vectors:{index.version}"
        self._index = index
        self._words = words
        self._watermarks = watermarks
        self._vectors = VectorCache(embedder)

    async def progress(self, change: ThreadChange) -> Progress:  # noqa: ARG002 — any new message has an entry
        """Behind with each message."""
        return Progress.BEHIND

    async def derive(self, change: ThreadChange) -> Progress:
        """Embed the thread's entries that have no vector."""
        await self._wait_for_words(change)
        after = change.after
        while numbers := await self._index.without_vector(change.scope, change.thread, after, change.last):
            after = numbers[-1]
            entries = await self._index.read(change.scope, change.thread, numbers[0], after)
            wanted = set(numbers)
            await self._embed(change.scope, [each for each in entries if parsed_id(each.entry.id)[1] in wanted])
        return Progress.CURRENT

    async def _wait_for_words(self, change: ThreadChange) -> None:
        """Return when the messages are indexed: usually they are being indexed now, else do it here."""
        ref = ThreadRef(change.scope, change.thread)
        for _ in range(WAITS):
            indexed, _ = await self._watermarks.read(self._words.name, ref)
            if indexed >= change.last:
                return
            await asyncio.sleep(WAIT_SECONDS)
        await self._words.derive(change)

    async def _embed(self, scope: Scope, entries: Sequence[MessageEntry]) -> None:
        """Embed the entries; those whose text the embedder refuses for good are found by words alone."""
        if not entries:
            return
        try:
            vectors = await self._vectors.embed([each.embedded for each in entries])
        except ModelError as problem:
            if problem.retryable or problem.refuses_all:
                raise
            if len(entries) == 1:
                _log.warning("a message is found by words alone, the embedder refused it: %s", problem)
                return
            middle = len(entries) // 2
            await self._embed(scope, entries[:middle])
            await self._embed(scope, entries[middle:])
        else:
            await self._index.embed(scope, entries, vectors)
