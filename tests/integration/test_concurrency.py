"""Concurrent turns on one thread and requests with one Idempotency-Key, in several processes and with crashes."""

import asyncio
import random
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from store_places import Place, opened, sqlite_at
from turn_worker import NPC, REQUEST, answer_slowly

from wenmai.clock import MovableClock, system_clock
from wenmai.errors import IdempotencyMismatch, ThreadBusy
from wenmai.memory.idempotency import ATTEMPT, Claim, WorkResult
from wenmai.memory.library import Memory
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.lease import LEASE
from wenmai.stores.records import Message

WORKER = Path(__file__).with_name("turn_worker.py")
TALK = ThreadKey("talk", NPC)
SECOND = timedelta(seconds=1)


@asynccontextmanager
async def second_process(command: str, place: Place, *arguments: object) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker process that has printed its first line; killed at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(WORKER), command, place.argument, *map(str, arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert await process.stdout.readline()
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def killed(process: asyncio.subprocess.Process) -> None:
    """``kill -9``, and wait for the exit."""
    process.kill()
    await process.wait()


def whole_turns(transcript: Sequence[Message]) -> list[str]:
    """The names of the turns, each checked to be consecutive: question, answer, one more message."""
    names = []
    for expected, (turn_id, group) in enumerate(groupby(transcript, key=lambda message: message.turn_id), 1):
        turn = list(group)
        name = turn[0].content
        assert turn_id == expected
        assert [message.role for message in turn] == ["user", "assistant", "assistant"]
        assert turn[1].content == f"answer to {name}"
        assert turn[2].content == f"more on {name}"
        names.append(name)
    return names


def answered(answer: dict[str, Any]) -> WorkResult:
    """An answer bound to no session."""
    return WorkResult(answer, "", "")


async def read_all(memory: Memory) -> list[Message]:
    """The whole transcript of the thread."""
    return [message async for message in memory.transcript.read_all(Scope(), TALK)]


async def test_64_turns_at_once_on_one_thread_are_64_whole_turns(tmp_path: Path) -> None:
    """Numbers 1 to 64, not interleaved, in order of arrival."""
    async with opened(sqlite_at(tmp_path / "turns.db")) as (memory, logs):
        session = await memory.session(TALK.session_id)
        thread = TALK._replace(incarnation=(await session.record()).incarnation)

        async def one_turn(number: int) -> None:
            async with memory.thread_lock.hold(Scope(), thread):
                await answer_slowly(logs, session, str(number))

        await asyncio.gather(*(one_turn(number) for number in range(64)))
        assert whole_turns(await read_all(memory)) == [str(number) for number in range(64)]


async def test_cancelled_turns_free_the_thread_and_disturb_no_other(tmp_path: Path) -> None:
    """Of 64 turns every third is cancelled, waiting or running; the rest are whole and not interleaved."""
    inside: list[int] = []
    met: list[list[int]] = []
    async with opened(sqlite_at(tmp_path / "turns.db")) as (memory, logs):
        session = await memory.session(TALK.session_id)

        async def one_turn(number: int) -> None:
            async with memory.thread_lock.hold(Scope(), TALK):
                inside.append(number)
                met.append(list(inside))
                try:
                    await answer_slowly(logs, session, str(number))
                finally:
                    inside.remove(number)

        tasks = [asyncio.create_task(one_turn(number)) for number in range(64)]
        for number in range(0, 64, 3):
            await asyncio.sleep(random.random() * 0.02)  # noqa: S311 — another one is inside in each run
            tasks[number].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert all(len(those) == 1 for those in met)
        finished = {str(number) for number, task in enumerate(tasks) if not task.cancelled()}
        assert {str(number) for number in range(64) if number % 3} <= finished
        transcript = await read_all(memory)
        broken_off = {message.turn_id for message in transcript if not message.completed}
        kept = [message for message in transcript if message.turn_id not in broken_off]
        whole = {message.content for message in kept if message.role == "user"}
        assert finished <= whole  # one that was cancelled during its last write may be whole too
        for _, turn in groupby(kept, key=lambda message: message.turn_id):
            assert [message.role for message in turn] == ["user", "assistant", "assistant"]
        async with asyncio.timeout(5), memory.thread_lock.hold(Scope(), TALK, "reject"):
            pass


@pytest.mark.parametrize("cancellations", [1, 2], ids=["once", "twice"])
async def test_a_turn_cancelled_while_it_enters_gives_its_lease_back(tmp_path: Path, cancellations: int) -> None:
    """At any moment, also twice: afterwards the thread is free, not blocked until the lease expires."""
    async with opened(sqlite_at(tmp_path / "turns.db")) as (memory, _):

        async def one_turn(thread: ThreadKey) -> None:
            async with memory.thread_lock.hold(Scope(), thread):
                await asyncio.sleep(0)

        for number in range(150):
            thread = (await memory.sessions.open(Scope(), f"talk-{number}")).thread(NPC)
            turn = asyncio.create_task(one_turn(thread))
            await asyncio.sleep(number * 1e-5)
            for _ in range(cancellations):
                turn.cancel()
                await asyncio.sleep(0)
            await asyncio.wait([turn])
            async with memory.thread_lock.hold(Scope(), thread, "reject"):
                pass


async def test_a_renewal_under_way_at_the_end_disturbs_neither_turn_nor_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With continuous renewals every lease is released, and every answer is stored and returned."""
    monkeypatch.setattr("wenmai.stores.lease.RENEW_SECONDS", 0.0003)
    monkeypatch.setattr("wenmai.memory.idempotency.RENEW_SECONDS", 0.0003)

    async def think(_claim: Claim) -> WorkResult:
        await asyncio.sleep(random.random() * 0.002)  # noqa: S311 — another moment in each run
        return answered({"answer": "yes"})

    async with opened(sqlite_at(tmp_path / "turns.db")) as (memory, _):
        await memory.session(TALK.session_id)
        for number in range(50):
            async with memory.thread_lock.hold(Scope(), TALK, "reject"):
                await think(Claim("", ""))
            key = f"key-{number}"
            answer = await memory.idempotency.once(Scope(), key, REQUEST, TALK.session_id, think)
            assert answer == {"answer": "yes"}


async def test_turns_of_two_processes_never_interleave(tmp_path: Path) -> None:
    """Three processes run six turns each on one thread: 18 whole turns."""
    store = sqlite_at(tmp_path / "turns.db")
    async with opened(store) as (memory, logs):
        session = await memory.session(TALK.session_id)
        async with (
            second_process("take", store, TALK.session_id, "b", 6) as second,
            second_process("take", store, TALK.session_id, "c", 6) as third,
        ):
            for number in range(6):
                async with memory.thread_lock.hold(Scope(), TALK):
                    await answer_slowly(logs, session, f"a-{number}")
            await asyncio.gather(second.wait(), third.wait())
            assert (second.returncode, third.returncode) == (0, 0)
        names = whole_turns(await read_all(memory))
        assert sorted(names) == sorted(f"{who}-{number}" for who in "abc" for number in range(6))
        for who in "abc":
            mine = [name for name in names if name.startswith(who)]
            assert mine == sorted(mine)


async def test_a_process_killed_inside_a_turn_frees_the_thread_when_its_lease_ends(tmp_path: Path) -> None:
    """The lease of the dead process blocks others until it expires; then the next turn starts at once."""
    store = sqlite_at(tmp_path / "turns.db")
    clock = MovableClock(system_clock())
    async with opened(store, clock=clock) as (memory, _):
        await memory.session(TALK.session_id)
        async with second_process("hold", store, TALK.session_id) as holder:
            with pytest.raises(ThreadBusy):
                async with memory.thread_lock.hold(Scope(), TALK, "reject"):
                    pass
            await killed(holder)
        with pytest.raises(ThreadBusy):
            async with memory.thread_lock.hold(Scope(), TALK, "reject"):
                pass
        clock.advance(system_clock() - clock() + LEASE)
        async with asyncio.timeout(5), memory.thread_lock.hold(Scope(), TALK, "reject"):
            pass


async def test_a_turn_that_waits_for_a_dead_process_goes_on_when_the_lease_ends(tmp_path: Path) -> None:
    """The waiting turn neither fails nor needs a retry."""
    store = sqlite_at(tmp_path / "turns.db")
    clock = MovableClock(system_clock())
    async with opened(store, clock=clock) as (memory, logs):
        session = await memory.session(TALK.session_id)
        async with second_process("hold", store, TALK.session_id) as holder:
            await killed(holder)

        async def waiting_turn() -> None:
            async with memory.thread_lock.hold(Scope(), TALK):
                await answer_slowly(logs, session, "patient")

        turn = asyncio.create_task(waiting_turn())
        await asyncio.wait([turn], timeout=0.2)
        assert not turn.done()
        clock.advance(system_clock() - clock() + LEASE)
        async with asyncio.timeout(5):
            await turn
        assert whole_turns(await read_all(memory)) == ["patient"]


async def test_a_process_paused_beyond_its_lease_disturbs_no_other(tmp_path: Path) -> None:
    """It is paused in its turn and another takes over; resumed, it completes its own answer and releases no lease."""
    store = sqlite_at(tmp_path / "turns.db")
    clock = MovableClock(system_clock())
    async with (
        opened(store, clock=clock) as (memory, logs),
        opened(store, clock=clock) as (third, _),
        second_process("nap", store, TALK.session_id) as sleeper,
    ):
        assert sleeper.stdin is not None
        assert sleeper.stdout is not None
        sleeper.send_signal(signal.SIGSTOP)
        clock.advance(system_clock() - clock() + LEASE)
        session = await memory.session(TALK.session_id)
        async with asyncio.timeout(20), memory.thread_lock.hold(Scope(), TALK, "reject"):
            sleeper.send_signal(signal.SIGCONT)
            sleeper.stdin.write(b"wake up\n")
            assert await sleeper.stdout.readline() == b"left\n"
            with pytest.raises(ThreadBusy):
                async with third.thread_lock.hold(Scope(), TALK, "reject"):
                    pass
            await answer_slowly(logs, session, "awake")
        async with third.thread_lock.hold(Scope(), TALK, "reject"):
            pass
        talk = [(message.turn_id, message.content) for message in await read_all(memory)]
    assert talk == [(1, "nap"), (1, "answer to nap"), (2, "awake"), (2, "answer to awake"), (2, "more on awake")]


class Work:
    """Counts its calls, and answers with the count."""

    def __init__(self) -> None:
        self.times = 0

    async def __call__(self, claim: Claim) -> WorkResult:
        """Run once more."""
        self.times += 1
        await asyncio.sleep(0.05)
        return answered({"answer": f"in {claim.session_id}", "attempt": self.times})


async def test_eight_requests_with_one_key_at_once_have_one_effect_and_equal_answers(tmp_path: Path) -> None:
    """Four through one open store, four through another on the same file, like two processes."""
    store = sqlite_at(tmp_path / "once.db")
    work = Work()
    async with opened(store) as (one, _), opened(store) as (other, _):
        answers = await asyncio.gather(
            *(memory.idempotency.once(Scope(), "key-1", REQUEST, TALK.session_id, work) for memory in (one, other) * 4)
        )
        assert work.times == 1
        assert answers == [{"answer": "in talk", "attempt": 1}] * 8
        with pytest.raises(IdempotencyMismatch):
            await other.idempotency.once(Scope(), "key-1", {"query": "?"}, TALK.session_id, work)


async def test_a_failed_attempt_frees_the_key_and_the_next_request_does_the_work(tmp_path: Path) -> None:
    """The caller gets the error; it is never replayed as an answer."""
    work = Work()

    async def fail(_claim: Claim) -> WorkResult:
        raise ConnectionError

    async with opened(sqlite_at(tmp_path / "once.db")) as (memory, _):
        with pytest.raises(ConnectionError):
            await memory.idempotency.once(Scope(), "key-1", REQUEST, TALK.session_id, fail)
        answer = await memory.idempotency.once(Scope(), "key-1", REQUEST, TALK.session_id, work)
        assert answer["attempt"] == 1


@pytest.mark.parametrize("sleeper_ends", ["first", "last"])
async def test_an_attempt_that_was_taken_over_while_it_slept_gives_the_same_answer(
    tmp_path: Path, sleeper_ends: str
) -> None:
    """Whichever ends first, both get the answer of the attempt that took over."""
    store = sqlite_at(tmp_path / "once.db")
    clock = MovableClock(system_clock())
    begun, awake = asyncio.Event(), asyncio.Event()

    async def sleep(_claim: Claim) -> WorkResult:
        begun.set()
        await awake.wait()
        return answered({"answer": "of the sleeper"})

    async def work(_claim: Claim) -> WorkResult:
        if sleeper_ends == "first":
            awake.set()
        await asyncio.sleep(0.1)
        return answered({"answer": "of the successor"})

    async with opened(store) as (memory, _), opened(store, clock=clock) as (other, _):
        sleeper = asyncio.create_task(memory.idempotency.once(Scope(), "key", REQUEST, TALK.session_id, sleep))
        await begun.wait()
        clock.advance(system_clock() - clock() + ATTEMPT)
        async with asyncio.timeout(20):
            answer = await other.idempotency.once(Scope(), "key", REQUEST, TALK.session_id, work)
            awake.set()
            assert answer == {"answer": "of the successor"}
            assert await sleeper == answer


async def test_a_failed_attempt_is_repeated_in_the_same_session(tmp_path: Path) -> None:
    """The first attempt may have stored its question there; another session would be a second effect."""
    sessions: list[str] = []

    async def fail_once(claim: Claim) -> WorkResult:
        sessions.append(claim.session_id)
        if len(sessions) == 1:
            raise ConnectionError
        return answered({"session_id": claim.session_id})

    async with opened(sqlite_at(tmp_path / "once.db")) as (memory, _):
        with pytest.raises(ConnectionError):
            await memory.idempotency.once(Scope(), "key", REQUEST, "first", fail_once)
        answer = await memory.idempotency.once(Scope(), "key", REQUEST, "second", fail_once)
    assert (sessions, answer) == (["first", "first"], {"session_id": "first"})


async def test_a_cancelled_attempt_releases_the_key_to_a_waiting_request(tmp_path: Path) -> None:
    """The work is cancelled with its request; a concurrent identical request does it instead, at once."""
    begun = asyncio.Event()

    async def endless(_claim: Claim) -> WorkResult:
        begun.set()
        await asyncio.Event().wait()
        return answered({})

    work = Work()
    async with opened(sqlite_at(tmp_path / "once.db")) as (memory, _):
        first = asyncio.create_task(memory.idempotency.once(Scope(), "key", REQUEST, TALK.session_id, endless))
        await begun.wait()
        second = asyncio.create_task(memory.idempotency.once(Scope(), "key", REQUEST, TALK.session_id, work))
        await asyncio.sleep(0)
        first.cancel()
        async with asyncio.timeout(ATTEMPT.total_seconds() - 1):
            assert (await second)["attempt"] == 1
        assert first.cancelled()


async def test_a_kill_between_effect_and_answer_is_taken_over_without_a_second_effect(tmp_path: Path) -> None:
    """The question is stored and its process dies; the retry waits for that attempt to expire, then answers."""
    store = sqlite_at(tmp_path / "once.db")
    clock = MovableClock(system_clock())
    key = "key-2"
    async with opened(store, clock=clock) as (memory, _):
        session = await memory.session(TALK.session_id)
        async with second_process("once", store, TALK.session_id, key) as first:
            await killed(first)

        async def work(claim: Claim) -> WorkResult:
            asked = await session.append([{"role": "user", "content": REQUEST["query"], "id": claim.message_id}])
            return answered({"session_id": claim.session_id, "turn_id": asked[0].turn_id})

        retry = asyncio.create_task(memory.idempotency.once(Scope(), key, REQUEST, "another-session", work))
        await asyncio.wait([retry], timeout=0.2)
        assert not retry.done()
        clock.advance(system_clock() - clock() + ATTEMPT)
        async with asyncio.timeout(5):
            assert await retry == {"session_id": TALK.session_id, "turn_id": 1}
        assert [message.content for message in await read_all(memory)] == [REQUEST["query"]]
