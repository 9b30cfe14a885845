"""Logs: the order in a thread is total and without gaps under concurrent appends."""

import asyncio
from itertools import pairwise

from wenmai.scope import ThreadKey
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, require
from wenmai.stores.conformance.harness import Harness, make_messages, texts
from wenmai.stores.records import Message, NewMessage


def _check_pairs(messages: list[Message], count: int) -> None:
    """``count`` batches of two, numbered without gaps, each batch's messages consecutive and of one turn."""
    equal([m.seq for m in messages], list(range(1, 2 * count + 1)), "sequence numbers")
    equal([m.turn_id for m in messages], [n for n in range(1, count + 1) for _ in "qa"], "turn ids")
    for question, answer in zip(messages[::2], messages[1::2], strict=True):
        equal(answer.content, question.content.replace("q", "a"), "the message after a question")
    equal(len({m.content for m in messages}), 2 * count, "different messages")


def _pair(name: str) -> list[NewMessage]:
    return [
        NewMessage(role="user", content=f"q{name}"),
        NewMessage(role="assistant", content=f"a{name}"),
    ]


@case("logs")
async def a_thousand_appends_at_once_are_numbered(harness: Harness) -> None:
    """1 000 concurrent batches of two get numbers 1 to 2 000 and turns 1 to 1 000; no batch is split."""
    scope = harness.scope()
    key = await harness.thread(scope)
    appended = await asyncio.gather(
        *(harness.logs.append(scope, key, _pair(str(number)), tail=2) for number in range(1_000))
    )
    stored = await harness.logs.read(scope, key, limit=10_000)
    _check_pairs(stored, 1_000)
    returned = sorted((message for one in appended for message in one.messages), key=lambda message: message.seq)
    equal(returned, stored, "what the appends returned, against what is stored")
    for number, one in enumerate(appended):
        equal(one.tail, one.messages, f"the tail of append {number}")


@case("logs")
async def concurrent_threads_are_numbered_separately(harness: Harness) -> None:
    """800 concurrent batches over 4 personas of 2 sessions leave 8 threads of 100 whole turns each."""
    scope = harness.scope()
    keys = [ThreadKey(session, npc) for session in ("s1", "s2") for npc in "abcd"]
    for session in ("s1", "s2"):
        await harness.open_session(scope, session)
    await asyncio.gather(
        *(harness.logs.append(scope, key, _pair(f"{key}{number}")) for number in range(100) for key in keys)
    )
    for key in keys:
        stored = await harness.logs.read(scope, key, limit=10_000)
        _check_pairs(stored, 100)
        require(all(str(key) in message.content for message in stored), f"{key} has another thread's messages")


@case("logs")
async def a_batch_sent_eight_times_at_once_is_stored_once(harness: Harness) -> None:
    """Of 8 concurrent appends of the same ids one stores them and 7 repeat; all return the same messages."""
    scope = harness.scope()
    key = await harness.thread(scope)
    for turn in range(1, 6):
        batch = [NewMessage(role=role, content=f"{role} {turn}", id=f"{role}-{turn}") for role in ("user", "assistant")]
        outcomes = await asyncio.gather(*(harness.logs.append(scope, key, batch) for _ in range(8)))
        equal(sorted(one.repeated for one in outcomes), [0, *[2] * 7], "how many were repeated")
        for one in outcomes:
            equal(one.messages, outcomes[0].messages, "what the appends returned")
    stored = await harness.logs.read(scope, key)
    equal([message.turn_id for message in stored], [n for n in range(1, 6) for _ in "ua"], "turn ids")


@case("logs", "extended")
async def readers_never_see_part_of_a_batch(harness: Harness) -> None:
    """While batches of three are appended, every read ends with a whole batch and extends the previous read."""
    scope = harness.scope()
    key = await harness.thread(scope)

    async def write(writer: int) -> None:
        for number in range(20):
            await harness.logs.append(scope, key, make_messages(3, mark=f"{writer}-{number}-"))

    async def look() -> list[list[Message]]:
        return [await harness.logs.read(scope, key, limit=10_000) for _ in range(40)]

    async with asyncio.TaskGroup() as group:
        for writer in range(4):
            group.create_task(write(writer))
        looking = group.create_task(look())
    seen = looking.result()
    for messages in seen:
        equal(len(messages) % 3, 0, "messages beyond the last whole batch")
    for earlier, later in pairwise(seen):
        equal(texts(later[: len(earlier)]), texts(earlier), "the part that was read before")


@case("logs", "extended")
async def appends_and_erasures_leave_a_whole_thread(harness: Harness) -> None:
    """A thread erased during concurrent appends ends with whole batches, numbered from 1."""
    scope = harness.scope()
    key = await harness.thread(scope)
    appends = [harness.logs.append(scope, key, _pair(str(number))) for number in range(60)]
    await asyncio.gather(*appends[:30], harness.logs.erase(scope, key.session_id), *appends[30:])
    stored = await harness.logs.read(scope, key)
    _check_pairs(stored, len(stored) // 2)
