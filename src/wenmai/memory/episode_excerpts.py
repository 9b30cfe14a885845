"""Excerpts of recalled turns for a prompt: the statements that belong to the question or are salient.

A turn of which one sentence matters costs as much as one in which all do, and a question in other words finds its turn
further down. So the statements of many turns compete for the tokens, and only the most related turns have a share of
their own.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

from msgspec.structs import replace

from wenmai.memory.episode_entries import INDEXED_CHARACTERS, shortened
from wenmai.memory.extractive_summary import salience_of, statements
from wenmai.memory.sizes import ELLIPSIS
from wenmai.stores.records import Message
from wenmai.text.cjk import query_terms, terms
from wenmai.text.tokens import TokenCounter

CANDIDATES = 30
"""Turns whose statements compete: of the first ones all, of the others those of the user."""

WITH_SHARE = 3
"""The first turns; together they have half of the tokens for certain."""

_OF_RELATION = 0.8
"""Of the rank of a turn, from the first to the last."""

_OF_A_TERM = 0.8
"""Of a term that question and statement share, if no other statement has it."""

_OF_AN_ENTRY = 9
"""Tokens of the date and the marks of an entry."""


def shortened_turn(messages: Sequence[Message]) -> list[Message]:
    """The turn with its long messages shortened to what is indexed of them."""
    return [replace(each, content=shortened(each.content, INDEXED_CHARACTERS)) for each in messages]


class _Statement(NamedTuple):
    turn: int
    position: int
    text: str
    tokens: int
    score: float


def excerpts(
    turns: Sequence[Sequence[Message]],
    question: str,
    tokens: int,
    count_tokens: TokenCounter,
    known: frozenset[str] = frozenset(),
) -> list[str]:
    """The excerpts, most related first, each with its date.

    Args:
        turns: most related first.
        question: its terms decide which statements are kept.
        tokens: of all together.
        count_tokens: of a text.
        known: statements that the prompt has already, such as those of the summary.
    """
    found = _scored(turns, question, count_tokens, known)
    chosen: dict[int, list[_Statement]] = {}
    room = tokens
    share = tokens // (2 * WITH_SHARE)
    for turn in range(min(WITH_SHARE, len(turns))):
        own = [statement for statement in found if statement.turn == turn]
        room -= _add(chosen, own, min(share, room))
    taken = {(statement.turn, statement.position) for kept in chosen.values() for statement in kept}
    _add(chosen, [each for each in found if (each.turn, each.position) not in taken], room)
    return [
        f"{turns[turn][0].timestamp:%Y-%m-%d} {_joined(sorted(chosen[turn], key=lambda each: each.position))}"
        for turn in sorted(chosen)
    ]


def _scored(
    turns: Sequence[Sequence[Message]], question: str, count_tokens: TokenCounter, known: frozenset[str]
) -> list[_Statement]:
    """The statements, best first; of equal ones the best."""
    texts = [
        list(statements(messages if turn < WITH_SHARE else [each for each in messages if each.role == "user"]))
        for turn, messages in enumerate(turns)
    ]
    asked = frozenset(query_terms(question))
    shared = [[asked.intersection(terms(text)) for text in each] for each in texts]
    frequency = Counter(term for each in shared for found in each for term in found)
    ranked = sorted(
        (
            _Statement(
                turn,
                position,
                text,
                count_tokens(text) + 1,
                salience_of(text)
                + _OF_RELATION * (1 - turn / len(turns))
                + _OF_A_TERM * sum(1 / sqrt(frequency[term]) for term in shared[turn][position]),
            )
            for turn, each in enumerate(texts)
            for position, text in enumerate(each)
            if text not in known
        ),
        key=lambda statement: (-statement.score, statement.turn, statement.position),
    )
    return [*{statement.text: statement for statement in reversed(ranked)}.values()][::-1]


def _add(chosen: dict[int, list[_Statement]], ranked: Sequence[_Statement], tokens: int) -> int:
    """Add the best that fit into so many tokens; returns how many they take."""
    used = 0
    for statement in ranked:
        size = statement.tokens + (0 if statement.turn in chosen else _OF_AN_ENTRY)
        if used + size <= tokens:
            chosen.setdefault(statement.turn, []).append(statement)
            used += size
    return used


def _joined(kept: Sequence[_Statement]) -> str:
    return " ".join([kept[0].text, *_following(kept)])


def _following(kept: Sequence[_Statement]) -> Iterator[str]:
    for before, statement in pairwise(kept):
        yield statement.text if statement.position == before.position + 1 else f"{ELLIPSIS} {statement.text}"
