"""Logs: the newest messages, ranges, whole turns, settling once, threads and erasing."""

import asyncio
from datetime import timedelta

from wenmai.errors import InvalidInput
from wenmai.scope import ThreadKey
from wenmai.stores.base import ThreadInfo
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, raises, require
from wenmai.stores.conformance.ground import Ground, talk, texts
from wenmai.stores.conformance.samples import TWINS
from wenmai.stores.records import NewMessage

QUESTION = NewMessage(role="user", content="question")
ANSWER = NewMessage(role="assistant", content="answer")
OPEN_ANSWER = NewMessage(role="assistant", content="", completed=False)


@case("logs")
async def latest_is_the_newest_ascending(ground: Ground) -> None:
    """``latest`` gives the newest messages, ascending; with ``before``, of those with a smaller seq."""
    scope = ground.scope()
    key = await ground.thread(scope, messages=12)
    equal(texts(await ground.logs.latest(scope, key, 3)), ["10", "11", "12"], "the newest 3")
    equal(len(await ground.logs.latest(scope, key, 10_000)), 12, "how many of 10 000")
    for before, wanted in ((12, ["10", "11"]), (3, ["1", "2"]), (2, ["1"]), (1, []), (99, ["11", "12"])):
        equal(texts(await ground.logs.latest(scope, key, 2, before=before)), wanted, f"2 before {before}")


@case("logs")
async def read_gives_a_range(ground: Ground) -> None:
    """``read`` gives messages from a seq on, ascending, at most ``limit``; past the end it gives nothing."""
    scope = ground.scope()
    key = await ground.thread(scope, messages=12)
    equal(texts(await ground.logs.read(scope, key)), [str(number) for number in range(1, 13)], "all")
    equal(texts(await ground.logs.read(scope, key, start=4, limit=3)), ["4", "5", "6"], "3 from 4")
    equal(texts(await ground.logs.read(scope, key, start=12, limit=3)), ["12"], "3 from 12")
    equal(await ground.logs.read(scope, key, start=13), [], "from 13")


@case("logs")
async def read_limits_are_1_to_10_000(ground: Ground) -> None:
    """Limits of 0, -1 and 10 001 raise InvalidInput for latest and read."""
    scope = ground.scope()
    key = await ground.thread(scope, messages=2)
    for limit in (0, -1, 10_001):
        with raises(InvalidInput, f"latest {limit}"):
            await ground.logs.latest(scope, key, limit)
        with raises(InvalidInput, f"read {limit}"):
            await ground.logs.read(scope, key, limit=limit)


@case("logs")
async def an_empty_thread_gives_nothing(ground: Ground) -> None:
    """In a session without messages there is nothing to read, list, settle or erase."""
    scope = ground.scope()
    key = await ground.thread(scope)
    equal(await ground.logs.latest(scope, key, 5, whole_turns=True), [], "latest")
    equal(await ground.logs.read(scope, key), [], "read")
    equal(await ground.logs.threads(scope, key.session_id), [], "threads")
    equal(await ground.logs.settle(scope, key, await ground.message(scope, key, 1), content="x"), None, "settle")
    equal(await ground.logs.erase(scope, key.session_id), 0, "erase")
    equal(await ground.logs.erase(scope, key.session_id, key.npc_id), 0, "erase of the thread")


@case("logs")
async def whole_turns_hide_unfinished_ones(ground: Ground) -> None:
    """With ``whole_turns`` a turn is hidden until each of its messages is completed; numbers stay."""
    scope = ground.scope()
    key = await ground.thread(scope)
    await ground.logs.append(scope, key, [QUESTION, ANSWER])
    await ground.logs.append(scope, key, [QUESTION, OPEN_ANSWER, OPEN_ANSWER])
    await ground.logs.append(scope, key, [QUESTION, ANSWER])

    async def shown(limit: int = 10, before: int | None = None) -> list[int]:
        latest = await ground.logs.latest(scope, key, limit, before=before, whole_turns=True)
        return [message.seq for message in latest]

    equal(await shown(), [1, 2, 6, 7], "shown while two are open")
    equal(await shown(3), [2, 6, 7], "the newest 3: the hidden ones do not count")
    equal(await shown(before=6), [1, 2], "shown before 6")
    equal(len(await ground.logs.latest(scope, key, 10)), 7, "messages without whole_turns")
    await ground.logs.settle(scope, key, await ground.message(scope, key, 4), content="a")
    equal(await shown(), [1, 2, 6, 7], "shown while one is open")
    await ground.logs.settle(scope, key, await ground.message(scope, key, 5), content="b")
    equal(await shown(), [1, 2, 3, 4, 5, 6, 7], "shown when all are settled")


@case("logs")
async def the_tail_is_what_latest_would_give(ground: Ground) -> None:
    """An append's tail equals ``latest`` with ``whole_turns`` after it: new messages in, open turns out."""
    scope = ground.scope()
    key = await ground.thread(scope)
    for batch in ([QUESTION, ANSWER], [QUESTION, OPEN_ANSWER], [QUESTION, ANSWER], [ANSWER]):
        for tail in (1, 3, 10):
            appended = await ground.logs.append(scope, key, batch, tail=tail)
            latest = await ground.logs.latest(scope, key, tail, whole_turns=True)
            equal(appended.tail, latest, f"tail of {tail}, against latest")
    equal((await ground.logs.append(scope, key, [QUESTION])).tail, [], "a tail that was not asked for")


@case("logs")
async def a_repeat_returns_the_tail_too(ground: Ground) -> None:
    """An append of nothing but repeats still gives the tail as it is now."""
    scope = ground.scope()
    key = await ground.thread(scope)
    message = [NewMessage(role="user", content="first", id="m1")]
    await ground.logs.append(scope, key, message)
    await ground.logs.append(scope, key, talk(2))
    again = await ground.logs.append(scope, key, message, tail=2)
    equal(texts(again.tail), ["1", "2"], "the tail")


@case("logs")
async def a_message_is_settled_once(ground: Ground) -> None:
    """Settling fills content, tokens, completion and metadata of an open message; again, it returns None."""
    scope = ground.scope()
    key = await ground.thread(scope)
    open_message = (await ground.logs.append(scope, key, [QUESTION, OPEN_ANSWER, ANSWER])).messages[1]
    ground.clock.advance(timedelta(minutes=1))
    settled = await ground.logs.settle(
        scope, key, await ground.message(scope, key, 2), content="答", tokens=7, metadata={"model": ["x"]}
    )
    if settled is None:
        require(condition=False, what="settling an open message returned None")
        return
    filled = (settled.content, settled.tokens, settled.completed, settled.metadata)
    equal(filled, ("答", 7, True, {"model": ["x"]}), "what was filled")
    for field in ("id", "seq", "turn_id", "npc_id", "role", "timestamp"):
        equal(getattr(settled, field), getattr(open_message, field), f"the field {field}")
    equal(
        await ground.logs.settle(scope, key, await ground.message(scope, key, 2), content="other"),
        None,
        "a second settle",
    )
    equal((await ground.logs.read(scope, key))[1], settled, "the message afterwards")


@case("logs")
async def completed_and_missing_messages_are_not_settled(ground: Ground) -> None:
    """Settling a message that is completed from the start, or absent, returns None and changes nothing."""
    scope = ground.scope()
    key = await ground.thread(scope, messages=2)
    before = await ground.logs.read(scope, key)
    for seq in (1, 2, 3, 0, -1):
        equal(
            await ground.logs.settle(scope, key, await ground.message(scope, key, seq), content="other"),
            None,
            f"settle of {seq}",
        )
    elsewhere = ThreadKey(key.session_id, "nobody")
    equal(
        await ground.logs.settle(scope, elsewhere, await ground.message(scope, elsewhere, 1), content="other"),
        None,
        "settle in no thread",
    )
    equal(await ground.logs.read(scope, key), before, "the thread afterwards")


@case("logs", "extended")
async def an_abandoned_message_can_be_settled_later(ground: Ground) -> None:
    """Settled with ``completed=False`` a message keeps its part, stays hidden, and may be settled again."""
    scope = ground.scope()
    key = await ground.thread(scope)
    await ground.logs.append(scope, key, [QUESTION, OPEN_ANSWER])
    part = await ground.logs.settle(
        scope, key, await ground.message(scope, key, 2), content="half an", completed=False, tokens=2
    )
    equal(part and (part.content, part.completed, part.tokens), ("half an", False, 2), "the abandoned message")
    equal(await ground.logs.latest(scope, key, 5, whole_turns=True), [], "whole turns while it is open")
    await ground.logs.settle(scope, key, await ground.message(scope, key, 2), content="half an answer")
    shown = await ground.logs.latest(scope, key, 5, whole_turns=True)
    equal(texts(shown), ["question", "half an answer"], "whole turns afterwards")


@case("logs")
async def one_of_eight_racing_settles_wins(ground: Ground) -> None:
    """Of 8 concurrent settles of one message exactly one returns it, and its text is the one stored."""
    scope = ground.scope()
    key = await ground.thread(scope)
    await ground.logs.append(scope, key, [QUESTION, OPEN_ANSWER])
    answer = await ground.message(scope, key, 2)
    outcomes = await asyncio.gather(
        *(ground.logs.settle(scope, key, answer, content=f"answer {number}") for number in range(8))
    )
    winners = [outcome for outcome in outcomes if outcome is not None]
    equal(len(winners), 1, "how many settled it")
    equal((await ground.logs.read(scope, key))[1], winners[0], "the message afterwards")


@case("logs")
async def threads_are_told_in_the_order_they_began(ground: Ground) -> None:
    """``threads`` gives for each persona its messages and turns, and when the first and the last one came."""
    scope = ground.scope()
    await ground.open_session(scope)
    began = ground.clock()
    for npc, count in (("b", 3), ("a", 2), ("c", 1), ("b", 2)):
        await ground.logs.append(scope, ThreadKey("session-1", npc), talk(count))
        ground.clock.advance(timedelta(seconds=10))

    def info(npc: str, count: int, turns: int, first: int, last: int) -> ThreadInfo:
        first_at, last_at = began + timedelta(seconds=first), began + timedelta(seconds=last)
        return ThreadInfo(npc, count, turns, first_at, last_at)

    wanted = [info("b", 5, 3, 0, 30), info("a", 2, 1, 10, 10), info("c", 1, 1, 20, 20)]
    equal(await ground.logs.threads(scope, "session-1"), wanted, "the threads")


@case("logs")
async def erasing_one_thread_leaves_the_others(ground: Ground) -> None:
    """``erase`` with a persona removes that thread alone, counts its messages, and is idempotent."""
    scope = ground.scope()
    key = await ground.thread(scope, messages=5)
    others = [ThreadKey("session-1", npc) for npc in ("elder-1", "Elder", "elder ", "elde", "*", "%")]
    for other in others:
        await ground.logs.append(scope, other, talk(2))
    equal(await ground.logs.erase(scope, "session-1", "*"), 2, "erased of the persona called *")
    equal(await ground.logs.erase(scope, "session-1", "elder"), 5, "erased")
    equal(await ground.logs.erase(scope, "session-1", "elder"), 0, "erased a second time")
    equal(await ground.logs.read(scope, key), [], "the erased thread")
    left = [info.npc_id for info in await ground.logs.threads(scope, "session-1")]
    equal(left, ["elder-1", "Elder", "elder ", "elde", "%"], "the threads left")


@case("logs")
async def erasing_a_session_leaves_its_twins(ground: Ground) -> None:
    """``erase`` without a persona removes all threads of exactly that session, and not the session."""
    scope = ground.scope()
    for session in TWINS:
        await ground.open_session(scope, session)
        for npc in ("a", "b"):
            await ground.logs.append(scope, ThreadKey(session, npc), talk(3))
    equal(await ground.logs.erase(scope, "session-1"), 6, "erased")
    equal(await ground.logs.threads(scope, "session-1"), [], "threads of the erased session")
    for session in TWINS[1:]:
        counts = [info.message_count for info in await ground.logs.threads(scope, session)]
        equal(counts, [3, 3], f"messages of {session!r}")
    await ground.logs.append(scope, ThreadKey("session-1", "a"), talk(1))


@case("logs")
async def an_erased_thread_begins_at_1_again(ground: Ground) -> None:
    """After ``erase`` numbers and turns begin at 1, old ids are free, and old open messages hide nothing."""
    scope = ground.scope()
    key = await ground.thread(scope)
    named = NewMessage(role="user", content="old", id="m1")
    await ground.logs.append(scope, key, [named, OPEN_ANSWER, QUESTION])
    await ground.logs.erase(scope, "session-1")
    fresh = NewMessage(role="user", content="new", id="m1")
    appended = await ground.logs.append(scope, key, [fresh, ANSWER], tail=5)
    equal([(m.seq, m.turn_id) for m in appended.messages], [(1, 1), (2, 1)], "the numbers")
    equal((appended.repeated, texts(appended.tail)), (0, ["new", "answer"]), "repeated, and the tail")


@case("logs", "extended")
async def long_threads_are_read_at_their_end(ground: Ground) -> None:
    """Of 10 000 messages the latest 10, a page before them, and a range in the middle are right."""
    scope = ground.scope()
    key = await ground.thread(scope)
    numbers = range(1, 10_001)
    for start in range(0, 10_000, 1_000):
        batch = [NewMessage(role="user", content=str(number)) for number in numbers[start : start + 1_000]]
        await ground.logs.append(scope, key, batch)
    latest = await ground.logs.latest(scope, key, 10, whole_turns=True)
    equal([(m.seq, m.turn_id, m.content) for m in latest], [(n, n, str(n)) for n in numbers[-10:]], "latest 10")
    earlier = await ground.logs.latest(scope, key, 10, before=latest[0].seq)
    equal([m.seq for m in earlier], list(numbers[-20:-10]), "the 10 before")
    middle = await ground.logs.read(scope, key, start=5_000, limit=3)
    equal(texts(middle), ["5000", "5001", "5002"], "3 from 5 000")
    equal(len(await ground.logs.latest(scope, key, 10_000)), 10_000, "all of them")
    equal(await ground.logs.erase(scope, key.session_id), 10_000, "erased")
