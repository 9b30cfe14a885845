"""All contracts: acknowledged data survives reopening, and is visible to other open stores on the URL.

Skipped for a store with ``durable = False``, whose data is discarded when it is closed.
"""

import asyncio

from wenmai.errors import VersionConflict
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal
from wenmai.stores.conformance.harness import HOUR, Harness, keys, make_messages, texts
from wenmai.stores.conformance.samples import bare_records, full_records, small_record
from wenmai.stores.records import IdempotentTurn, NewMessage, Session
from wenmai.stores.structs import SearchEntry, Stored


@case("documents", "extended", durable=True)
async def records_survive_reopening(harness: Harness) -> None:
    """A second store reads records of every type equal, with version, owner and timestamps; deletes persist."""
    scope = harness.scope()
    put = [await harness.documents.put(scope, record) for record in [*full_records(), *bare_records()]]
    await harness.documents.put(scope, small_record("ends"), keep_until=harness.clock() + HOUR)
    await harness.documents.put(scope, small_record("deleted"))
    await harness.documents.delete(scope, IdempotentTurn, "deleted")
    async with harness.reopened() as again:
        for stored in put:
            got = await again.documents.get(scope, type(stored.record), stored.record.key)
            equal(got, stored, f"the {type(stored.record).__name__} {stored.record.key!r}")
        equal(await again.documents.get(scope, IdempotentTurn, "deleted"), None, "the deleted record")
        harness.clock.advance(HOUR)
        equal(await again.documents.get(scope, IdempotentTurn, "ends"), None, "the expired record")


@case("documents", "extended", durable=True)
async def two_open_stores_share_records(harness: Harness) -> None:
    """A write through one store is visible in the other; cursors work in both; one of 50 racing puts wins."""
    scope = harness.scope()
    async with harness.reopened() as other:
        for number in range(3):
            await harness.documents.put(scope, small_record(f"s{number}"))
        got = await other.documents.get(scope, IdempotentTurn, "s0")
        equal(got and got.version, 1, "the version that the other sees")
        await other.documents.put(scope, small_record("s0"), expected=1)
        got = await harness.documents.get(scope, IdempotentTurn, "s0")
        equal(got and got.version, 2, "the version after the other's change")
        first = await harness.documents.list(scope, IdempotentTurn, limit=2)
        rest = await other.documents.list(scope, IdempotentTurn, limit=2, cursor=first.next_cursor)
        equal(sorted(keys(first) + keys(rest)), ["s0", "s1", "s2"], "a page of each")
        outcomes = await asyncio.gather(
            *(
                (harness, other)[number % 2].documents.put(scope, small_record("s1"), expected=1)
                for number in range(50)
            ),
            return_exceptions=True,
        )
        winners = [outcome for outcome in outcomes if isinstance(outcome, Stored)]
        losers = [outcome for outcome in outcomes if isinstance(outcome, VersionConflict)]
        equal((len(winners), len(losers)), (1, 49), "winners and losers")


@case("logs", "extended", durable=True)
async def threads_survive_reopening(harness: Harness) -> None:
    """A second store reads the thread equal and continues its numbers, repeats and open messages."""
    scope = harness.scope()
    key = await harness.thread(scope)
    named = NewMessage(role="user", content="question", id="m1", metadata={"深": [None]})
    await harness.logs.append(scope, key, [named, NewMessage(role="assistant", content="", completed=False)])
    stored = await harness.logs.read(scope, key)
    async with harness.reopened() as again:
        equal(await again.logs.read(scope, key), stored, "the thread")
        equal(await again.logs.latest(scope, key, 5, whole_turns=True), [], "its whole turns")
        equal((await again.logs.append(scope, key, [named])).repeated, 1, "repeated")
        await again.logs.complete(scope, key, await again.message(scope, key, 2), content="answer")
        appended = await again.logs.append(scope, key, make_messages(2), tail=10)
        equal([(m.seq, m.turn_id) for m in appended.messages], [(3, 2), (4, 2)], "the next numbers")
        equal(texts(appended.tail), ["question", "answer", "1", "2"], "the tail")
    equal(texts(await harness.logs.latest(scope, key, 2)), ["1", "2"], "what the first store reads")


@case("logs", "extended", durable=True)
async def two_open_stores_number_one_thread(harness: Harness) -> None:
    """400 concurrent batches of two from two open stores leave one gap-free thread of 400 whole turns."""
    scope = harness.scope()
    key = await harness.thread(scope)
    async with harness.reopened() as other:
        views = (harness, other)
        await asyncio.gather(
            *(views[n % 2].logs.append(scope, key, make_messages(2, mark=f"{n}-")) for n in range(400))
        )
        named = [NewMessage(role="user", content="once", id="m1")]
        outcomes = await asyncio.gather(*(views[n % 2].logs.append(scope, key, named) for n in range(8)))
        equal(sorted(one.repeated for one in outcomes), [0, *[1] * 7], "how many were repeated")
        stored = await other.logs.read(scope, key, limit=10_000)
        equal([m.seq for m in stored], list(range(1, 802)), "sequence numbers")
        equal([m.turn_id for m in stored], [*(n for n in range(1, 401) for _ in "qa"), 401], "turn ids")
        for question, answer in zip(stored[:-1:2], stored[1::2], strict=True):
            equal(answer.content, question.content[:-1] + "2", "the message after a question")


@case("logs", "extended", durable=True)
async def two_open_stores_share_deletes(harness: Harness) -> None:
    """A delete or erase through one store is visible in the other at once."""
    scope = harness.scope()
    key = await harness.thread(scope, messages=2)
    async with harness.reopened() as other:
        equal(len(await other.logs.read(scope, key)), 2, "messages before")
        await harness.logs.erase(scope, key.session_id)
        equal(await other.logs.read(scope, key), [], "messages after the erasure")
        equal((await other.logs.append(scope, key, make_messages(1))).messages[0].seq, 1, "the next number")
        await harness.documents.delete(scope, Session, key.session_id)
        equal(await other.logs.read(scope, key), [], "messages after the delete")


@case("search", "extended", durable=True)
async def indexes_survive_reopening(harness: Harness) -> None:
    """A second store finds the indexed entries, ranks them equally, and both see each other's changes."""
    scope = harness.scope()
    entries = [
        SearchEntry(id="a", text="孝悌为本", vector=[1.0, 0.0], fields={"npc": "elder"}),
        SearchEntry(id="b", text="耕读传家", vector=[0.0, 1.0], fields={"npc": ["elder", "x"]}),
    ]
    await harness.index(scope, "episodes", entries)
    found = await harness.hits(scope, "episodes", text="孝悌", vector=[1.0, 0.5])
    async with harness.reopened() as other:
        equal(
            await other.hits(scope, "episodes", text="孝悌", vector=[1.0, 0.5]),
            found,
            "the hits of the other store",
        )
        await other.search.remove(scope, "episodes", ["a"])
        equal(await harness.count(scope, "episodes"), 1, "entries after the other's removal")
        left = await harness.hits(scope, "episodes", text="孝悌 耕读", where={"npc": "x"})
        equal([hit.id for hit in left], ["b"], "hits after the other's removal")
