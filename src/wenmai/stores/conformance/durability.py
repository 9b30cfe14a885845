"""All contracts: what was acknowledged is there after reopening, and seen by whoever else has the URL open.

A backend whose data ends with its opening is spared these: it says so by ``durable = False`` on its store.
"""

import asyncio

from wenmai.errors import VersionConflict
from wenmai.stores.base import SearchEntry, Stored
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal
from wenmai.stores.conformance.ground import HOUR, Ground, keys, talk, texts
from wenmai.stores.conformance.samples import bare_records, full_records, small
from wenmai.stores.records import IdempotentTurn, NewMessage, Session


@case("documents", "extended", durable=True)
async def records_outlive_their_opening(ground: Ground) -> None:
    """Another opening reads records of every type equal, with version, owner and moments; deletes hold."""
    scope = ground.scope()
    put = [await ground.documents.put(scope, record) for record in [*full_records(), *bare_records()]]
    await ground.documents.put(scope, small("ends"), keep_until=ground.clock() + HOUR)
    await ground.documents.put(scope, small("deleted"))
    await ground.documents.delete(scope, IdempotentTurn, "deleted")
    async with ground.opened_again() as again:
        for stored in put:
            got = await again.documents.get(scope, type(stored.record), stored.record.key)
            equal(got, stored, f"the {type(stored.record).__name__} {stored.record.key!r}")
        equal(await again.documents.get(scope, IdempotentTurn, "deleted"), None, "the deleted record")
        ground.clock.advance(HOUR)
        equal(await again.documents.get(scope, IdempotentTurn, "ends"), None, "the record past its end")


@case("documents", "extended", durable=True)
async def two_openings_see_one_set_of_records(ground: Ground) -> None:
    """What one opening writes the other reads at once; cursors are good in both; one of 50 racers wins."""
    scope = ground.scope()
    async with ground.opened_again() as other:
        for number in range(3):
            await ground.documents.put(scope, small(f"s{number}"))
        got = await other.documents.get(scope, IdempotentTurn, "s0")
        equal(got and got.version, 1, "the version that the other sees")
        await other.documents.put(scope, small("s0"), expected=1)
        got = await ground.documents.get(scope, IdempotentTurn, "s0")
        equal(got and got.version, 2, "the version after the other's change")
        first = await ground.documents.list(scope, IdempotentTurn, limit=2)
        rest = await other.documents.list(scope, IdempotentTurn, limit=2, cursor=first.next_cursor)
        equal(sorted(keys(first) + keys(rest)), ["s0", "s1", "s2"], "a page of each")
        outcomes = await asyncio.gather(
            *((ground, other)[number % 2].documents.put(scope, small("s1"), expected=1) for number in range(50)),
            return_exceptions=True,
        )
        winners = [outcome for outcome in outcomes if isinstance(outcome, Stored)]
        losers = [outcome for outcome in outcomes if isinstance(outcome, VersionConflict)]
        equal((len(winners), len(losers)), (1, 49), "winners and losers")


@case("logs", "extended", durable=True)
async def threads_outlive_their_opening(ground: Ground) -> None:
    """Another opening reads the thread equal and goes on with its numbers, repeats and open messages."""
    scope = ground.scope()
    key = await ground.thread(scope)
    named = NewMessage(role="user", content="question", id="m1", metadata={"深": [None]})
    await ground.logs.append(scope, key, [named, NewMessage(role="assistant", content="", completed=False)])
    stored = await ground.logs.read(scope, key)
    async with ground.opened_again() as again:
        equal(await again.logs.read(scope, key), stored, "the thread")
        equal(await again.logs.latest(scope, key, 5, whole_turns=True), [], "its whole turns")
        equal((await again.logs.append(scope, key, [named])).repeated, 1, "repeated")
        await again.logs.settle(scope, key, await again.message(scope, key, 2), content="answer")
        appended = await again.logs.append(scope, key, talk(2), tail=10)
        equal([(m.seq, m.turn_id) for m in appended.messages], [(3, 2), (4, 2)], "the next numbers")
        equal(texts(appended.tail), ["question", "answer", "1", "2"], "the tail")
    equal(texts(await ground.logs.latest(scope, key, 2)), ["1", "2"], "what the first opening reads")


@case("logs", "extended", durable=True)
async def two_openings_number_one_thread(ground: Ground) -> None:
    """400 concurrent batches of two from two openings leave one gap-free thread of 400 whole turns."""
    scope = ground.scope()
    key = await ground.thread(scope)
    async with ground.opened_again() as other:
        views = (ground, other)
        await asyncio.gather(*(views[n % 2].logs.append(scope, key, talk(2, mark=f"{n}-")) for n in range(400)))
        named = [NewMessage(role="user", content="once", id="m1")]
        outcomes = await asyncio.gather(*(views[n % 2].logs.append(scope, key, named) for n in range(8)))
        equal(sorted(one.repeated for one in outcomes), [0, *[1] * 7], "how many were repeated")
        stored = await other.logs.read(scope, key, limit=10_000)
        equal([m.seq for m in stored], list(range(1, 802)), "sequence numbers")
        equal([m.turn_id for m in stored], [*(n for n in range(1, 401) for _ in "qa"), 401], "turn ids")
        for question, answer in zip(stored[:-1:2], stored[1::2], strict=True):
            equal(answer.content, question.content[:-1] + "2", "the message after a question")


@case("logs", "extended", durable=True)
async def two_openings_share_a_sessions_end(ground: Ground) -> None:
    """A session that one opening has deleted or erased is so for the other at once."""
    scope = ground.scope()
    key = await ground.thread(scope, messages=2)
    async with ground.opened_again() as other:
        equal(len(await other.logs.read(scope, key)), 2, "messages before")
        await ground.logs.erase(scope, key.session_id)
        equal(await other.logs.read(scope, key), [], "messages after the erasure")
        equal((await other.logs.append(scope, key, talk(1))).messages[0].seq, 1, "the next number")
        await ground.documents.delete(scope, Session, key.session_id)
        equal(await other.logs.read(scope, key), [], "messages after the delete")


@case("search", "extended", durable=True)
async def indexes_outlive_their_opening(ground: Ground) -> None:
    """Another opening finds what was indexed, ranks it equally, and both see each other's changes."""
    scope = ground.scope()
    entries = [
        SearchEntry(id="a", text="孝悌为本", vector=[1.0, 0.0], fields={"npc": "elder"}),
        SearchEntry(id="b", text="耕读传家", vector=[0.0, 1.0], fields={"npc": ["elder", "x"]}),
    ]
    await ground.index(scope, "episodes", entries)
    found = await ground.search.query(scope, "episodes", text="孝悌", vector=[1.0, 0.5])
    async with ground.opened_again() as other:
        equal(
            await other.search.query(scope, "episodes", text="孝悌", vector=[1.0, 0.5]),
            found,
            "the hits of the other opening",
        )
        await other.search.remove(scope, "episodes", ["a"])
        equal(await ground.search.count(scope, "episodes"), 1, "entries after the other's removal")
        left = await ground.search.query(scope, "episodes", text="孝悌 耕读", where={"npc": "x"})
        equal([hit.id for hit in left], ["b"], "hits after the other's removal")
