"""Lexicon: the words by which questions and evidence are matched, general ones and those of a profile."""

import re
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import TypeVar

import msgspec

from wenmai.config.lexicon import LexiconWords
from wenmai.text.patterns import NEVER, any_of, any_word

EVENTS = {
    "rebuild": any_of(
        r"""
        重修 重建 再建 复建 重葺 修缮 翻修 大修 维修 修葺 整修 修复 恢复 \brebuil[dt]\w* \brestor\w+
        \brepair\w* \brenovat\w+ \breconstruct\w* \brefurbish\w*
        """
    ),
    "enlarge": any_of(r"扩建 增修 增建 加建 \benlarg\w+ \bextend\w* \bexpan[ds]\w* \badded\b"),
    "compile": any_of(
        r"""
        编修 编纂 编写 编印 撰写 \bcompil\w+ \bedited\b \bprinted\b
        """
    ),
    "order": any_of(
        r"""
        订立 制定 定下 立下 写定 订下 \bwr(?:ote|itten)\b \blaid_down\b \bset_down\b \bdrawn_up\b
        """
    ),
    "build": any_of(
        r"""
        始建 兴建 修建 建造 建成 落成 竣工 创建 建立 建于 修于 修筑 营建 开建 动工 创立 创办 设立 开办
        (?<![福封])建(?!议|康|文|炎|安|隆|宁|德|置) 修(?!养|身|行|辞|改|订|谱|书|过) 盖(?!章|头)
        造(?!就|诣|型|谣) 筑(?!物) 立于 \bbuil[dt](?:ing)?\b \bfound(?:ed|ing)\b \bconstruct\w*
        \berect\w* \bestablish\w* \bset_up\b \bcreated\b
        """
    ),
    "dig": any_of(
        r"""
        开凿 挖掘 开挖 凿(?!空) 挖 (?<=[谁时年月人])开的 \bdug\b \bdig\b \bdigging\b
        """
    ),
    "destroy": any_of(
        r"""
        毁 焚 烧 倒塌 坍塌 拆除 拆掉 冲垮 冲毁 冲走 火灾 失火 着火 \bdestroy\w* \bburn(?:ed|t|ing)?\b
        \bcollaps\w+ \bdemolish\w* \bfire\b \bswept_away\b
        """
    ),
    "flood": any_of(r"洪水 大水 水灾 发水 涨水 \bflood\w*"),
    "drought": any_of(r"大旱 旱灾 \bdroughts?\b"),
    "birth": any_of(
        r"""
        出生 诞生 诞辰 生于 降生 生辰 哪一?年生 何年生 时候生 (?<=年)生(?=$|[，。？于的]) \bborn\b
        \bbirth\b
        """
    ),
    "death": any_of(
        r"""
        去世 逝世 卒 病故 身故 亡故 过世 死于 死的 哪一?年死 终年 \bdied\b \bdeath\b \bdie\b
        \bpassed_away\b
        """
    ),
    "move": any_of(
        r"""
        迁居 迁到 迁来 迁入 迁徙 迁往 分迁 迁至 迁(?=$|[的于，。]) 搬到 搬来 搬迁 定居 移居 徙居
        从哪[里儿]来 哪[里儿]来的 来自 从[^，。]{1,8}来 \bmov(?:ed?|ing)\b \bmigrat\w+
        \bsettl(?:ed?|ing)\b \brelocat\w+ \bcame_(?:here|there|from|to)\b \bcome_(?:here|from)\b
        """
    ),
    "plant": any_of(r"栽 种下 种植 手植 \bplant(?:ed|ing)?\b"),
    "marry": any_of(r"娶 嫁 成婚 成亲 \bmarri(?:ed|age)\b"),
    "list": any_of(r"列为 公布 评为 列入 \blisted\b \bdesignated\b"),
    "hold": any_of(r"举行 举办 \bheld\b \bcelebrat\w+"),
}
"""Events of any field, by group of synonyms; matches of an earlier group are cut out before later ones are searched."""

_ONE_TIME_EVENTS = frozenset({"order", "build", "dig", "birth", "death", "list"})

_PERSONS = any_of(
    r"""
    村民 后人 子孙 工匠 乡绅 众人 先生 长老 村里人 全村 合力
    \b(?:villagers?|founder|craftsmen|masons?|elders?|families|settler)\b
    """
)
_LOCATIONS = any_of(
    r"""
    位于 坐落 地处 座落 背靠 面对 面临 [东西南北]侧 山脚 [溪河江]边 西北 东北 西南 东南 离县城
    在[^，。；]{1,12}[里边侧旁东西南北前后上下口] 从[^，。；]{1,12}(?:迁|来|引|流)
    \b(?:stands?|located|lies|situated|faces|north|south|east|west|beside|foot_of|in_front_of|near|at_the|from)\b
    """
)


class Lexicon(msgspec.Struct, frozen=True, eq=False, dict=True):
    """The words of a field, with their patterns; each is compiled once, by :func:`prepare` or on first use.

    It is compared by identity, so that it is a cheap key of a cache: make one for each profile.
    """

    words: LexiconWords = LexiconWords()

    @property
    def topics(self) -> list[str]:
        """Names and subjects of the evidence."""
        return self.words.topics

    @cached_property
    def events(self) -> Mapping[str, re.Pattern[str]]:
        """Patterns of the events of any field and of this one, in the order in which they are searched."""
        own = self.words.events
        return {name: _compile(any_word(own.get(name, ()), EVENTS.get(name, ""))) for name in EVENTS | own}

    @cached_property
    def one_time_events(self) -> frozenset[str]:
        """Events that happen once: two years for one conflict."""
        return _ONE_TIME_EVENTS.union(self.words.one_time_events)

    @cached_property
    def entities(self) -> re.Pattern[str]:
        """Entities of the field; the name of the matching group is the kind."""
        return _compile(
            "|".join(f"(?P<{kind}>{any_word(words)})" for kind, words in self.words.entities.items()) or NEVER
        )

    @cached_property
    def persons(self) -> re.Pattern[str]:
        """Persons without a name; they answer *who*."""
        return _compile(any_word(self.words.persons, _PERSONS))

    @cached_property
    def locations(self) -> re.Pattern[str]:
        """Words that give a location; they answer *where*."""
        return _compile(any_word(self.words.locations, _LOCATIONS))


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


EMPTY = Lexicon()
"""No words of a field."""

_Value = TypeVar("_Value")
_COMPUTED: list[Callable[[Lexicon], object]] = [attrgetter("events", "entities", "persons", "locations")]


def once_per_lexicon(function: Callable[[Lexicon], _Value]) -> Callable[[Lexicon], _Value]:
    """Decorator: the function's value is computed once for each lexicon, by :func:`prepare` or on first use."""
    cached = lru_cache(maxsize=16)(function)
    _COMPUTED.append(cached)
    return cached


def prepare(lexicon: Lexicon) -> None:
    """Compile all patterns of a lexicon, which takes tens of milliseconds."""
    for compute in _COMPUTED:
        compute(lexicon)
