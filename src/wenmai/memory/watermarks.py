"""Watermarks: up to which message each derived record of a thread is current.

A watermark that only says that nothing had to change is stored lazily. If it is lost in a crash, the work is done again
and changes nothing.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from wenmai.errors import NotFound, VersionConflict
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Documents
from wenmai.stores.records import Watermark
from wenmai.stores.structs import Stored
from wenmai.stores.update import update
from wenmai.stores.validation import MAX_KEYS

FINAL = 2**53 - 1
"""Instead of a number: the derived record is complete, and appends do not change it."""

UNFINISHED = "unfinished"
"""Instead of a function: its watermark is the first unfinished message that others may have passed, or 0."""

MAX_KNOWN = 5_000
"""Threads whose watermarks are cached."""

MANY_UNSTORED = 8_000
"""Watermarks that wait to be stored; with more, a check stores them first, or a sweep of many threads never ends."""

MAX_UNSTORED = 10_000
"""If the store fails for long, the oldest above these is dropped and its work repeated after a restart."""

CONCURRENT_PUTS = 8


class ThreadRef(NamedTuple):
    """A thread, its incarnation included, and its owner."""

    scope: Scope
    thread: ThreadKey


class Mark(NamedTuple):
    """A watermark, and the version of its record as it was read; 0 and 0 if there is none."""

    seq: int
    version: int


NO_MARK = Mark(0, 0)


class Watermarks:
    """Reads and stores watermarks."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._known: OrderedDict[ThreadRef, dict[str, Mark]] = OrderedDict()
        self._unstored: dict[tuple[str, ThreadRef], Mark] = {}
        self._flushing = asyncio.Lock()

    async def get(self, ref: ThreadRef, functions: Sequence[str]) -> dict[str, Mark]:
        """The watermark of each function; another process may have changed it meanwhile."""
        known = self._known.get(ref)
        while known is None or any(name not in known for name in functions):
            if known is None:
                known = {}
                self._remember(ref, known)
            found = await self._documents.get_many(ref.scope, Watermark, [_key(name, ref) for name in functions])
            if self._known.get(ref) is known:  # else one was set during the read
                fresh = {name: _mark_of(found.get(_key(name, ref))) for name in functions}
                self._remember(ref, known | fresh | self._unstored_of(functions, ref))
            known = self._known.get(ref)
        return {name: known[name] for name in functions}

    async def read(self, function: str, ref: ThreadRef) -> Mark:
        """The watermark, with the version as stored."""
        stored = _mark_of(await self._documents.get(ref.scope, Watermark, _key(function, ref)))
        unstored = self._unstored.get((function, ref))
        return Mark(unstored.seq, stored.version) if unstored else stored

    async def get_many(self, refs: Sequence[ThreadRef], functions: Sequence[str]) -> dict[ThreadRef, dict[str, int]]:
        """Those of many threads, of any owners, as stored, with few reads; the cache forgets what differs."""
        marks = {ref: dict.fromkeys(functions, NO_MARK) for ref in refs}
        by_scope: dict[Scope, list[tuple[str, ThreadRef]]] = {}
        for ref in refs:
            by_scope.setdefault(ref.scope, []).extend((name, ref) for name in functions)
        for scope, wanted in by_scope.items():
            for start in range(0, len(wanted), MAX_KEYS):
                batch = {_key(name, ref): (name, ref) for name, ref in wanted[start : start + MAX_KEYS]}
                for key, found in (await self._documents.get_many(scope, Watermark, list(batch))).items():
                    name, ref = batch[key]
                    marks[ref][name] = _mark_of(found)
        for ref in refs:
            marks[ref] |= self._unstored_of(functions, ref)
            if self._known.get(ref, marks[ref]) != marks[ref]:
                del self._known[ref]
        return {ref: {name: mark.seq for name, mark in found.items()} for ref, found in marks.items()}

    def advance(self, function: str, ref: ThreadRef, seq: int, before: Mark) -> bool:
        """Set a watermark; it is stored by the next :meth:`flush`, unless another process changes it first.

        Args:
            function: its name.
            ref: the thread.
            seq: the watermark.
            before: as it was read before the work.

        Returns:
            False if it was changed meanwhile: the work may have seen messages that were removed.
        """
        known = self._known.get(ref, {})
        if known.get(function) != before:
            return False
        mark = Mark(seq, before.version)
        self._remember(ref, known | {function: mark})
        self._unstored.pop((function, ref), None)
        if len(self._unstored) >= MAX_UNSTORED:
            del self._unstored[next(iter(self._unstored))]
        self._unstored[function, ref] = mark
        return True

    async def store(self, function: str, ref: ThreadRef, seq: int, *, expected: int | None = None) -> None:
        """Set a watermark durably.

        Args:
            function: its name.
            ref: the thread.
            seq: the watermark.
            expected: the version that must be stored; None means any.

        Raises:
            SessionNotFound: the session was deleted.
            VersionConflict: the watermark was changed meanwhile.
        """
        self._unstored.pop((function, ref), None)
        self._forget(function, ref)  # whatever is stored, a check in progress has read another
        try:
            stored = await self._documents.put(ref.scope, _record(function, ref, seq), expected=expected)
        finally:
            self._forget(function, ref)
        if ref in self._known:
            self._known[ref] = self._known[ref] | {function: _mark_of(stored)}

    async def reset(self, ref: ThreadRef, functions: Sequence[str]) -> None:
        """Set the watermarks of a thread to 0 durably, unless they are final.

        Also those that are 0, so that a run that began before does not store its own.

        Raises:
            SessionNotFound: the session was deleted.
        """
        marks = (await self.get_many([ref], functions))[ref]
        for name in functions:
            if marks[name] != FINAL:
                await self.store(name, ref, 0)

    async def note_unfinished(self, ref: ThreadRef, seq: int) -> None:
        """Note durably that watermarks may pass this unfinished message; an earlier one stays noted.

        Raises:
            SessionNotFound: the session was deleted.
        """

        def first(stored: Stored[Watermark] | None) -> Watermark:
            return stored.record if stored and 0 < stored.record.seq <= seq else _record(UNFINISHED, ref, seq)

        await update(self._documents, ref.scope, Watermark, _key(UNFINISHED, ref), first)
        self._forget(UNFINISHED, ref)

    async def flush_many(self) -> None:
        """:meth:`flush` if there are many."""
        if len(self._unstored) >= MANY_UNSTORED:
            await self.flush()

    async def flush(self, *, rest: float = 0.0) -> None:
        """Store the watermarks set by :meth:`advance`.

        Args:
            rest: how many times as long as a batch took to wait before the next one.

        Raises:
            StoreError: the store failed; the rest is stored by the next flush.
        """
        async with self._flushing:
            await self._flush(rest)

    async def _flush(self, rest: float) -> None:
        while self._unstored:
            began = time.monotonic()
            batch = list(self._unstored.items())[:CONCURRENT_PUTS]
            for entry, _ in batch:
                del self._unstored[entry]
            results = await asyncio.gather(*(self._put(*entry, mark) for entry, mark in batch), return_exceptions=True)
            failed = [result for result in results if isinstance(result, BaseException)]
            if failed:
                # Not those that were stored, or set to something else meanwhile.
                again = {entry: mark for entry, mark in batch if self._known.get(entry[1], {}).get(entry[0]) == mark}
                self._unstored = again | self._unstored
                raise failed[0]
            await asyncio.sleep(rest * (time.monotonic() - began))

    async def _put(self, function: str, ref: ThreadRef, mark: Mark) -> None:
        try:
            stored = await self._documents.put(ref.scope, _record(function, ref, mark.seq), expected=mark.version)
        except (NotFound, VersionConflict):  # the session is deleted; or another process has set it, to 0 after a cut
            self._unstored.pop((function, ref), None)
            self._forget(function, ref)
            return
        known = self._known.get(ref, {}).get(function)
        if known is not None and known.version == mark.version:
            self._known[ref] = self._known[ref] | {function: known._replace(version=stored.version)}
        if (later := self._unstored.get((function, ref))) is not None:  # set during the put
            self._unstored[function, ref] = later._replace(version=stored.version)

    def _unstored_of(self, functions: Iterable[str], ref: ThreadRef) -> dict[str, Mark]:
        return {name: self._unstored[name, ref] for name in functions if (name, ref) in self._unstored}

    def _forget(self, function: str, ref: ThreadRef) -> None:
        if ref in self._known:
            self._known[ref] = {name: mark for name, mark in self._known[ref].items() if name != function}

    def _remember(self, ref: ThreadRef, marks: dict[str, Mark]) -> None:
        self._known[ref] = marks
        self._known.move_to_end(ref)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)


def _mark_of(stored: Stored[Watermark] | None) -> Mark:
    return Mark(stored.record.seq, stored.version) if stored else NO_MARK


def _key(function: str, ref: ThreadRef) -> str:
    return f"{function}/{ref.thread.incarnation}/{ref.thread.persona_id}"


def _record(function: str, ref: ThreadRef, seq: int) -> Watermark:
    session_id, persona_id, incarnation = ref.thread
    return Watermark(
        ref=_key(function, ref),
        session_id=session_id,
        incarnation=incarnation or "",
        function=function,
        persona_id=persona_id,
        seq=seq,
    )
