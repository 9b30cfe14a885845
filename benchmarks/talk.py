"""The words of the talk: Chinese and English in turn, a short question and an answer of a few sentences."""

import random
from collections.abc import Iterator

_QUESTIONS = (
    "第一条是什么？",
    "村里的祠堂是哪一年修的，谁主持的？",
    "我想知道春天种田要先做哪几件事，能一步一步说吗？",
    "有什么具体的故事吗？",
    "Which of the precepts speaks about guests?",
    "Could you tell me again, a little more slowly, who carried the stones for the bridge?",
    "And then?",
)
_SENTENCES = (
    "祖上传下来的话不多，第一条说的是守信。",
    "那一年雨水多，河上的木桥冲走了两回，后来大家凑钱换成了石桥。",
    "春分前后先修渠，再翻地，等到谷雨才下种。",
    "说起祠堂，老人们都记得正梁上的那行字。",
    "The old people say that a guest eats first and the house eats after.",
    "Every household gave a day of work, and those who could not carry stones cooked for those who did.",
    "It is written on the board above the gate, although the paint has faded.",
)


def talk(seed: int) -> Iterator[tuple[str, str]]:
    """Questions with their answers, without end, the same for the same seed."""
    chance = random.Random(seed)
    while True:
        yield chance.choice(_QUESTIONS), "".join(chance.choices(_SENTENCES, k=chance.randint(2, 8)))


def history(seed: int, messages: int) -> list[tuple[str, str]]:
    """The first messages of such a talk as (role, content)."""
    turns = talk(seed)
    found: list[tuple[str, str]] = []
    while len(found) < messages:
        question, answer = next(turns)
        found += [("user", question), ("assistant", answer)]
    return found[:messages]
