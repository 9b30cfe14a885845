"""Conversations with planted facts, made of ``fidelity_data``: facts with questions about them, and ordinary talk.

The facts are divided in halves by a hash of their ids. One half is for tuning, the other for the figures.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

LANGUAGES = ("zh", "en")
HALVES = ("tuning", "held out")
_DATA = Path(__file__).with_name("fidelity_data")


class Fact(NamedTuple):
    """Something that a user said, and a question about it in other words.

    Attributes:
        said: the message.
        later: a later message that corrects it; "" for none.
        answers: words of which one is in every text that has the fact, and in no other.
    """

    said: str
    later: str
    question: str
    answers: Sequence[str]

    def is_in(self, text: str) -> bool:
        """Whether the text has the fact."""
        return any(words in text for words in self.answers)


def facts(language: str, half: str) -> list[Fact]:
    """The facts of a half, in an order of their own."""
    chosen = [
        (sha256(row["id"].encode()).digest(), row)
        for row in _rows("facts")
        if row["language"] == language and HALVES[sha256(row["id"].encode()).digest()[0] % 2] == half
    ]
    return [
        Fact(row["said"], row.get("later", ""), row["question"], row["answers"])
        for _, row in sorted(chosen, key=lambda each: each[0])
    ]


def conversation(language: str, planted: Sequence[Fact], seed: int) -> Iterator[tuple[str, str]]:
    """Questions with their answers without end, about 160 tokens a turn; the first turns say the facts.

    Corrections follow when all facts were said.
    """
    said = [*(fact.said for fact in planted), *(fact.later for fact in planted if fact.later)]
    space = "" if language == "zh" else " "
    for (first, second), assistant in _pairs(language, seed):
        user = said.pop(0) if said else first
        yield f"{user}{space}{second}", assistant


def ordinary_talk(language: str, seed: int) -> Iterator[tuple[str, str]]:
    """Remarks of a user with answers: two of each in a turn."""
    space = "" if language == "zh" else " "
    for users, assistant in _pairs(language, seed):
        yield space.join(users), assistant


def _pairs(language: str, seed: int) -> Iterator[tuple[tuple[str, str], str]]:
    """Two remarks at a time, and the answer to both."""
    chance = random.Random(seed)
    rows = [row for row in _rows("talk") if row["language"] == language]
    values = {row["slot"]: row["values"] for row in rows if "slot" in row}
    remarks = [row for row in rows if "user" in row]
    space = "" if language == "zh" else " "
    while True:
        (first, answer), (second, more) = islice(_filled(remarks, values, chance), 2)
        yield (first, second), f"{answer}{space}{more}"


def _filled(
    remarks: Sequence[Mapping[str, str]], values: Mapping[str, Sequence[str]], chance: random.Random
) -> Iterator[tuple[str, str]]:
    for remark in chance.sample(remarks, len(remarks)):
        slots = {slot: chance.choice(each) for slot, each in values.items()}
        yield _sentence(remark["user"].format(**slots)), _sentence(remark["assistant"].format(**slots))


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _rows(name: str) -> list[dict[str, Any]]:
    lines = (_DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]
