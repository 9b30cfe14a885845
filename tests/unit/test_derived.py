"""Derived memory: what is derived when, from which messages, and by whom."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

from wenmai.clock import MovableClock
from wenmai.errors import InvalidInput, StoreUnavailable
from wenmai.memory import derived, derived_sweep, watermarks
from wenmai.memory.derived import Progress, ThreadChange
from wenmai.memory.library import Memory, MemoryPolicy, required
from wenmai.memory.session_memory import SessionMemory
from wenmai.memory.watermarks import FINAL
from wenmai.resilience import work_queue
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Documents, Logs
from wenmai.stores.lease import HeldLease
from wenmai.stores.opening import open_store
from wenmai.stores.records import Lease, Session, Watermark

DETAILED = {"role": "user", "content": "请说得详细一点"}
ANSWER = {"role": "assistant", "content": "好的"}


class Recorder:
    """A derived function that records its runs."""

    name = "recorder"
    concurrency = 2
    of_session = False
    newest = 1

    def __init__(self) -> None:
        self.runs: list[ThreadChange] = []
        self.running = 0
        self.most = 0
        self.go = asyncio.Event()
        self.go.set()
        self.problems: list[Exception] = []
        self.progress_before = Progress.BEHIND
        self.progress_after = Progress.CURRENT

    async def progress(self, change: ThreadChange) -> Progress:  # noqa: ARG002 — the same for all
        """As set."""
        return self.progress_before

    async def derive(self, change: ThreadChange) -> Progress:
        """Record the run; wait until ``go`` is set, or fail."""
        self.runs.append(change)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.go.wait()
            if self.problems:
                raise self.problems.pop(0)
        finally:
            self.running -= 1
        return self.progress_after


class World:
    """A store, and memories over it as of several processes."""

    def __init__(self, documents: Documents, logs: Logs, clock: MovableClock) -> None:
        self.documents = documents
        self.logs = logs
        self.clock = clock
        self._started: list[Memory] = []

    def process(self, *functions: Any, started: bool = True, **policy: Any) -> Memory:
        """The memory of another process, with further derived functions."""
        memory = Memory(self.documents, self.logs, clock=self.clock, policy=MemoryPolicy(**policy))
        for function in functions:
            memory.derived.register(function)
        if started:
            memory.derived.start()
            self._started.append(memory)
        return memory

    async def close(self) -> None:
        """Stop all processes."""
        for memory in self._started:
            await memory.derived.stop(1)


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """An empty store; threads become idle soon, and no sweep begins by itself."""
    monkeypatch.setattr(derived, "FIRST_SWEEP_SECONDS", 3600.0)
    clock = MovableClock()
    async with open_store("memory://", clock=clock) as store:
        world = World(*required(store, "memory://"), clock)
        yield world
        await world.close()


async def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 — no event says so
            await asyncio.sleep(0.005)


def ranges(recorder: Recorder) -> list[tuple[int, int]]:
    """What each run was given."""
    return [(run.after, run.last) for run in recorder.runs]


async def test_an_idle_thread_is_derived_by_itself(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many appends are one run, once nothing more is appended; later appends are another."""
    monkeypatch.setattr(derived, "IDLE_SECONDS", 0.1)
    recorder = Recorder()
    session = await world.process(recorder).session("s")
    for _ in range(5):
        await session.append([DETAILED, ANSWER])
    assert recorder.runs == []
    await until(lambda: recorder.runs)
    await session.append([ANSWER])
    await until(lambda: len(recorder.runs) == 2)
    assert ranges(recorder) == [(0, 10), (10, 11)]


async def test_a_thread_that_is_never_idle_is_derived_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """At intervals, while it is appended to."""
    monkeypatch.setattr(derived, "IDLE_SECONDS", 3600.0)
    monkeypatch.setattr(derived, "LONGEST_IDLE_SECONDS", 0.05)
    recorder = Recorder()
    session = await world.process(recorder).session("s")

    async def append() -> None:
        while not recorder.runs:
            await session.append([ANSWER])
            await asyncio.sleep(0.005)

    await asyncio.wait_for(append(), timeout=10)


async def test_what_is_appended_during_a_run_is_derived_after_it(world: World) -> None:
    """Once, and never two runs of a thread at a time."""
    recorder = Recorder()
    memory = world.process(recorder)
    session = await memory.session("s")
    recorder.go.clear()
    await session.append([DETAILED])
    memory.derived.schedule_soon(Scope(), session._thread)
    await until(lambda: recorder.runs)
    for _ in range(3):
        await session.append([ANSWER])
        memory.derived.schedule_soon(Scope(), session._thread)
    await asyncio.sleep(0.02)
    recorder.go.set()
    await memory.derived.catch_up(10)
    assert ranges(recorder) == [(0, 1), (1, 4)]
    assert recorder.most == 1


async def test_runs_of_a_function_are_bounded(world: World) -> None:
    """However many threads are behind."""
    recorder = Recorder()
    memory = world.process(recorder)
    for number in range(9):
        await (await memory.session(f"s-{number}")).append([DETAILED])
    recorder.go.clear()
    catching_up = asyncio.create_task(memory.derived.catch_up(10))
    await until(lambda: recorder.running == 2)
    await asyncio.sleep(0.02)
    assert (recorder.most, memory.derived.lag.threads) == (2, 9)
    recorder.go.set()
    await catching_up
    assert len(recorder.runs) == 9
    assert memory.derived.lag.threads == 0


async def test_two_processes_derive_a_thread_once(world: World) -> None:
    """The second one finds the lease taken, and later the work done."""
    first, second = Recorder(), Recorder()
    memories = [world.process(first), world.process(second)]
    session = await memories[0].session("s")
    await session.append([DETAILED])
    first.go.clear()
    memories[0].derived.schedule_soon(Scope(), session._thread)
    await until(lambda: first.runs)
    memories[1].derived.schedule_soon(Scope(), session._thread)
    await memories[1].derived.catch_up(10)
    assert (second.runs, memories[1].derived.lag.threads) == ([], 1)
    first.go.set()
    await memories[0].derived.catch_up(10)
    memories[1].derived.schedule_soon(Scope(), session._thread)
    await memories[1].derived.catch_up(10)
    assert (len(first.runs), second.runs, memories[1].derived.lag.threads) == (1, [], 0)


async def test_the_lease_of_a_dead_process_delays_a_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It expires, and the work is retried then."""
    monkeypatch.setattr("wenmai.stores.lease.LEASE", timedelta(seconds=0.1))
    monkeypatch.setattr(derived, "LEASE", timedelta(seconds=0.1))
    recorder = Recorder()
    memory = world.process(recorder)
    session = await memory.session("s")
    await session.append([DETAILED])
    dead = HeldLease(world.documents, world.clock, Scope(), "derived/recorder", session._thread)
    await dead.acquire(wait=False)
    memory.derived.schedule_soon(Scope(), session._thread)
    await until(lambda: recorder.runs)


async def test_failures_are_logged_counted_and_retried(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of the store, and unforeseen ones; after some, the thread is left to the sweeper."""
    monkeypatch.setattr(work_queue, "FIRST_RETRY_SECONDS", 0.01)
    recorder = Recorder()
    recorder.problems = [StoreUnavailable("documents", "gone"), RuntimeError("a bug")]
    memory = world.process(recorder)
    session = await memory.session("s")
    await session.append([DETAILED])
    with caplog.at_level(logging.WARNING):
        await memory.derived.catch_up(10)
        await until(lambda: len(recorder.runs) == 3)
        await memory.derived.catch_up(10)
    assert memory.derived.failures["recorder"] == 2
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
    recorder.problems = [StoreUnavailable("documents", "gone")] * work_queue.MAX_ATTEMPTS
    await session.append([ANSWER])
    await memory.derived.catch_up(10)
    await until(lambda: len(recorder.runs) == 3 + work_queue.MAX_ATTEMPTS)
    await until(lambda: memory.derived.lag.threads == 0)
    assert await memory.derived.sweep() == 1
    await memory.derived.catch_up(10)
    assert ranges(recorder)[-1] == (1, 2)


async def test_a_function_that_fails_does_not_hold_up_the_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread is checked again for it alone."""
    monkeypatch.setattr(work_queue, "FIRST_RETRY_SECONDS", 0.01)
    recorder = Recorder()
    memory = world.process(recorder)

    async def failing(_: ThreadChange) -> Progress:
        raise RuntimeError("a bug")

    monkeypatch.setattr(memory.first_questions, "progress", failing)
    session = await memory.session("s")
    await session.append([DETAILED])
    await memory.derived.catch_up(10)
    await until(lambda: memory.derived.lag.threads == 0)
    assert ranges(recorder) == [(0, 1)]
    assert (await session.preferences()).values.verbosity == "detailed"


async def test_the_sweeper_finds_what_another_process_left(world: World) -> None:
    """Threads of any user, written by the library, by an import, or by a process that died; nothing twice."""
    writer = world.process(started=False)
    for number, user in enumerate(("ann", "bob", "cleo")):
        session = await writer.session(f"s-{number}", scope=Scope(user_id=user))
        await session.append([DETAILED, ANSWER])
    expired = await writer.session("old", scope=Scope(user_id="dan"))
    world.clock.advance(timedelta(days=31))
    await writer.transcript.append(Scope(user_id="dan"), expired._thread, [DETAILED], slide=False)
    recorder = Recorder()
    memory = world.process(recorder)
    assert await memory.derived.sweep() == 4
    await memory.derived.catch_up(10)
    assert sorted(run.scope.user_id for run in recorder.runs) == ["ann", "bob", "cleo", "dan"]
    inferred = await memory.preferences.get(Scope(user_id="bob"), "s-1")
    assert inferred.values.verbosity == "detailed"
    assert await memory.derived.sweep() == 0


async def test_a_restart_does_not_repeat_work(world: World) -> None:
    """A stopped process has stored its watermarks, those of runs that changed nothing too."""
    recorder = Recorder()
    recorder.progress_before = Progress.CURRENT
    memory = world.process(recorder)
    await (await memory.session("s")).append([{"role": "user", "content": "你好"}, ANSWER])
    await memory.derived.stop(1)
    marks = {
        stored.record.function: stored.record.seq for stored in (await world.documents.list(Scope(), Watermark)).items
    }
    assert marks == {"recorder": 2, "preferences": 2, "summaries": 2, "first_question": FINAL}
    assert await world.process(Recorder()).derived.sweep() == 0


async def test_a_sweep_at_start_needs_no_request(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins by itself."""
    monkeypatch.setattr(derived, "FIRST_SWEEP_SECONDS", 0.0)
    await (await world.process(started=False).session("s")).append([DETAILED])
    recorder = Recorder()
    world.process(recorder)
    await until(lambda: recorder.runs)


async def test_a_final_record_is_not_derived_again(world: World) -> None:
    """Whatever is appended."""
    recorder = Recorder()
    recorder.progress_after = Progress.FINAL
    memory = world.process(recorder)
    session = await memory.session("s")
    for _ in range(2):
        await session.append([DETAILED, ANSWER])
        await memory.derived.catch_up(10)
    assert ranges(recorder) == [(0, 2)]


async def test_a_function_can_be_rebuilt_for_a_thread(world: World) -> None:
    """From its beginning, also if its record is final; a name that is no function is refused."""
    recorder = Recorder()
    recorder.progress_after = Progress.FINAL
    memory = world.process(recorder)
    session = await memory.session("s")
    await session.append([DETAILED, ANSWER])
    await memory.derived.catch_up(10)
    await memory.derived.rebuild("recorder", Scope(), session._thread)
    await memory.derived.catch_up(10)
    assert ranges(recorder) == [(0, 2), (0, 2)]
    with pytest.raises(InvalidInput):
        await memory.derived.rebuild("unknown", Scope(), session._thread)


async def test_a_cut_thread_is_derived_from_its_beginning(world: World) -> None:
    """The record may depend on messages that are gone."""
    recorder = Recorder()
    memory = world.process(recorder)
    session = await memory.session("s")
    await session.append([DETAILED, ANSWER, DETAILED, ANSWER])
    await memory.derived.catch_up(10)
    await session.truncate(2)
    await memory.derived.catch_up(10)
    assert ranges(recorder) == [(0, 4), (0, 2)]


async def test_messages_that_take_the_place_of_removed_ones_are_derived(world: World) -> None:
    """A turn is regenerated, or the thread is deleted and written anew: the last number is the same as before."""
    recorder = Recorder()
    memory = world.process(recorder)
    session = await memory.session("s")
    await session.append([DETAILED, ANSWER])
    await memory.derived.catch_up(10)
    await session.truncate(1)
    await session.append([ANSWER])
    await memory.derived.catch_up(10)
    await session.clear()
    await session.append([DETAILED, ANSWER])
    await memory.derived.catch_up(10)
    assert ranges(recorder) == [(0, 2), (0, 2), (0, 2)]


async def test_a_thread_that_is_rewritten_during_a_run_is_derived_again(world: World) -> None:
    """The run saw what was removed meanwhile, so it does not say that the new messages are derived."""
    recorder = Recorder()
    memory = world.process(recorder)
    session = await memory.session("s")
    recorder.go.clear()
    await session.append([DETAILED, ANSWER])
    memory.derived.schedule_soon(Scope(), session._thread)
    await until(lambda: recorder.runs)
    await session.truncate(1)
    await session.append([ANSWER])
    catching_up = asyncio.create_task(memory.derived.catch_up(10))
    await asyncio.sleep(0.02)
    recorder.go.set()
    await catching_up
    assert ranges(recorder) == [(0, 2), (0, 2)]
    assert await memory.derived.sweep() == 0


@pytest.mark.parametrize("cleared", [True, False])
async def test_a_thread_that_is_rewritten_and_left_is_found(world: World, *, cleared: bool) -> None:
    """By a process that derives nothing or dies at once, with as many messages as before; others had cached it."""
    recorder = Recorder()
    memory = world.process(recorder)
    session = await memory.session("s")
    await session.append([DETAILED, ANSWER])
    await memory.derived.catch_up(10)
    assert await memory.derived.sweep() == 0
    other = await world.process(Recorder(), started=False).session("s")
    await (other.clear() if cleared else other.truncate(0))
    await other.append([DETAILED, ANSWER])
    assert await memory.derived.sweep() == 1
    await memory.derived.catch_up(10)
    assert ranges(recorder) == [(0, 2), (0, 2)]


async def test_a_cancelled_cut_is_not_forgotten(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store removes the messages although its caller has gone."""
    recorder = Recorder()
    memory = world.process(recorder)
    session = await memory.session("s")
    await session.append([DETAILED, ANSWER])
    await memory.derived.catch_up(10)
    truncate, removed = world.logs.truncate, asyncio.Event()

    async def slow(scope: Scope, thread: ThreadKey, last_seq: int) -> int:
        count = await truncate(scope, thread, last_seq)
        removed.set()
        await asyncio.sleep(0.01)
        return count

    monkeypatch.setattr(world.logs, "truncate", slow)
    truncating = asyncio.create_task(session.truncate(1))
    await removed.wait()
    truncating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await truncating
    await session.append([ANSWER])
    await memory.derived.catch_up(10)
    assert ranges(recorder) == [(0, 2), (0, 2)]


async def test_a_watermark_that_was_not_stored_is_not_trusted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run has succeeded, but its watermark could not be stored; the sweeper finds the thread."""
    monkeypatch.setattr(work_queue, "MAX_ATTEMPTS", 1)
    recorder = Recorder()
    memory = world.process(recorder)
    session = await memory.session("s")
    await session.append([ANSWER])
    put = world.documents.put

    async def failing(scope: Scope, record: Any, **options: Any) -> Any:
        if isinstance(record, Watermark):
            raise StoreUnavailable("documents", "gone")
        return await put(scope, record, **options)

    with monkeypatch.context() as broken:
        broken.setattr(world.documents, "put", failing)
        await memory.derived.catch_up(10)
    assert await memory.derived.sweep() == 1


async def test_all_threads_are_swept_again_after_a_while(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed import into an old session does not show in the time at which the session was active."""
    session = await world.process(started=False).session("s")
    memory = world.process(Recorder())
    world.clock.advance(timedelta(days=2))
    assert await memory.derived._sweep.run() == 0
    await world.process(started=False).transcript.append(Scope(), session._thread, [DETAILED], slide=False)
    world.clock.advance(timedelta(minutes=5))
    assert await memory.derived._sweep.run() == 0
    monkeypatch.setattr(derived_sweep, "WHOLE_SECONDS", 0.0)
    assert await memory.derived._sweep.run() == 1


async def test_a_clock_that_was_ahead_hides_no_thread(world: World) -> None:
    """A sweep by the wrong time does not leave out what is written by the right one."""
    memory = world.process(Recorder())
    world.clock.advance(timedelta(days=365))
    for _ in range(2):
        assert await memory.derived._sweep.run() == 0
    world.clock.advance(timedelta(days=-365))
    await (await world.process(started=False).session("s")).append([DETAILED])
    assert await memory.derived._sweep.run() == 1


async def test_an_unfinished_answer_of_the_future_is_not_waited_for(world: World) -> None:
    """The clock of its process, which has died, was ahead."""
    recorder = Recorder()
    memory = world.process(recorder)
    session = await memory.session("s")
    ahead = world.clock() + timedelta(days=365)
    await session.append([DETAILED, {**ANSWER, "completed": False, "timestamp": ahead}])
    await memory.derived.catch_up(10)
    assert ranges(recorder) == [(0, 2)]


async def test_a_sweep_of_many_threads_is_not_repeated(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few watermarks wait in memory, all are stored; a second process has nothing to do."""
    monkeypatch.setattr(watermarks, "MANY_UNSTORED", 2)
    monkeypatch.setattr(watermarks, "MAX_UNSTORED", 20)
    writer = world.process(started=False)
    for number in range(50):
        await (await writer.session(f"s-{number}")).append([ANSWER])
    memory = world.process()
    assert await memory.derived.sweep() == 50
    await memory.derived.catch_up(10)
    await memory.derived.stop(1)
    assert await world.process().derived.sweep() == 0


async def test_an_unfinished_answer_is_waited_for(world: World) -> None:
    """Until it is complete, or so old that its process must have died."""
    recorder = Recorder()
    memory = world.process(recorder)
    session = await memory.session("s")
    *_, answer = await session.append([DETAILED, {**ANSWER, "completed": False}])
    await memory.derived.catch_up(10)
    assert recorder.runs == []
    await memory.transcript.complete(Scope(), session._thread, answer, content="好的")
    await memory.derived.catch_up(10)
    assert ranges(recorder) == [(0, 2)]
    await session.append([DETAILED, {**ANSWER, "completed": False}])
    await memory.derived.catch_up(10)
    world.clock.advance(timedelta(hours=1))
    assert await memory.derived.sweep() == 1
    await memory.derived.catch_up(10)
    assert ranges(recorder) == [(0, 2), (2, 4)]


async def test_an_answer_that_is_completed_after_later_messages_is_derived(world: World) -> None:
    """The thread is derived again from its beginning; once, and not for an answer that was the last message."""
    recorder = Recorder()
    memory = world.process(recorder)
    session = await memory.session("s")
    *_, answer = await session.append([DETAILED, {**ANSWER, "completed": False}])
    await session.append([DETAILED, ANSWER])
    await memory.derived.catch_up(10)
    assert ranges(recorder) == [(0, 4)]
    await memory.transcript.complete(Scope(), session._thread, answer, content="好的")
    await memory.derived.catch_up(10)
    assert ranges(recorder) == [(0, 4), (0, 4)]
    *_, last = await session.append([DETAILED, {**ANSWER, "completed": False}])
    await memory.transcript.complete(Scope(), session._thread, last, content="好的")
    await session.append([DETAILED, ANSWER])
    await memory.derived.catch_up(10)
    assert ranges(recorder) == [(0, 4), (0, 4), (4, 8)]


async def test_an_answer_completed_right_before_a_crash_is_derived_after_it(world: World) -> None:
    """A later process finds that watermarks had passed it, and derives the thread again once."""
    killed = world.process(Recorder())
    session = await killed.session("s")
    *_, answer = await session.append([DETAILED, {**ANSWER, "completed": False}])
    await session.append([DETAILED, ANSWER])
    await killed.derived.catch_up(10)
    await killed.derived.watermarks.flush()
    await world.logs.complete(Scope(), session._thread, answer, content="好的", tokens=2)
    recorder = Recorder()
    memory = world.process(recorder)
    for found in (1, 0):
        assert await memory.derived.sweep() == found
        await memory.derived.catch_up(10)
        assert ranges(recorder) == [(0, 4)]


async def test_an_abandoned_answer_is_no_longer_looked_for(world: World) -> None:
    """After an hour its thread counts as up to date."""
    recorder = Recorder()
    memory = world.process(recorder)
    session = await memory.session("s")
    await session.append([DETAILED, {**ANSWER, "completed": False}])
    await session.append([DETAILED, ANSWER])
    await memory.derived.catch_up(10)
    assert await memory.derived.sweep() == 1
    world.clock.advance(derived.ABANDONED_AFTER)
    await memory.derived.catch_up(10)
    assert await memory.derived.sweep() == 0
    assert ranges(recorder) == [(0, 4)]


async def test_a_deleted_session_stays_deleted(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A run that ends later recreates neither record, watermark nor lease, and is no failure."""
    recorder = Recorder()
    memory = world.process(recorder)
    session = await memory.session("s")
    await session.append([DETAILED])
    recorder.go.clear()
    memory.derived.schedule_soon(Scope(), session._thread)
    await until(lambda: recorder.runs)
    await session.delete()
    recorder.go.set()
    await memory.derived.catch_up(10)
    await memory.derived.stop(1)
    for of in (Session, Watermark, Lease):
        assert (await world.documents.list(Scope(), of)).items == []
    assert memory.derived.failures["recorder"] == 0
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_cancelled_stop_leaves_nothing_running(world: World) -> None:
    """The store is closed after it."""
    recorder = Recorder()
    memory = world.process(recorder)
    session = await memory.session("s")
    recorder.go.clear()
    await session.append([DETAILED])
    stopping = asyncio.create_task(memory.derived.stop(3600))
    await until(lambda: recorder.running)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert recorder.running == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def appended_and_derived(memory: Memory, *messages: dict[str, Any]) -> SessionMemory:
    """A session with these messages, one append each, derived afterwards."""
    session = await memory.session("s")
    for message in messages:
        await session.append([message])
    await memory.derived.catch_up(10)
    return session


async def test_preferences_are_inferred_for_users_of_the_library(world: World) -> None:
    """From their own messages, with the turn that they come from; topic words are those of the policy."""
    memory = world.process(topic_words=("祠堂",))
    hall = {"role": "user", "content": "祠堂是谁修建的？"}
    session = await appended_and_derived(memory, DETAILED, ANSWER, hall, ANSWER, hall)
    inferred = (await session.preferences()).values
    assert (inferred.verbosity, inferred.interest_tags) == ("detailed", ["祠堂"])
    assert inferred.sources["verbosity"] == ["assistant#1"]


async def test_nothing_is_inferred_from_an_incognito_message(world: World) -> None:
    """Neither at once nor from the window of a later turn, nor by the sweeper."""
    incognito = DETAILED | {"metadata": {"incognito": True}}
    session = await appended_and_derived(world.process(), incognito, ANSWER)
    await session.append([{"role": "user", "content": "你好"}])
    memory = world.process()
    await memory.derived.sweep()
    await memory.derived.catch_up(10)
    assert (await session.preferences()).updated_at is None


async def test_a_request_far_back_in_an_import_is_found(world: World) -> None:
    """A long thread that was never read is read window by window."""
    plain = {"role": "user", "content": "家训第一条是什么？"}
    memory = world.process(started=False)
    session = await memory.session("s")
    await session.append([DETAILED, ANSWER, *[plain, ANSWER] * 100])
    memory = world.process()
    await memory.derived.sweep()
    await memory.derived.catch_up(10)
    assert (await session.preferences()).values.verbosity == "detailed"


async def test_a_first_question_that_a_crash_left_out_is_recorded(world: World) -> None:
    """With the rule's title; a title that the user gave is kept."""
    dead = world.process(started=False)
    for session_id, title in (("s", None), ("named", "Mine")):
        session = await dead.session(session_id, title=title)
        await dead.transcript.append(Scope(), session._thread, [DETAILED, ANSWER])  # and no first question
    memory = world.process()
    await memory.derived.sweep()
    await memory.derived.catch_up(10)
    records = [(await memory.sessions.get(Scope(), session_id)).record for session_id in ("s", "named")]
    assert [(one.first_question, one.title, one.title_by) for one in records] == [
        (DETAILED["content"], DETAILED["content"], "rule"),
        (DETAILED["content"], "Mine", "user"),
    ]
