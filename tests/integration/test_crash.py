"""Kills of writing processes: what the store has acknowledged is there afterwards, once, in order, whole."""

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from crash_checker import Found, violations
from crash_victim import Victim
from crash_writer import Acknowledged, batch_contents, completed
from store_places import Place, opened, sqlite_at

from wenmai import WindowLimits
from wenmai.clock import from_micros
from wenmai.stores.records import Message, Role

pytestmark = pytest.mark.xdist_group("crash")

WRITERS = [0] * 4
"""Each process has so many, and each begins with its first batch."""
THROUGHOUT = "written-in-every-round"
WINDOW = WindowLimits(messages=60, characters=None)


async def one_round(store: Place, number: int, processes: int, longest_life: float) -> list[Acknowledged]:
    """Let some processes write to the store at once, kill each at a random moment; what they acknowledged."""
    sessions = [f"round-{number}-a", f"round-{number}-b", THROUGHOUT]
    victims = [await Victim.start(store, f"{number}-{process}", sessions, WRITERS) for process in range(processes)]
    acknowledged: list[Acknowledged] = []
    for victim in victims:
        await victim.writing()
    for victim in victims:
        await asyncio.sleep(random.random() * longest_life)  # noqa: S311 — the moment should differ from run to run
        acknowledged += await victim.kill()
    return acknowledged


async def found_after_crash(store: Place, sessions: Sequence[str]) -> list[Found]:
    """Open the store again and read everything of these sessions."""
    async with opened(store) as (memory, _):
        found = []
        for session_id in sessions:
            session = await memory.session(session_id)
            transcript = [message async for message in session.history()]
            window = await session.window(WINDOW)
            found.append(Found(session_id, transcript, window.messages))
        return found


async def kill_again_and_again(store: Place, *, rounds: int, processes: int, longest_life: float) -> None:
    """``rounds`` × ``processes`` kills on one file, each followed by a check of all that the round wrote."""
    everything: list[Acknowledged] = []
    for number in range(rounds):
        everything += await one_round(store, number, processes, longest_life)
        sessions = [f"round-{number}-a", f"round-{number}-b", THROUGHOUT]
        for found in await found_after_crash(store, sessions):
            assert found.transcript
            assert violations(everything, found) == []
    for found in await found_after_crash(store, [f"round-{number}-a" for number in range(rounds)]):
        assert violations(everything, found) == []


async def test_twenty_kills_of_two_processes_with_four_writers_each_lose_nothing(tmp_path: Path) -> None:
    """Two processes write to one file, each is killed at a random moment, then all is checked; ten times."""
    await kill_again_and_again(sqlite_at(tmp_path / "crash.db"), rounds=10, processes=2, longest_life=0.15)


@pytest.mark.soak
async def test_kills_of_four_processes_under_long_load_lose_nothing(tmp_path: Path) -> None:
    """As above, with sixteen writers in four processes, 100 kills, and time for checkpoints to be hit."""
    await kill_again_and_again(sqlite_at(tmp_path / "crash.db"), rounds=25, processes=4, longest_life=1.0)


async def test_a_store_whose_creation_was_killed_opens_and_serves(tmp_path: Path) -> None:
    """The first process dies at a random moment of making the file; the next finds a store or makes it."""
    for number in range(8):
        store = sqlite_at(tmp_path / f"new-{number}.db")
        victim = await Victim.start(store, "first", ["talk"], WRITERS)
        await victim.opening()
        await asyncio.sleep(random.random() * 0.02)  # noqa: S311 — the moment should differ from run to run
        acknowledged = await victim.kill()
        (found,) = await found_after_crash(store, ["talk"])
        assert violations(acknowledged, found) == []
        async with opened(store) as (memory, _):
            session = await memory.session("talk")
            appended = await session.append([{"role": "user", "content": "你好"}])
            assert appended[0].seq == len(found.transcript) + 1


def message(seq: int, turn: int, role: Role, content: str, *, completed: bool = True) -> Message:
    """A stored message of the fabricated history."""
    return Message(f"id-{seq}", seq, turn, "assistant", role, content, from_micros(seq), completed=completed)


def acknowledgement(messages: Sequence[Message]) -> Acknowledged:
    """Of an append of these messages."""
    return Acknowledged(
        kind="append",
        session="s",
        ids=[each.id for each in messages],
        seqs=[each.seq for each in messages],
        turns=[each.turn_id for each in messages],
        contents=[each.content for each in messages],
    )


def sound_history() -> tuple[list[Acknowledged], Found]:
    """Four whole turns, a fifth whose answer was filled in, a sixth whose answer never came."""
    transcript: list[Message] = []
    acknowledged: list[Acknowledged] = []
    for turn in range(1, 7):
        question, answer = batch_contents(f"w.{turn}", 2)
        pair = [
            message(2 * turn - 1, turn, "user", question),
            message(2 * turn, turn, "assistant", answer, completed=turn != 6),
        ]
        acknowledged.append(acknowledgement(pair))
        transcript += pair
    filled = msgspec.structs.replace(transcript[9], content=completed(transcript[9].content))
    transcript[9] = filled
    acknowledged.append(msgspec.structs.replace(acknowledgement([filled]), kind="complete"))
    return acknowledged, Found("s", transcript, transcript[4:10])


def lost_at_the_end(transcript: list[Message]) -> list[Message]:
    """The last turn is gone without leaving a gap."""
    return transcript[:-2]


def lost_in_the_middle(transcript: list[Message]) -> list[Message]:
    """A turn is gone, and what follows has moved up."""
    moved = [msgspec.structs.replace(each, seq=each.seq - 2, turn_id=each.turn_id - 1) for each in transcript[4:]]
    return [*transcript[:2], *moved]


def doubled(transcript: list[Message]) -> list[Message]:
    """The last turn was written twice, under new ids."""
    again = [
        msgspec.structs.replace(each, id=f"again-{each.id}", seq=each.seq + 2, turn_id=7) for each in transcript[-2:]
    ]
    return [*transcript, *again]


def with_a_gap(transcript: list[Message]) -> list[Message]:
    """Two further messages follow, and one number between is not there."""
    question, answer = batch_contents("w.7", 2)
    return [*transcript, message(14, 7, "user", question), message(15, 7, "assistant", answer)]


def with_half_a_batch(transcript: list[Message]) -> list[Message]:
    """Of a batch that nobody acknowledged only the first half was written."""
    return [*transcript, message(13, 7, "user", batch_contents("w.7", 2)[0])]


def interleaved(transcript: list[Message]) -> list[Message]:
    """Two batches went into each other."""
    (first, second), (third, fourth) = batch_contents("w.7", 2), batch_contents("w.8", 2)
    return [
        *transcript,
        message(13, 7, "user", first),
        message(14, 8, "user", third),
        message(15, 8, "assistant", second),
        message(16, 8, "assistant", fourth),
    ]


def swapped(transcript: list[Message]) -> list[Message]:
    """Two turns have changed places."""
    return [
        *transcript[2:4],
        *transcript[:2],
        *transcript[4:],
    ]


def with_a_wrong_turn(transcript: list[Message]) -> list[Message]:
    """An answer stands in the turn after its own."""
    return [*transcript[:3], msgspec.structs.replace(transcript[3], turn_id=3), *transcript[4:]]


def with_a_lost_answer(transcript: list[Message]) -> list[Message]:
    """The answer whose filling-in was acknowledged is a placeholder again."""
    placeholder = message(10, 5, "assistant", batch_contents("w.5", 2)[1], completed=False)
    return [*transcript[:9], placeholder, *transcript[10:]]


FAULTS = {
    lost_at_the_end: "lost",
    lost_in_the_middle: "lost",
    doubled: "doubled",
    with_a_gap: "gap",
    with_half_a_batch: "half batch",
    interleaved: "half batch",
    swapped: "gap",
    with_a_wrong_turn: "turns",
    with_a_lost_answer: "lost",
}


def test_the_checker_finds_nothing_in_a_sound_history() -> None:
    """Otherwise the violations below would prove nothing."""
    acknowledged, found = sound_history()
    assert violations(acknowledged, found) == []


@pytest.mark.parametrize(("fault", "complaint"), FAULTS.items(), ids=lambda value: getattr(value, "__name__", value))
def test_the_checker_complains_of_every_broken_promise(
    fault: Callable[[list[Message]], list[Message]], complaint: str
) -> None:
    """A history with one fabricated fault is complained of, by the name of the fault."""
    acknowledged, found = sound_history()
    broken = found._replace(transcript=fault(found.transcript))
    assert any(each.startswith(complaint) for each in violations(acknowledged, broken))


def test_the_checker_complains_of_a_half_turn_shown_as_whole() -> None:
    """A window with the question whose answer never came, and one that forgets a whole turn."""
    acknowledged, found = sound_history()
    with_half = found._replace(window=found.transcript[6:])
    assert any(each.startswith("half turn") for each in violations(acknowledged, with_half))
    too_old = found._replace(window=found.transcript[:8])
    assert any(each.startswith("window") for each in violations(acknowledged, too_old))


def test_the_checker_complains_of_a_writer_whose_batches_were_reordered() -> None:
    """The acknowledgements of one writer come in the order in which it wrote; so must the numbers."""
    acknowledged, found = sound_history()
    reordered = [acknowledged[1], acknowledged[0], *acknowledged[2:]]
    assert any(each.startswith("order") for each in violations(reordered, found))
