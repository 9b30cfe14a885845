"""Hits of a search for messages: what stands before and after each, and the messages or turns that they are of."""

from random import Random
from typing import Any

import pytest

from wenmai.memory.episode_entries import entry_id, neighbour_ids
from wenmai.memory.ranked_hits import merged, ranked_hits, units
from wenmai.scope import ThreadKey
from wenmai.stores.structs import Hit

FIRST = ThreadKey("s", "guide", "00000000000000a1")
SECOND = ThreadKey("s", "guide", "00000000000000a2")
OTHER_PERSONA = ThreadKey("s", "elder", "00000000000000a1")


def hit(thread: ThreadKey, seq: int, lexical: float = 1.0, **fields: Any) -> Hit:
    """A hit like all others but for its words and these fields."""
    same: dict[str, Any] = {
        "incarnation": thread.incarnation,
        "speaker": "",
        "question": 0,
        "length": 20,
        "turn": (seq + 1) // 2,
    }
    return Hit(id=entry_id(thread, seq), lexical=lexical, coverage=0.0, similarity=None, fields=same | fields)


def near(thread: ThreadKey, seq: int, lexical: float) -> Hit:
    """A neighbour, whose fields are not read."""
    return Hit(id=entry_id(thread, seq), lexical=lexical, coverage=0.0, similarity=None, fields={})


def of_neighbours(hits: list[Hit], neighbours: list[Hit]) -> dict[str, float]:
    """The part of each hit's score that its neighbours have."""
    return {found.id: why.neighbours for found, why in ranked_hits("cat", (), hits, neighbours)}


def test_neighbours_are_the_messages_before_and_after_in_the_same_thread() -> None:
    """In whichever order they were found; not those of another session, persona, or place in the thread."""
    chance = Random(7)  # noqa: S311 — reproducible
    hits = [hit(thread, seq, chance.random()) for thread in (FIRST, SECOND, OTHER_PERSONA) for seq in (1, 2, 5, 9)]
    neighbours = [near(thread, seq, chance.random()) for thread in (FIRST, SECOND) for seq in (3, 4, 6, 7, 8)]
    chance.shuffle(hits)
    chance.shuffle(neighbours)
    scores = of_neighbours(hits, neighbours)
    lexical = {each.id: each.lexical for each in (*hits, *neighbours)}
    changed = 0
    for each in hits:
        around = {id_ for id_ in neighbour_ids(each.id) if id_ in lexical}
        for other in neighbours:
            louder = [near_ if near_ is not other else near(*_place(other), lexical=5.0) for near_ in neighbours]
            differs = of_neighbours(hits, louder)[each.id] != scores[each.id]
            assert differs == (other.id in around), (each.id, other.id)
            changed += differs
    assert changed == 8


def _place(found: Hit) -> tuple[ThreadKey, int]:
    session, incarnation, persona, seq = found.id.split("/")
    return ThreadKey(session, persona, incarnation), int(seq)


def test_the_last_message_of_a_thread_is_not_next_to_the_first_of_another() -> None:
    """Though both are found, and no message is between them."""
    alone = of_neighbours([hit(FIRST, 9, 2.0), hit(SECOND, 5, 1.0)], [])
    others = [near(SECOND, 1, 9.0), near(OTHER_PERSONA, 1, 9.0)]
    assert of_neighbours([hit(FIRST, 9, 2.0), hit(SECOND, 5, 1.0)], others) == alone


def test_hits_are_neighbours_of_each_other() -> None:
    """As those are that were only looked up."""
    hits = [hit(FIRST, 1, 0.5), hit(FIRST, 2, 2.0), hit(SECOND, 5, 1.0)]
    scores = of_neighbours(hits, [])
    assert scores[hits[0].id] > 0 > scores[hits[1].id]


def test_the_words_of_the_message_after_count_more_than_of_the_one_before() -> None:
    """Its entry has them because this message does."""
    before, after = hit(FIRST, 5), hit(SECOND, 5)
    scores = of_neighbours([before, after, hit(OTHER_PERSONA, 5, 0.0)], [near(FIRST, 4, 9.0), near(SECOND, 6, 9.0)])
    assert scores[after.id] > scores[before.id] > 0


def test_no_message_after_is_one_without_the_words() -> None:
    """So that the words in the entry of the last message are those of the one before it."""
    hits = [hit(FIRST, 5), hit(SECOND, 5)]
    with_one = of_neighbours(hits, [near(FIRST, 6, 0.0), near(SECOND, 6, 0.0)])
    assert of_neighbours(hits, []) == with_one
    assert max(with_one.values()) < 0


def test_nothing_found_is_ranked_as_nothing() -> None:
    """Also without neighbours."""
    assert list(ranked_hits("cat", (), [], [])) == []


def test_a_unit_is_returned_once_by_its_best_hit() -> None:
    """A message, or a turn; turns of the same number in another thread are others."""
    hits = [hit(FIRST, 1, 3.0), hit(FIRST, 2, 2.0), hit(OTHER_PERSONA, 1, 1.0)]
    ranked = ranked_hits("cat", (), hits, [])
    best = [found.id for found, _ in ranked]
    assert [found.id for found, _ in units(merged([ranked, ranked]), "message")] == best
    turns = [found.id for found, _ in units(ranked, "turn")]
    assert turns == [id_ for id_ in best if id_ == best[0] or id_.split("/")[2] != best[0].split("/")[2]]


@pytest.mark.parametrize("first", ["a", "b"])
def test_several_questions_are_merged_by_rank(first: str) -> None:
    """Of equal ranks, the hit of the earlier question comes first, and none comes twice."""
    a = ranked_hits("cat", (), [hit(FIRST, 1, 3.0, length=900), hit(FIRST, 9, 1.0, length=1)], [])
    b = ranked_hits("cat", (), [hit(SECOND, 1, 3.0, length=900), hit(FIRST, 9, 1.0, length=1)], [])
    lists = [a, b] if first == "a" else [b, a]
    best = [next(iter(each))[0].id for each in lists]
    assert [found.id for found, _ in merged(lists)] == [*best, entry_id(FIRST, 9)]
