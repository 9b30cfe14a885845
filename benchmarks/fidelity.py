"""``python -m benchmarks.fidelity``: planted facts that are still known after many turns, and what memory costs.

Facts are said in the first turns of an ordinary conversation, in Chinese and in English. A fact is known if its words
stand in the summary or the history of a context. No model, no embedder::

    python -m benchmarks.fidelity [--check]
"""

import argparse
import asyncio
import random
import sys
from collections.abc import Iterator, Mapping
from statistics import mean
from typing import NamedTuple

from benchmarks.talk import talk
from wenmai.memory.library import open_memory

LENGTHS = (20, 50, 100, 300, 500)
LEAST_KNOWN_AFTER_100 = 0.6
MOST_TOKENS_AFTER_50 = 2_000
MOST_GROWTH_TO_500 = 1.1
LAST = 20
"""Turns over which the tokens are averaged, since long and short answers alternate."""

FACTS: Mapping[str, Mapping[str, str]] = {
    "zh": {
        "我叫沈知远，在一家设计院上班。": "沈知远",
        "我女儿今年七岁，名字叫小满。": "小满",
        "对了，我对花生过敏，点餐时千万别忘了。": "花生",
        "我们定在6月3日出发。": "6月3日",
        "预算控制在八千块以内吧。": "八千",
        "我的车牌是浙A8K216。": "8K216",
        "我不想坐红眼航班，太累了。": "红眼航班",
        "血型的话我是O型。": "O型",
        "房东姓钱，押金三千二。": "三千二",
        "会议改到周四上午十点了。": "周四",
        "那就决定选第二套方案，外墙用青砖。": "青砖",
        "我妈妈住在平江路，每个月去看她一次。": "平江路",
        "我养了一只橘猫，名字叫元宝。": "元宝",
        "我是左撇子。": "左撇子",
    },
    "en": {
        "I'm Priya Raman and I work as a nurse in Leeds.": "Priya Raman",
        "My son Theo turns nine on March 14.": "March 14",
        "By the way, I am allergic to shellfish, so please keep that in mind.": "shellfish",
        "We decided to leave for Lisbon on the 6th of October.": "Lisbon",
        "Our budget is 2,400 euros at most.": "2,400",
        "My booking code is QX7-318.": "QX7-318",
        "I don't want any overnight flights, they wear me out.": "overnight",
        "My blood type is O negative.": "O negative",
        "The landlord is Mr. Oyelaran; the deposit is 950 pounds.": "950",
        "The meeting moved to Thursday at ten.": "Thursday",
        "Let's go with the second option, the brick one.": "brick",
        "My mother lives in Bradford and I visit her every Sunday.": "Bradford",
        "I have a greyhound called Biscuit.": "Biscuit",
        "I can't stand coriander.": "coriander",
    },
}
_REMARKS = {
    "zh": (
        "今天天气真不错，出去走了一圈。",
        "我刚看完一部电影，结尾有点意外。",
        "最近总是睡得晚，白天没什么精神。",
        "昨天试着做了一道菜，味道还行。",
        "你说得有道理，我再想想。",
        "路上堵了好久，总算到家了。",
        "我觉得慢慢来也挺好的。",
        "周末可能会去逛逛公园。",
    ),
    "en": (
        "The weather was lovely, so I took a long walk.",
        "I just finished a film and the ending surprised me.",
        "I keep going to bed late and then I'm tired all day.",
        "I tried a new dish yesterday and it turned out fine.",
        "That makes sense, let me think about it.",
        "Traffic was terrible but I'm home at last.",
        "I think taking it slowly is fine.",
        "I might go to the park at the weekend.",
    ),
}


class Measured(NamedTuple):
    """A conversation of so many turns.

    Attributes:
        known: share of the facts that are in the context after the last turn.
        tokens: of memory in the context, the mean of the last turns.
        whole: tokens of all messages.
    """

    known: float
    tokens: int
    whole: int


def conversation(language: str, turns: int) -> Iterator[tuple[str, str]]:
    """Questions with their answers, about 160 tokens a turn; each of the first has a fact."""
    chance = random.Random(7)
    facts = list(FACTS[language])
    words = talk(seed=11)
    for number in range(turns):
        (question, answer), (_, more) = next(words), next(words)
        said = facts[number] if number < len(facts) else chance.choice(_REMARKS[language])
        yield f"{said} {question}", f"{answer} {more}"


async def measure(language: str, turns: int) -> Measured:
    """What a context holds at the end of such a conversation."""
    async with open_memory("memory://") as memory:
        session = await memory.session()
        whole, contexts = 0, []
        for number, (question, answer) in enumerate(conversation(language, turns)):
            messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
            whole += sum(message.tokens for message in await session.append(messages))
            if number % 10 == 0 or number >= turns - LAST:
                await memory.derived.catch_up()
            if number >= turns - LAST:
                contexts.append(await session.context("?"))
    last = contexts[-1]
    text = "\n".join([*(block.text for block in last.blocks), *(each["content"] for each in last.messages)])
    facts = FACTS[language].values()
    known = sum(words in text for words in facts) / len(facts)
    return Measured(known, round(mean(context.tokens for context in contexts)), whole)


def failures(measured: Mapping[tuple[str, int], Measured]) -> Iterator[str]:
    """The bars that do not hold, in words."""
    for language in FACTS:
        known = measured[language, 100].known
        if known < LEAST_KNOWN_AFTER_100:
            yield f"{language}: {known:.0%} of the facts are known after 100 turns, not {LEAST_KNOWN_AFTER_100:.0%}"
        after_50, after_500 = measured[language, 50].tokens, measured[language, 500].tokens
        if after_50 > MOST_TOKENS_AFTER_50:
            yield f"{language}: 50 turns take {after_50} tokens, not {MOST_TOKENS_AFTER_50}"
        if after_500 > MOST_GROWTH_TO_500 * after_50:
            yield f"{language}: 500 turns take {after_500} tokens, where 50 take {after_50}"


async def _measure_all() -> dict[tuple[str, int], Measured]:
    return {(language, turns): await measure(language, turns) for language in FACTS for turns in LENGTHS}


def main() -> int:
    """Measure and print; with ``--check`` judge."""
    parser = argparse.ArgumentParser(prog="benchmarks.fidelity", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bar does not hold")
    check = parser.parse_args().check
    measured = asyncio.run(_measure_all())
    print("| language | turns | facts known | tokens of memory | tokens of the conversation |\n|---|---|---|---|---|")
    for (language, turns), found in measured.items():
        print(f"| {language} | {turns} | {found.known:.0%} | {found.tokens:,} | {found.whole:,} |")
    broken = list(failures(measured)) if check else []
    for each in broken:
        print(f"check: {each}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
