"""Derived memory: records that are made from a thread's transcript, in the background, and kept up to date.

A derived function takes a thread from its watermark to a derived record. An append schedules its thread: when it has
been idle for a moment, its functions are checked, and those that are behind run, one at a time for each function and
thread across all processes. The sweeper finds the threads that a crash has lost, so a function must be idempotent: the
same transcript gives the same record.
"""

import asyncio
import time
from collections.abc import Callable, Collection
from contextlib import nullcontext, suppress
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import Protocol

import msgspec

from wenmai.clock import Clock
from wenmai.errors import InvalidInput, NotFound, StoreError, VersionConflict
from wenmai.memory.derived_sweep import DerivedSweep
from wenmai.memory.watermarks import FINAL, NO_MARK, UNFINISHED, Mark, ThreadRef, Watermarks
from wenmai.resilience.background import BackgroundTasks
from wenmai.resilience.debounce import Debounce, Gathering
from wenmai.resilience.work_queue import RetryLater, WorkQueue
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Documents, Logs
from wenmai.stores.lease import LEASE, Leases, LeaseTaken
from wenmai.stores.records import Message

IDLE_SECONDS = 1.5
"""A thread is checked when nothing was appended for so long."""

LONGEST_IDLE_SECONDS = 30.0
"""A thread that is never idle is checked at such intervals."""

GATHER_SECONDS = 0.5
"""Interval at which threads are checked in which the chat has answered: together, so that they share commits."""

ANSWERING_SECONDS, LONGEST_ANSWERING_SECONDS = 0.4, 2.0
"""A thread in which the chat answers at shorter intervals is checked after the last one, or so long after the first."""

SMALL_CHANGE = 20
"""New messages that a check derives itself if the function needs no lease; more are queued."""

ABANDONED_AFTER = timedelta(hours=1)
"""Age at which an unfinished answer counts as abandoned: its thread is derived without it."""

MAX_SCHEDULED = 10_000
"""Threads waiting to be checked; further ones are left to the sweeper."""

CONCURRENT_CHECKS = 8
"""Of threads that must not wait."""

REST = 120.0
"""A background check rests so many times its duration: checks take less than a hundredth of the time, so that the 99th
percentile of appends does not show them. So does the next check after a run."""

MAX_WAITING = 1_000
"""Threads waiting for a function; further ones are left to the sweeper."""

PROGRESS_SECONDS = 0.01
"""Interval at which the work that is waited for is looked at."""

FLUSH_SECONDS = 60.0
"""Interval at which watermarks that only say that nothing had to change are stored."""

SWEEP_SECONDS = 300.0
FIRST_SWEEP_SECONDS = 1.0
"""Delay of the first sweep, so that short programs do not sweep."""


class Progress(Enum):
    """State of a derived record relative to its thread.

    ``BEHIND``: it must be derived. ``CURRENT``: until the next message. ``FINAL``: whatever is appended.
    """

    BEHIND = "behind"
    CURRENT = "current"
    FINAL = "final"


class ThreadChange(msgspec.Struct, frozen=True):
    """The part of a thread that is new to a derived function: the messages ``after`` + 1 to ``last``.

    Attributes:
        after: 0 for a thread that is derived from its beginning.
        newest: the newest messages of the thread up to ``last``, ascending, as many as a function asks for; read once
            for all functions.
    """

    scope: Scope
    thread: ThreadKey
    after: int
    last: int
    newest: list[Message] = []


class DerivedFunction(Protocol):
    """A derived function.

    Attributes:
        name: of its watermarks and leases, without a slash; never changed, or all threads are derived again.
        concurrency: most runs at a time in this process.
        of_session: whether it derives a record of the session, so that one thread of a session runs at a time.
        newest: how many messages it wants to see in :attr:`ThreadChange.newest`; 1 to 500.
    """

    name: str
    concurrency: int
    of_session: bool
    newest: int

    async def progress(self, change: ThreadChange) -> Progress:
        """State of the derived record; cheap, since it is checked after every turn."""
        ...

    async def derive(self, change: ThreadChange) -> Progress:
        """Bring the derived record up to date, under a lease; returns its new state.

        Raises:
            NotFound: the session was deleted.
            StoreError: it is retried.
        """
        ...


class Lag(msgspec.Struct, frozen=True):
    """How many threads are known to be behind their transcript, and for how long the oldest has been, in seconds."""

    threads: int
    oldest_seconds: float


class DerivedMemory:
    """Runs the derived functions of all threads. Until :meth:`start`, nothing is scheduled.

    Attributes:
        watermarks: of all functions and threads.
    """

    def __init__(self, documents: Documents, logs: Logs, clock: Clock) -> None:
        self.watermarks: Watermarks = Watermarks(documents)
        self._logs = logs
        self._clock = clock
        self._leases = Leases(documents, clock)
        self._functions: dict[str, DerivedFunction] = {}
        self._queues: dict[str, WorkQueue[ThreadRef]] = {}
        self._unleased: set[str] = set()
        self._completed: dict[ThreadRef, int] = {}
        self._tasks = BackgroundTasks()
        self._checks = WorkQueue(
            "checking derived memory", self._check, self._tasks, concurrency=1, capacity=MAX_SCHEDULED, rest=REST
        )
        self._urgent_checks = WorkQueue(
            "checking derived memory now",
            self._check,
            self._tasks,
            concurrency=CONCURRENT_CHECKS,
            capacity=MAX_SCHEDULED,
        )
        self._scheduled = Debounce(
            self._checks.submit, idle=IDLE_SECONDS, longest=LONGEST_IDLE_SECONDS, capacity=MAX_SCHEDULED
        )
        self._answered = Gathering(
            self._urgent_checks.submit,
            seconds=GATHER_SECONDS,
            quiet=ANSWERING_SECONDS,
            longest=LONGEST_ANSWERING_SECONDS,
        )
        self._sweep = DerivedSweep(
            logs, self.watermarks, clock, self._functions, self._checks, self._scheduled, self._was_incomplete
        )
        self._running = False

    def register(self, function: DerivedFunction, *, leased: bool = True) -> None:
        """Derive this record too, of all threads.

        Args:
            function: the derived function.
            leased: whether one process at a time runs it for a thread. Otherwise its runs cost little and may overlap.
        """
        if not leased:
            self._unleased.add(function.name)
        self._functions[function.name] = function
        self._queues[function.name] = WorkQueue(
            f"deriving {function.name}",
            partial(self._derive, function),
            self._tasks,
            concurrency=function.concurrency,
            capacity=MAX_WAITING,
        )

    def start(self) -> None:
        """Schedule changed threads from now on, and sweep."""
        self._running = True
        self._tasks.repeat(
            "storing watermarks",
            partial(self.watermarks.flush, rest=REST),
            seconds=FLUSH_SECONDS,
            first_after=FLUSH_SECONDS,
        )
        self._tasks.repeat(
            "sweep of derived memory", self._sweep.run, seconds=SWEEP_SECONDS, first_after=FIRST_SWEEP_SECONDS
        )

    def schedule(self, scope: Scope, thread: ThreadKey) -> None:
        """Check the changed thread in the background, once it is idle; returns at once."""
        if self._running:
            self._scheduled.touch(ThreadRef(scope, thread))

    def schedule_completed(self, scope: Scope, thread: ThreadKey, seq: int) -> None:
        """Like :meth:`schedule`, after a message was completed that was appended unfinished.

        Messages after it may have been derived without it; the thread is then derived from its beginning.
        """
        if self._running:
            ref = ThreadRef(scope, thread)
            self._completed[ref] = min(seq, self._completed.get(ref, seq))
            if len(self._completed) > MAX_SCHEDULED:  # those of deleted threads are never checked
                del self._completed[next(iter(self._completed))]
            self._scheduled.touch(ref)

    async def schedule_after_cut(self, scope: Scope, thread: ThreadKey) -> None:
        """Derive the records of a thread that lost messages again from its beginning.

        Durable on return, started or not: new messages may have the numbers of removed ones, so a watermark alone
        would not show the change.

        Raises:
            StoreError: the reset may not be stored; removing the messages again repeats it.
        """
        await self.reset(scope, thread)
        self.schedule(scope, thread)

    async def reset(self, scope: Scope, thread: ThreadKey) -> None:
        """Derive the records of a thread again from its beginning when it is checked next; durable on return.

        Raises:
            StoreError: the reset may not be stored.
        """
        with suppress(NotFound):
            await self.watermarks.reset(ThreadRef(scope, thread), list(self._functions))

    def schedule_soon(self, scope: Scope, thread: ThreadKey) -> None:
        """Check the thread in the background within a second, or after a few if the next turns follow at once."""
        if self._running:
            ref = ThreadRef(scope, thread)
            self._answered.add(ref, self._scheduled.pop(ref))

    async def rebuild(self, name: str, scope: Scope, thread: ThreadKey) -> None:
        """Derive a thread's record of one function again from its beginning, in the background.

        Raises:
            InvalidInput: there is no such function.
            SessionNotFound: the session was deleted.
        """
        if name not in self._functions:
            raise InvalidInput("function", name, f"one of {', '.join(self._functions)}")
        ref = ThreadRef(scope, thread)
        await self.watermarks.store(name, ref, 0)
        self._urgent_checks.submit(ref)

    async def sweep(self) -> int:
        """Find all threads that are behind, and queue them; returns how many."""
        return await self._sweep.run(everything=True)

    async def catch_up(self, seconds: float | None = None) -> None:
        """Work on all scheduled threads now, without waiting until they are idle, until none is behind.

        Raises:
            TimeoutError: it took longer than ``seconds``.
        """
        async with asyncio.timeout(seconds):
            while not self._is_idle():
                self._answered.flush()
                self._scheduled.flush()
                self._checks.hurry()
                await self._tasks.join()

    async def work_off(self, functions: Collection[str], on_progress: Callable[[int], None]) -> None:
        """Work on all scheduled threads now, until none is behind in one of these functions.

        Args:
            functions: their names; the others are left to the background.
            on_progress: called with the number of threads that are left.
        """
        queues = [self._checks, self._urgent_checks, *(self._queues[name] for name in functions)]
        while True:
            self._answered.flush()
            self._scheduled.flush()
            self._checks.hurry()
            left = {ref for queue in queues for ref in queue.pending()}
            on_progress(len(left))
            if not left:
                return
            await asyncio.sleep(PROGRESS_SECONDS)

    async def stop(self, seconds: float) -> None:
        """Work on all scheduled threads for at most so long; the next sweep finds the rest."""
        self._running = False
        self._tasks.stop_repeating()
        until = time.monotonic() + seconds
        try:
            with suppress(TimeoutError):
                await self.catch_up(seconds)
        finally:
            # Also on cancellation: nothing may run when the store is closed.
            for queue in self._all_queues():
                queue.close()
            self._answered.close()
            self._scheduled.close()
            await self._tasks.stop(0)
        # What is not stored is done again after the next start, and changes nothing.
        with suppress(TimeoutError, StoreError):
            async with asyncio.timeout(max(until - time.monotonic(), seconds / 4)):
                await self.watermarks.flush()

    @property
    def lag(self) -> Lag:
        """The threads known to this process to be behind."""
        behind: dict[ThreadRef, float] = self._scheduled.pending() | self._answered.pending()
        for queue in self._all_queues():
            for ref, since in queue.pending().items():
                behind[ref] = min(since, behind.get(ref, since))
        oldest = min(behind.values(), default=None)
        return Lag(len(behind), 0.0 if oldest is None else asyncio.get_running_loop().time() - oldest)

    @property
    def failures(self) -> dict[str, int]:
        """By function, the runs that failed since the start."""
        return {name: queue.failures for name, queue in self._queues.items()}

    def given_up(self, functions: Collection[str]) -> int:
        """How often since the start a thread was given up after repeated failures, in these functions or its check."""
        queues = [self._checks, self._urgent_checks, *(self._queues[name] for name in functions)]
        return sum(queue.given_up for queue in queues)

    def _all_queues(self) -> list[WorkQueue[ThreadRef]]:
        return [self._checks, self._urgent_checks, *self._queues.values()]

    def _is_idle(self) -> bool:
        waiting = self._scheduled.pending() or self._answered.pending()
        return not waiting and all(queue.is_idle for queue in self._all_queues())

    def _was_incomplete(self) -> bool:
        """Whether threads were left to the sweeper since the last call."""
        queues = self._all_queues()
        dropped = any(queue.dropped for queue in queues)
        for queue in queues:
            queue.dropped = False
        return dropped

    async def _check(self, ref: ThreadRef) -> None:
        """Queue the functions that are behind in this thread, or derive what is small."""
        newest = await self._newest(ref)
        marks = await self._marks(ref) if newest else {}
        problem: Exception | None = None
        for name, function in self._functions.items():
            before = marks.get(name, NO_MARK)
            change = _change(ref, before.seq, newest)
            if change is None:
                continue
            try:
                progress = await function.progress(change)
                if progress is Progress.BEHIND and self._is_small(name, change):
                    progress = await self._derived_now(function, change)
            except Exception as failed:  # noqa: BLE001 — raised below; the other functions are checked all the same
                problem = problem or failed
                continue
            if progress is Progress.BEHIND:
                self._queues[name].submit(ref)
            elif not self.watermarks.advance(name, ref, _mark(progress, change.last), before):
                self._urgent_checks.submit(ref)
        if problem is not None:
            raise problem
        await self.watermarks.flush_many()

    async def _marks(self, ref: ThreadRef) -> dict[str, Mark]:
        """The watermarks; reset if they passed a message that was completed since the last check."""
        names = list(self._functions)
        marks = await self.watermarks.get(ref, [*names, UNFINISHED])
        noted = marks.pop(UNFINISHED).seq
        completed = self._completed.pop(ref, FINAL)
        outdated: list[str] = []
        if noted:
            found = await self._logs.read(ref.scope, ref.thread, start=noted, limit=1)
            if not any(self._may_be_completed(message) for message in found):
                outdated.append(UNFINISHED)
            if not found or found[0].completed:
                completed = min(completed, noted)
        if any(completed < mark.seq != FINAL for mark in marks.values()):
            outdated = [*names, *outdated]  # the note last: until then, another process begins again
        if not outdated:
            return marks
        await self.watermarks.reset(ref, outdated)
        return await self.watermarks.get(ref, names)

    def _is_small(self, name: str, change: ThreadChange) -> bool:
        return name in self._unleased and change.last - change.after <= SMALL_CHANGE

    async def _derived_now(self, function: DerivedFunction, change: ThreadChange) -> Progress:
        """The progress after a run; still behind if the store failed, so that the run is queued and retried."""
        try:
            return await function.derive(change)
        except StoreError:
            return Progress.BEHIND

    async def _derive(self, function: DerivedFunction, ref: ThreadRef) -> None:
        """Run a function, unless another process does or has done so."""
        work = f"derived/{function.name}"
        leased = ref.thread._replace(persona_id="") if function.of_session else ref.thread
        began = time.monotonic()
        try:
            async with (
                nullcontext()
                if function.name in self._unleased
                else self._leases.hold(ref.scope, work, leased, wait=False)
            ):
                mark, version = await self.watermarks.read(function.name, ref)
                change = _change(ref, mark, await self._newest(ref))
                if change is None:
                    return
                progress = await function.progress(change)
                if progress is Progress.BEHIND:
                    progress = await function.derive(change)
                await self.watermarks.store(function.name, ref, _mark(progress, change.last), expected=version)
        except LeaseTaken:
            raise RetryLater(LEASE.total_seconds()) from None
        except VersionConflict:
            # Messages were removed during the run, or another process was as fast.
            self._queues[function.name].submit(ref)
        finally:
            self._checks.rest_after(time.monotonic() - began)

    async def _newest(self, ref: ThreadRef) -> list[Message]:
        """The thread's newest messages, ascending; none while its last answer is being generated."""
        wanted = max(function.newest for function in self._functions.values())
        newest = await self._logs.latest(ref.scope, ref.thread, wanted)
        unfinished = [message.seq for message in newest if self._may_be_completed(message)]
        if unfinished and unfinished[-1] == newest[-1].seq:
            return []
        if unfinished:
            await self.watermarks.note_unfinished(ref, unfinished[0])
        return newest

    def _may_be_completed(self, message: Message) -> bool:
        """Whether it is unfinished and not yet abandoned. A timestamp far ahead is that of a wrong clock."""
        return not message.completed and abs(self._clock() - message.timestamp) < ABANDONED_AFTER


def _change(ref: ThreadRef, mark: int, newest: list[Message]) -> ThreadChange | None:
    """The messages after the watermark; None if there are none. A thread that was cut is derived from its beginning."""
    if not newest or mark in (newest[-1].seq, FINAL):
        return None
    last = newest[-1].seq
    return ThreadChange(ref.scope, ref.thread, mark if mark < last else 0, last, newest)


def _mark(progress: Progress, last: int) -> int:
    return FINAL if progress is Progress.FINAL else last
