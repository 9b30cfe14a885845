"""Claims of quantity: counted items, measures, ordinals, generations; Chinese and English."""

import re
from collections.abc import Iterator
from functools import lru_cache

from wenmai.grounding.claims.claim import Claim, ClaimKind
from wenmai.grounding.claims.numerals import (
    NUMERALS,
    Number,
    find_numbers,
    format_number,
    may_count,
    ordinal_number,
    whole_number,
)
from wenmai.grounding.lexicon import EMPTY, Lexicon, once_per_lexicon
from wenmai.text.patterns import any_of, any_word, word_list

ITEM = "个"
"""The unit of counted items; compatible with any other unit of the same number."""

_UNITS_ZH = {
    word: unit
    for unit, listed in {
        **{
            name: name
            for name in word_list(
                "亩 英亩 顷 公顷 平方米 平方公里 英里 英尺 英寸 丈 尺 寸 米 厘米 毫米 斤 克 毫克 吨 石 担 斗"
            )
        },
        **{name: name for name in word_list("层 升 毫升 银元 美元 进 级 度 倍 成 折 号 季度 刻钟 晚")},
        "公里": "公里 千米",
        "公斤": "公斤 千克",
        "岁": "岁 周岁",
        "小时": "小时 个小时 钟头 个钟头",
        "分钟": "分钟",
        "秒": "秒 秒钟",
        "周": "周 星期 个星期 礼拜 个礼拜",
        "字": "字 字符 个字符",
        "里": "里 里路",
        "元": "元 块钱",
        "块": "块",
        "欧元": "欧元 欧",
        "英镑": "英镑 镑",
        "克朗": "克朗",
        "两": "两银 两白银 两黄金",
        "文": "文钱 文",
        "年": "年 载 周年",
        "月": "个月",
        "日": "天 日 工作日 个工作日",
        "户": "户 户人家 家人家",
        "人": "人 口 丁 名 位 个人",
        "房": "房 支",
        "卷": "卷 册 本 部",
        "次": "次 回 遍 趟",
        ITEM: (
            "个 则 条 项 款 景 篇 章 座 处 间 栋 幢 所 口井 根 株 棵 幅 道 件 只 头 匹 孔 扇 "
            "对 组 队 桌 "
            "任 届 村 姓 县 "
            "台 辆 艘 架 枚 把 张 片 瓶 盒 箱 袋 包 份 颗 粒 门 首 封 笔 期 批 轮 圈 场 套 双 副 盏 排 行 列 段 节 "
            "集 例 股 滴 杯 碗 桶 罐 枝 顶 顿 步 站 家 班 格 档 页"
        ),
    }.items()
    for word in word_list(listed)
}
_CURRENCIES = {"£": "英镑", "€": "欧元", "$": "美元", "¥": "元"}
"""Units by the sign that stands before or after a number."""

_MONEY = frozenset({"块", "元", "美元", "银元"})
_ITEMS = frozenset({ITEM, "块", *word_list("层 进 级 户 人 房 卷 次")})
"""Units of things that are counted, not measured."""

MEASURES = frozenset(
    word_list(
        """
        亩 顷 公顷 平方米 平方公里 公里 里 丈 尺 寸 米 厘米 斤 公斤 吨 石 担 斗 元 银元 岁
        """
    )
)
_EXACT = frozenset(word_list("年 月 周 小时 分钟 秒 次 倍 日"))
"""Units that *one* counts with where a limit is meant."""

_LIMIT_BEFORE = re.compile(
    r"(?:[满仅限足逾达共约停罚]|超过|不到|不足|只有|[最至][多少长短高低迟早]|为期|提前|延长|质保|保修|连续|间隔)[了过]?$"
)
_LIMIT_AFTER = re.compile(r"[以之]?[内上下]|[以之]?后[才方可]|为限|期限")
_ONE_EN = frozenset(word_list("年 月 周 小时 分钟 秒 元 公里 米 公斤 英里"))
"""English units that *one* counts with; *one day* and *one time* are turns of phrase."""

_UNITS_EN = {
    word: unit
    for unit, listed in {
        "亩": "mu",
        "里": "li",
        "公里": "kilometre kilometer km",
        "米": "metre meter",
        "公顷": "hectare",
        "英亩": "acre",
        "英里": "mile",
        "英尺": "foot feet",
        "英寸": "inch",
        "元": "yuan",
        "两": "tael",
        "斤": "jin",
        "公斤": "kilogram kg",
        "吨": "ton tonne",
        "年": "year",
        "十年": "decade",
        "月": "month",
        "周": "week",
        "秒": "second",
        "毫米": "millimetre millimeter mm",
        "厘米": "centimetre centimeter cm",
        "克": "gram",
        "升": "litre liter",
        "英镑": "pound quid",
        "克朗": "crown krone krona kroner kronor",
        "TB": "tb terabyte",
        "GB": "gb gigabyte",
        "MB": "mb megabyte",
        "度": "degree",
        "毫升": "millilitre milliliter ml",
        "美元": "dollar",
        "欧元": "euro",
        "日": "day",
        "小时": "hour",
        "分钟": "minute",
        "户": "household family families",
        "人": "person people men villager inhabitant resident labourer",
        "层": "storey story stories floor",
        "进": "courtyard",
        "房": "branch branches",
        "卷": "volume scroll",
        "次": "time",
        "级": "step",
        "字": "word character",
    }.items()
    for word in word_list(listed)
}
_VAGUE_EN = frozenset(
    word_list(
        """
        point thing way reason source account question part version kind sort side word example aspect
        note bit other others
        """
    )
)
_PLURALS_EN = frozenset(word_list("children women sheep fish feet teeth"))
GENERATIONS = "代"
"""The unit of a question about generations."""

_ASKS_GENERATION = re.compile(r"(?i)(?:多少|几)[代世]|how many generations")
_EXPECTED_UNITS = {
    "多长时间|多久|how long (?:did|does|do|has|have|ago)|how old": "年 月 日 周 小时 分钟 岁",
    "多长|多高|多深|多宽|多远|how (?:long|tall|high|deep|wide|far)": "里 公里 米 厘米 丈 尺 寸 英里 英尺",
    "多大|how (?:big|large)": "亩 顷 公顷 平方米 平方公里 英亩 岁 进 里",
    "多重|how heavy": "斤 公斤 吨 石 担",
    "多少[钱银两]|[花费用][了去]?多少|how much .{0,30}(?:cost|paid?|money)": "元 银元 两 文",
}
_LINKS = frozenset(
    word_list(
        """
        of in and at on the by for from to is was were are with or as a an has had have but when until
        which that it per we you they he she if unless while then who not each every than so just only off
        """
    )
)
_IDIOMS = re.compile(
    any_of(
        """
        千万别 千万不 千万要 千万 万一 百姓 百家姓 百般 十分(?<![一二三四五六七八九]十分)(?![钟之])
        三思 一五一十 千家万户 千百年 百年树人
        十年树木 十全十美 三天两头 一日三餐 三餐 半夜三更 三更 四世同堂 五世同堂 三代同堂 四代同堂
        五代同堂 三三两两 七嘴八舌 七上八下 五湖四海 四面八方 四通八达 十里八乡 三五成群 两全其美
        三纲五常 四书五经 九牛一毛 千里迢迢 万里长城 千秋万代 一年四季 四季 四方 五谷 六畜 三言两语
        一举两得 接二连三 丢三落四 乱七八糟 一清二白 一清二楚 独一无二 两面三刀 三心二意 五花八门
        三百六十行 十有八九 百年大计 百年好合 两三句 三两句 两口子 一二三四 两点之间 七夕 八仙 二胡
        三月三 九月九 重九 三国 五行 八字 三字经 千字文 四合院 二十四节气 二十四史 二十四孝 十二生肖
        十二时辰 五代十国 两岸 四川 九江 三峡 三亚 万年青 百合 百岁 双十 一个人 零(?=[件食钱售星散碎工花用])
        """
    )
)
_MAX_QUOTED = 4
"""诚实二字, 风雨同舟四字: the length of the words just quoted."""

_VAGUE_ZH = re.compile(r"点(?!半|钟)|方面|句|种|样|层意|层含|码|个问题|个方面|个意思|个原因|个说法|个字(?!号)|分(?!钟)")
_GENERATION = re.compile(
    rf"(?P<ordinal>第)?(?P<number>[{NUMERALS}]{{1,4}}|\d{{1,3}})[多余来]?(?P<unit>世(?!界|纪|"
    rf"同堂|上|间)|代(?!同堂|价|码|人的心))"
)
_OF_GENERATIONS = re.compile("世|代|generation")
_GENERATION_EN = re.compile(
    r"(?i)\b(?P<number>\d{1,3}(?:st|nd|rd|th)|(?:twenty|thirty|forty)-[a-z]{5,7}|[a-z]{5,12})[ -]generation\b"
)
_LISTED_EN = "rule|article|chapter|volume|maxim|item|clause|son|daughter"
_ORDINAL_ZH = re.compile(rf"第(?P<number>[{NUMERALS}]{{1,3}}|\d{{1,3}})")
_LISTED = re.compile(
    rf"(?P<ci>[{NUMERALS}]{{1,2}})(?:曰|、(?=[^{NUMERALS}]))|其(?P<qi>[{NUMERALS}]{{1,2}})(?!他|"
    rf"它)|(?P<digit>(?:^|(?<=[\s；;。，,]))\d{{1,2}})[.、)）]"
)
_ITEM_ZH = re.compile(r"[条则款章项卷]")
_WHOLE = re.compile(rf"([{NUMERALS}]{{1,3}})点$")
"""The whole part of a decimal in Chinese, before its fraction: 一点四米."""

_MARKER = re.compile(
    r"(?m)^[ \t]{0,8}(?:\d{1,2}[.、)）:：](?!\d)|[(（]?[一二三四五六七八九十]{1,3}[)）、.])|"
    r"\[\d{1,3}\]|【\d{1,3}】|［\d{1,3}］"
)
_WEEKDAY = re.compile(rf"(?:周|星期|礼拜)[一二三四五六](?=[{NUMERALS}]{{1,3}}[点时])")
"""A weekday before an hour: 周五六点."""

_CLOCK = re.compile(
    rf"(?<![\d:])(?P<hour>\d{{1,2}})(?::|\.(?=\d\d ?[ap]\.?m\b))(?P<minute>\d{{2}})(?![\d:])|"
    rf"(?<=[午上晨晚])(?P<zh>[{NUMERALS}]{{1,3}}|\d{{1,2}}) ?[点时]"
    rf"(?P<half>半)?(?P<past>[{NUMERALS}]{{2,3}}分|\d{{2}}分)?|"
    rf"(?<![{NUMERALS}\d第这那下以有了共几])(?P<bare>[{NUMERALS}]{{1,3}}|\d{{1,2}})点"
    rf"(?:(?=[半整钟前后至到起开关以，。；,;])|(?P<after>[{NUMERALS}]{{2,3}})分)"
)
_OF_TIMES_AND_SHARES = frozenset("点时:.分%c")
"""Characters of which every time and every share has one: 3点, 3:30, 3.30 pm, 百分之三, 3 percent."""

_PERCENT = re.compile(
    rf"百分之(?P<zh>[{NUMERALS}]{{1,4}}|\d{{1,3}})|"
    rf"(?<![\d.])(?P<digits>\d{{1,3}}(?:\.\d{{1,3}})?) ?(?:%|percent\b|per cent\b)"
)


def find_counts(text: str, lexicon: Lexicon) -> Iterator[Claim]:
    """Claims of quantity in a text with folded width; they may overlap with claims of time."""
    plain = masked(text)
    yield from _generations(plain)
    yield from _clock_and_percent(plain)
    for number in find_numbers(plain):
        claim = _ordinal(plain, number, lexicon) if _is_ordinal(plain, number) else _count(plain, number, lexicon)
        if claim:
            yield claim


def ordinals(text: str) -> set[int]:
    """The list positions that a text names: 第一条, 一曰, 其二, ``1.``, ``third``."""
    found = {whole_number(match["number"]) for match in _ORDINAL_ZH.finditer(text)}
    for match in _LISTED.finditer(text):
        found.add(whole_number(match["ci"] or match["qi"] or match["digit"]))
    found |= {int(number.value) for number in find_numbers(text) if number.ordinal and number.value}
    return {number for number in found if number}


def same_unit(unit: str, other: str) -> bool:
    """Whether an amount with one unit may be said with another: items have many measure words, 块 is money too."""
    both = {unit, other}
    return unit == other or "" in both or both <= _MONEY or (ITEM in both and both <= _ITEMS)


def expected_units(question: str, lexicon: Lexicon = EMPTY) -> frozenset[str]:
    """The units expected by a question of quantity: 亩 for 多少亩, lengths for ``how tall``; empty: all."""
    if _ASKS_GENERATION.search(question):
        return frozenset({GENERATIONS})
    for pattern, units in _EXPECTED_UNITS.items():
        if re.search(pattern, question, re.IGNORECASE):
            return frozenset(units.split())
    match = re.search(r"(?:多少|几)(.{1,3})", question)
    if match and (unit := _after_zh(lexicon).match(match[1])):
        return frozenset({_UNITS_ZH.get(unit["unit"], ITEM)})
    match = re.search(r"(?i)how many ((?:[a-z-]{1,20} ){0,2}[a-z-]{1,20})", question)
    return frozenset({_unit_en(match[1])}) if match else frozenset()


@once_per_lexicon
def _after_zh(lexicon: Lexicon) -> re.Pattern[str]:
    """A unit after a Chinese number."""
    units = sorted({*_UNITS_ZH, *lexicon.words.measure_words}, key=lambda unit: (-len(unit), unit))
    return re.compile(rf"(?P<vague>[多余来几])? ?(?P<unit>{'|'.join(units)})(?![里][面边]|月份|级别)")


@once_per_lexicon
def _ordinal_noun(lexicon: Lexicon) -> re.Pattern[str]:
    return re.compile(rf"(?i)^[ -](?:clan |family )?(?:{any_word(lexicon.words.list_items, _LISTED_EN)})\b")


def masked(text: str) -> str:
    """The text with idioms, list markers and citation marks blanked out; offsets are unchanged."""
    return _masked(text) if may_count(text) else text


@lru_cache(maxsize=256)
def _masked(text: str) -> str:
    for pattern in (_MARKER, _IDIOMS, _WEEKDAY):
        text = pattern.sub(lambda match: "\x00" * len(match[0]), text)
    return text


def _make(kind: ClaimKind, text: str, start: int, end: int, value: str) -> Claim:
    return Claim(kind=kind, text=text[start:end], value=value, start=start, end=end)


def _is_ordinal(text: str, number: Number) -> bool:
    return number.ordinal or text[number.start - 1 : number.start] == "第"


def _ordinal(text: str, number: Number, lexicon: Lexicon) -> Claim | None:
    """A list position from the second on; the first, and an ordinal without a list, is a turn of phrase."""
    if not number.value or number.value <= 1:
        return None
    after = text[number.end : number.end + 24]
    if number.ordinal:
        noun = _ordinal_noun(lexicon).match(after)
        return (
            _make(ClaimKind.NUMBER, text, number.start, number.end + noun.end(), f"#{format_number(number.value)}")
            if noun
            else None
        )
    if not _ITEM_ZH.match(after):
        return None
    return _make(ClaimKind.NUMBER, text, number.start - 1, number.end + 1, f"#{format_number(number.value)}")


def _count(text: str, number: Number, lexicon: Lexicon) -> Claim | None:
    if number.value is None:
        return None
    sign = text[number.start - 1 : number.start], text[number.end :].lstrip()[:1]
    currency = _CURRENCIES.get(sign[0]) or _CURRENCIES.get(sign[1])
    if currency:
        return _make(ClaimKind.NUMBER, text, number.start, number.end, f"{format_number(number.value)} {currency}")
    if number.chinese or not text[number.end : number.end + 1].isascii():
        return _count_zh(text, number, lexicon)
    return _count_en(text, number)


def _count_zh(text: str, number: Number, lexicon: Lexicon) -> Claim | None:
    after = text[number.end : number.end + 6]
    value = number.value or 0
    alone = number.text.strip("百千万亿") == ""
    quoted = after[:1] == "字" and value <= _MAX_QUOTED
    whole = _WHOLE.search(text, max(0, number.start - 4), number.start)
    if whole and len(number.text) == 1:
        value = float(f"{whole_number(whole[1])}.{value:g}")
    if alone or quoted or _VAGUE_ZH.match(after):
        return None
    unit = _after_zh(lexicon).match(after)
    if not unit:
        structured = len(number.text) > 1 and any(place in number.text for place in "十百千万廿卅")
        is_count = structured or (not number.chinese and not text[number.start - 1 : number.start].isalpha())
        return _make(ClaimKind.NUMBER, text, number.start, number.end, format_number(value)) if is_count else None
    name = _UNITS_ZH.get(unit["unit"], ITEM)
    end = number.end + unit.end()
    if value == 1 and number.chinese and name not in MEASURES and not _is_limit(text, number.start, end, name):
        return None
    return _make(ClaimKind.NUMBER, text, number.start, end, f"{format_number(value)} {name}")


def _is_limit(text: str, start: int, end: int, unit: str) -> bool:
    """Whether *one* is meant as a number: 满一年, 一小时内."""
    before, after = text[max(0, start - 4) : start], text[end : end + 3]
    return unit in _EXACT and (_LIMIT_BEFORE.search(before) is not None or _LIMIT_AFTER.match(after) is not None)


def _count_en(text: str, number: Number) -> Claim | None:
    if number.text[0].isdigit() and text[number.start - 1 : number.start].isalpha():
        return None
    after = re.match(r"(?:[ -][A-Za-z'-]{1,20}){0,3}", text[number.end : number.end + 66])
    words = after[0].strip() if after else ""
    first = words.replace("-", " ").split(" ")[0].lower()
    spelled_out = not number.text[0].isdigit()
    if number.value == 1 and (not words or (spelled_out and _unit_en(words) not in _ONE_EN)):
        return None
    if spelled_out and (
        not words or first in {"of", "or", "and", "more"} or first.rstrip("s") in _VAGUE_EN or first in _VAGUE_EN
    ):
        return None
    unit = _unit_en(words)
    if _is_year(text, number, unit):
        return None
    end = number.end + (len(words.split(" ")[0]) + 1 if unit else 0)
    return _make(ClaimKind.NUMBER, text, number.start, end, f"{format_number(number.value or 0)} {unit}".strip())


def _is_year(text: str, number: Number, unit: str) -> bool:
    """Four digits without a separator are a year, unless a known unit follows and no preposition precedes."""
    if not re.fullmatch(r"1\d{3}|20\d{2}", number.text):
        return False
    return (
        unit in {"", ITEM}
        or re.search(r"(?i)\b(?:in|since|by|until|from|to|of) $", text[: number.start][-6:]) is not None
    )


def _unit_en(words: str) -> str:
    """The unit among the first three words after a number, else an item if one of them is a plural."""
    candidates = words.lower().replace("-", " ").split()
    if not candidates or candidates[0] in _LINKS:
        return ""
    for word in candidates[:3]:
        for form in (word, word.removesuffix("s"), word.removesuffix("es")):
            if form in _UNITS_EN:
                return _UNITS_EN[form]
        if word in _LINKS:
            break
        if word.endswith("s") or word in _PLURALS_EN:
            return ITEM
    return ""


def _generations(text: str) -> Iterator[Claim]:
    if not _OF_GENERATIONS.search(text.lower()):
        return
    for match in _GENERATION.finditer(text):
        number = whole_number(match["number"])
        follower = text[match.end() : match.end() + 1]
        named = match["ordinal"] or (follower and follower in "祖孙")
        if number and (number > 1 or named):
            yield _make(ClaimKind.GENERATION, text, match.start(), match.end(), str(number))
    for match in _GENERATION_EN.finditer(text):
        number = ordinal_number(match["number"])
        if number:
            yield _make(ClaimKind.GENERATION, text, match.start(), match.end(), str(number))
    for match in re.finditer(r"(?i)\b(?P<number>\d{1,3}|[a-z]{3,9}(?:-[a-z]{3,6})?) generations\b", text):
        counted = next(find_numbers(match["number"]), None)
        if counted and counted.value:
            yield _make(ClaimKind.GENERATION, text, match.start(), match.end(), format_number(counted.value))


def _clock_and_percent(text: str) -> Iterator[Claim]:
    if _OF_TIMES_AND_SHARES.isdisjoint(text):
        return
    for match in _CLOCK.finditer(text):
        spoken = match["zh"] or match["bare"]
        hour = int(match["hour"]) if match["hour"] else whole_number(spoken)
        if hour is not None:
            past = (match["past"] or match["after"] or "").removesuffix("分")
            minute = int(match["minute"]) if match["minute"] else whole_number(past) or 0
            if match["half"] or text[match.end() : match.end() + 1] == "半":
                minute = 30
            yield _make(ClaimKind.NUMBER, text, match.start(), match.end(), f"{hour:02}:{minute:02}")
    for match in _PERCENT.finditer(text):
        value = match["digits"] or whole_number(match["zh"])
        yield _make(ClaimKind.NUMBER, text, match.start(), match.end(), f"{value} %")
