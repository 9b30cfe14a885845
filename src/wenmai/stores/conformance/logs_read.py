"""Logs: the newest messages, ranges, whole turns, completing once, threads and erasing."""

import asyncio
from datetime import timedelta

from wenmai.errors import InvalidInput
from wenmai.scope import ThreadKey
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, raises, require
from wenmai.stores.conformance.harness import Harness, make_messages, texts
from wenmai.stores.conformance.samples import SIMILAR_KEYS
from wenmai.stores.records import NewMessage
from wenmai.stores.structs import ThreadInfo, ThreadPart

QUESTION = NewMessage(role="user", content="question")
ANSWER = NewMessage(role="assistant", content="answer")
OPEN_ANSWER = NewMessage(role="assistant", content="", completed=False)


@case("logs")
async def latest_is_the_newest_ascending(harness: Harness) -> None:
    """``latest`` returns the newest messages, ascending; with ``before``, of those with a smaller seq."""
    scope = harness.scope()
    key = await harness.thread(scope, messages=12)
    equal(texts(await harness.logs.latest(scope, key, 3)), ["10", "11", "12"], "the newest 3")
    equal(len(await harness.logs.latest(scope, key, 10_000)), 12, "how many of 10 000")
    for before, wanted in ((12, ["10", "11"]), (3, ["1", "2"]), (2, ["1"]), (1, []), (99, ["11", "12"])):
        equal(texts(await harness.logs.latest(scope, key, 2, before=before)), wanted, f"2 before {before}")


@case("logs")
async def read_returns_a_range(harness: Harness) -> None:
    """``read`` returns messages from a seq on, ascending, at most ``limit``; past the end, none."""
    scope = harness.scope()
    key = await harness.thread(scope, messages=12)
    equal(texts(await harness.logs.read(scope, key)), [str(number) for number in range(1, 13)], "all")
    equal(texts(await harness.logs.read(scope, key, start=4, limit=3)), ["4", "5", "6"], "3 from 4")
    equal(texts(await harness.logs.read(scope, key, start=12, limit=3)), ["12"], "3 from 12")
    equal(await harness.logs.read(scope, key, start=13), [], "from 13")


@case("logs")
async def parts_of_threads_are_read_together(harness: Harness) -> None:
    """``read_parts`` returns what ``read`` returns for each part, in order, even if it is named twice."""
    scope = harness.scope()
    keys = [await harness.thread(scope, session, messages=5) for session in SIMILAR_KEYS[:3]]
    keys += [await harness.thread(scope, keys[0].session_id, "ancestor", messages=3), ThreadKey("never", "elder")]
    stale = keys[0]._replace(incarnation="another")
    wanted = [(3, 2), (1, 10_000), (5, 1), (2, 1), (6, 3)]
    parts = [ThreadPart(key, *part) for part in wanted for key in (*keys[::-1], stale, keys[0])]
    alone = [await harness.logs.read(scope, key, start=start, limit=limit) for key, start, limit in parts]
    equal(await harness.logs.read_parts(scope, parts), alone, "messages of the parts")
    equal(sum(map(len, alone)), 41, "messages of all parts")
    equal(await harness.logs.read_parts(scope, []), [], "messages of no part")
    for who, stranger in harness.foreign_scopes().items():
        equal(await harness.logs.read_parts(stranger, parts), [[]] * len(parts), f"messages by {who}")
    for refused in ([ThreadPart(keys[0], 1, limit)] for limit in (0, 10_001)):
        with raises(InvalidInput, f"a limit of {refused[0].limit}"):
            await harness.logs.read_parts(scope, refused)
    with raises(InvalidInput, "101 parts"):
        await harness.logs.read_parts(scope, parts[:1] * 101)


@case("logs")
async def read_limits_are_1_to_10_000(harness: Harness) -> None:
    """Limits of 0, -1 and 10 001 raise InvalidInput for latest and read."""
    scope = harness.scope()
    key = await harness.thread(scope, messages=2)
    for limit in (0, -1, 10_001):
        with raises(InvalidInput, f"latest {limit}"):
            await harness.logs.latest(scope, key, limit)
        with raises(InvalidInput, f"read {limit}"):
            await harness.logs.read(scope, key, limit=limit)


@case("logs")
async def an_empty_thread_returns_nothing(harness: Harness) -> None:
    """In a session without messages there is nothing to read, list, complete or erase."""
    scope = harness.scope()
    key = await harness.thread(scope)
    equal(await harness.logs.latest(scope, key, 5, whole_turns=True), [], "latest")
    equal(await harness.logs.read(scope, key), [], "read")
    equal(await harness.logs.threads(scope, key.session_id), [], "threads")
    equal(await harness.logs.complete(scope, key, await harness.message(scope, key, 1), content="x"), None, "complete")
    equal(await harness.logs.erase(scope, key.session_id), 0, "erase")
    equal(await harness.logs.erase(scope, key.session_id, key.persona_id), 0, "erase of the thread")


@case("logs")
async def whole_turns_hide_unfinished_ones(harness: Harness) -> None:
    """With ``whole_turns`` a turn is hidden until all its messages are completed; numbers do not change."""
    scope = harness.scope()
    key = await harness.thread(scope)
    await harness.logs.append(scope, key, [QUESTION, ANSWER])
    await harness.logs.append(scope, key, [QUESTION, OPEN_ANSWER, OPEN_ANSWER])
    await harness.logs.append(scope, key, [QUESTION, ANSWER])

    async def shown(limit: int = 10, before: int | None = None) -> list[int]:
        latest = await harness.logs.latest(scope, key, limit, before=before, whole_turns=True)
        return [message.seq for message in latest]

    equal(await shown(), [1, 2, 6, 7], "shown while two are open")
    equal(await shown(3), [2, 6, 7], "the newest 3: the hidden ones do not count")
    equal(await shown(before=6), [1, 2], "shown before 6")
    equal(len(await harness.logs.latest(scope, key, 10)), 7, "messages without whole_turns")
    await harness.logs.complete(scope, key, await harness.message(scope, key, 4), content="a")
    equal(await shown(), [1, 2, 6, 7], "shown while one is open")
    await harness.logs.complete(scope, key, await harness.message(scope, key, 5), content="b")
    equal(await shown(), [1, 2, 3, 4, 5, 6, 7], "shown when all are completed")


@case("logs")
async def the_tail_is_what_latest_would_give(harness: Harness) -> None:
    """An append's tail equals ``latest`` with ``whole_turns`` after it: with new messages, without open turns."""
    scope = harness.scope()
    key = await harness.thread(scope)
    for batch in ([QUESTION, ANSWER], [QUESTION, OPEN_ANSWER], [QUESTION, ANSWER], [ANSWER]):
        for tail in (1, 3, 10):
            appended = await harness.logs.append(scope, key, batch, tail=tail)
            latest = await harness.logs.latest(scope, key, tail, whole_turns=True)
            equal(appended.tail, latest, f"tail of {tail}, against latest")
    equal((await harness.logs.append(scope, key, [QUESTION])).tail, [], "a tail that was not requested")


@case("logs")
async def a_repeat_returns_the_tail_too(harness: Harness) -> None:
    """An append of repeats only still returns the current tail."""
    scope = harness.scope()
    key = await harness.thread(scope)
    message = [NewMessage(role="user", content="first", id="m1")]
    await harness.logs.append(scope, key, message)
    await harness.logs.append(scope, key, make_messages(2))
    again = await harness.logs.append(scope, key, message, tail=2)
    equal(texts(again.tail), ["1", "2"], "the tail")


@case("logs")
async def a_message_is_completed_once(harness: Harness) -> None:
    """Completing sets content, tokens, completion and metadata of an open message; a second time it returns None."""
    scope = harness.scope()
    key = await harness.thread(scope)
    open_message = (await harness.logs.append(scope, key, [QUESTION, OPEN_ANSWER, ANSWER])).messages[1]
    harness.clock.advance(timedelta(minutes=1))
    filled = await harness.logs.complete(
        scope, key, await harness.message(scope, key, 2), content="答", tokens=7, metadata={"model": ["x"]}
    )
    if filled is None:
        require(condition=False, what="completing an open message returned None")
        return
    values = (filled.content, filled.tokens, filled.completed, filled.metadata)
    equal(values, ("答", 7, True, {"model": ["x"]}), "what was completed")
    for field in ("id", "seq", "turn_id", "persona_id", "role", "timestamp"):
        equal(getattr(filled, field), getattr(open_message, field), f"the field {field}")
    equal(
        await harness.logs.complete(scope, key, await harness.message(scope, key, 2), content="other"),
        None,
        "a second complete",
    )
    equal((await harness.logs.read(scope, key))[1], filled, "the message afterwards")


@case("logs")
async def completed_and_missing_messages_are_not_completed(harness: Harness) -> None:
    """Completing a message that was appended completed, or is absent, returns None and changes nothing."""
    scope = harness.scope()
    key = await harness.thread(scope, messages=2)
    before = await harness.logs.read(scope, key)
    for seq in (1, 2, 3, 0, -1):
        equal(
            await harness.logs.complete(scope, key, await harness.message(scope, key, seq), content="other"),
            None,
            f"complete of {seq}",
        )
    elsewhere = ThreadKey(key.session_id, "absent")
    equal(
        await harness.logs.complete(scope, elsewhere, await harness.message(scope, elsewhere, 1), content="other"),
        None,
        "complete in no thread",
    )
    equal(await harness.logs.read(scope, key), before, "the thread afterwards")


@case("logs", "extended")
async def an_abandoned_message_can_be_completed_later(harness: Harness) -> None:
    """With ``completed=False`` a message keeps its partial content, stays hidden, and can be completed later."""
    scope = harness.scope()
    key = await harness.thread(scope)
    await harness.logs.append(scope, key, [QUESTION, OPEN_ANSWER])
    part = await harness.logs.complete(
        scope, key, await harness.message(scope, key, 2), content="half an", completed=False, tokens=2
    )
    equal(part and (part.content, part.completed, part.tokens), ("half an", False, 2), "the abandoned message")
    equal(await harness.logs.latest(scope, key, 5, whole_turns=True), [], "whole turns while it is open")
    await harness.logs.complete(scope, key, await harness.message(scope, key, 2), content="half an answer")
    shown = await harness.logs.latest(scope, key, 5, whole_turns=True)
    equal(texts(shown), ["question", "half an answer"], "whole turns afterwards")


@case("logs")
async def one_of_eight_racing_completes_wins(harness: Harness) -> None:
    """Of 8 concurrent completes of one message exactly one returns it, and its text is the one stored."""
    scope = harness.scope()
    key = await harness.thread(scope)
    await harness.logs.append(scope, key, [QUESTION, OPEN_ANSWER])
    answer = await harness.message(scope, key, 2)
    outcomes = await asyncio.gather(
        *(harness.logs.complete(scope, key, answer, content=f"answer {number}") for number in range(8))
    )
    winners = [outcome for outcome in outcomes if outcome is not None]
    equal(len(winners), 1, "how many completed it")
    equal((await harness.logs.read(scope, key))[1], winners[0], "the message afterwards")


@case("logs")
async def threads_are_listed_in_order_of_creation(harness: Harness) -> None:
    """``threads`` returns for each persona the number of messages and turns, and the first and last timestamp."""
    scope = harness.scope()
    await harness.open_session(scope)
    began = harness.clock()
    for npc, count in (("b", 3), ("a", 2), ("c", 1), ("b", 2)):
        await harness.logs.append(scope, ThreadKey("session-1", npc), make_messages(count))
        harness.clock.advance(timedelta(seconds=10))

    def info(npc: str, count: int, turns: int, first: int, last: int) -> ThreadInfo:
        first_at, last_at = began + timedelta(seconds=first), began + timedelta(seconds=last)
        return ThreadInfo(npc, count, turns, first_at, last_at)

    wanted = [info("b", 5, 3, 0, 30), info("a", 2, 1, 10, 10), info("c", 1, 1, 20, 20)]
    equal(await harness.logs.threads(scope, "session-1"), wanted, "the threads")


@case("logs")
async def erasing_one_thread_keeps_the_others(harness: Harness) -> None:
    """``erase`` with a persona removes that thread alone, counts its messages, and is idempotent."""
    scope = harness.scope()
    key = await harness.thread(scope, messages=5)
    others = [ThreadKey("session-1", npc) for npc in ("elder-1", "Elder", "elder ", "elde", "*", "%")]
    for other in others:
        await harness.logs.append(scope, other, make_messages(2))
    equal(await harness.logs.erase(scope, "session-1", "*"), 2, "erased of the persona called *")
    equal(await harness.logs.erase(scope, "session-1", "elder"), 5, "erased")
    equal(await harness.logs.erase(scope, "session-1", "elder"), 0, "erased a second time")
    equal(await harness.logs.read(scope, key), [], "the erased thread")
    left = [info.persona_id for info in await harness.logs.threads(scope, "session-1")]
    equal(left, ["elder-1", "Elder", "elder ", "elde", "%"], "the threads left")


@case("logs")
async def erasing_a_session_keeps_similar_ids(harness: Harness) -> None:
    """``erase`` without a persona removes all threads of exactly that session, but not the session."""
    scope = harness.scope()
    for session in SIMILAR_KEYS:
        await harness.open_session(scope, session)
        for npc in ("a", "b"):
            await harness.logs.append(scope, ThreadKey(session, npc), make_messages(3))
    equal(await harness.logs.erase(scope, "session-1"), 6, "erased")
    equal(await harness.logs.threads(scope, "session-1"), [], "threads of the erased session")
    for session in SIMILAR_KEYS[1:]:
        counts = [info.message_count for info in await harness.logs.threads(scope, session)]
        equal(counts, [3, 3], f"messages of {session!r}")
    await harness.logs.append(scope, ThreadKey("session-1", "a"), make_messages(1))


@case("logs")
async def an_erased_thread_restarts_at_1(harness: Harness) -> None:
    """After ``erase`` numbers and turns restart at 1, old ids are free, and old open messages hide nothing."""
    scope = harness.scope()
    key = await harness.thread(scope)
    named = NewMessage(role="user", content="old", id="m1")
    await harness.logs.append(scope, key, [named, OPEN_ANSWER, QUESTION])
    await harness.logs.erase(scope, "session-1")
    fresh = NewMessage(role="user", content="new", id="m1")
    appended = await harness.logs.append(scope, key, [fresh, ANSWER], tail=5)
    equal([(m.seq, m.turn_id) for m in appended.messages], [(1, 1), (2, 1)], "the numbers")
    equal((appended.repeated, texts(appended.tail)), (0, ["new", "answer"]), "repeated, and the tail")


@case("logs", "extended")
async def long_threads_are_read_correctly(harness: Harness) -> None:
    """Of 10 000 messages, the latest 10, the page before them, and a range in the middle are correct."""
    scope = harness.scope()
    key = await harness.thread(scope)
    numbers = range(1, 10_001)
    for start in range(0, 10_000, 1_000):
        batch = [NewMessage(role="user", content=str(number)) for number in numbers[start : start + 1_000]]
        await harness.logs.append(scope, key, batch)
    latest = await harness.logs.latest(scope, key, 10, whole_turns=True)
    equal([(m.seq, m.turn_id, m.content) for m in latest], [(n, n, str(n)) for n in numbers[-10:]], "latest 10")
    earlier = await harness.logs.latest(scope, key, 10, before=latest[0].seq)
    equal([m.seq for m in earlier], list(numbers[-20:-10]), "the 10 before")
    middle = await harness.logs.read(scope, key, start=5_000, limit=3)
    equal(texts(middle), ["5000", "5001", "5002"], "3 from 5 000")
    equal(len(await harness.logs.latest(scope, key, 10_000)), 10_000, "all of them")
    equal(await harness.logs.erase(scope, key.session_id), 10_000, "erased")
