"""Claims of time: days, years, centuries, reigns, dynasties, festivals; Chinese and English."""

import re
from collections.abc import Iterator

from wenmai.grounding.claims.claim import Claim, ClaimKind
from wenmai.grounding.claims.eras import DYNASTIES_EN, REIGNS, ROMANISED, year_of_reign
from wenmai.grounding.claims.numerals import NUMERALS, ordinal_number, whole_number
from wenmai.text.cjk import has_latin
from wenmai.text.patterns import any_of, pairs, word_list

_YEAR_LENGTH = 4
_WRITTEN = range(1000, 2101)
"""Four digits in this range are a year even without a word for it."""

_MONTHS_OF_YEAR = 12
_DAYS_OF_MONTH = 31

_C = rf"(?:[{NUMERALS}]{{1,4}}|\d{{1,3}})"
_DYNASTY = "北宋|南宋|五代|民国|[夏商周秦汉晋隋唐宋元明清]"
_REIGN = "|".join(sorted(REIGNS, key=lambda name: (-len(name), name)))
# Reign names that are also everyday words; they need a word of time beside them.
_EVERYDAY = any_of(
    """
    正统 建中 大中 大和 元和 大观 中和 光启 长庆 至大 至元 大德 绍兴 嘉定 宝应 永徽 隆兴 宝庆 绍定 明道
    中统 政和 宣和 致和 重和 开成
    """
)
_MONTHS = word_list(
    """
    January February March April May June July August September October November December
    """
)
_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|"
    r"Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b\.?"
)
_ORDINAL_EN = r"(?:\d{1,2}(?:st|nd|rd|th)|(?:twenty|thirty|forty|fifty|sixty)-[a-z]{5,7}|[a-z]{5,12})"
_ROMAN = "|".join(name.capitalize() for name in ROMANISED)
_DYNASTY_EN = "|".join(name.title() for name in sorted(DYNASTIES_EN, key=lambda name: (-len(name), name)))

FESTIVALS = pairs(
    """
    元宵=01-15 上元节=01-15 清明= 端午=05-05 七夕=07-07 中元=07-15 中秋=08-15 重阳=09-09 冬至= 除夕=
    春节=01-01 立春= 谷雨= 立夏= 夏至= 立秋= 秋分= 春分= 立冬= 大寒= 惊蛰= 芒种= 霜降=
    """
)
"""Festivals and solar terms, with the lunar day where it is fixed."""

FESTIVALS_EN = pairs(
    """
    lantern_festival=元宵 qingming=清明 tomb-sweeping=清明 tomb_sweeping=清明 dragon_boat=端午
    mid-autumn=中秋 double_ninth=重阳 winter_solstice=冬至 spring_festival=春节 lunar_new_year=春节
    chinese_new_year=春节 ghost_festival=中元 summer_solstice=夏至
    """
)
"""English names of festivals."""

_REIGN_YEAR = re.compile(
    rf"(?P<dynasty>{_DYNASTY})?[朝代]?[·・]?(?P<reign>{_REIGN})(?:皇帝|帝)?(?P<number>元|{_C})(?:年|载)"
)
_REIGN_ALONE = re.compile(
    rf"(?P<dynasty>{_DYNASTY})?[朝代]?(?P<reign>(?!民国|景泰蓝|(?:{_EVERYDAY})(?!年|初|末|中|帝|"
    rf"皇帝|间|朝))(?:{_REIGN}))(?!大典)"
)
_YEAR = re.compile(
    r"(?P<era>公元前|公元|西元前|西元|(?i:\bA\.?D\.? ?)|"
    r")(?<![\d])(?<!\d[,.])(?P<number>\d{1,4})(?![\d])(?!,\d{3})(?!\.\d)"
    r"(?P<after> ?年代|(?<=0)s\b| ?年(?!前|后|间|来|之久|历史|以|级|岁)| ?(?:BCE?|B\.C\.|CE|AD)\b|)"
)
_YEAR_DIGITS = re.compile(
    rf"(?<![{NUMERALS}])(?P<number>[一二三四五六七八九][一二三四五六七八九〇零]{{3}})(?![{NUMERALS}])(?P<after>年代|"
    rf"年|)"
)
_CENTURY = re.compile(rf"(?P<number>{_C})世纪(?P<decade>[{NUMERALS}]{{1,2}}|\d{{2}})?(?P<after>年代)?")
_CENTURY_EN = re.compile(rf"(?i)\b(?P<number>{_ORDINAL_EN})[ -]century\b")
_DECADE = re.compile(r"(?<![世纪\d])(?P<number>[二三四五六七八九]十|[2-9]0)年代")
_CYCLE = re.compile(r"(?P<name>[甲乙丙丁戊己庚辛壬癸][子丑寅卯辰巳午未申酉戌亥])(?=之?年|岁|科|春|夏|秋|冬|仲|孟|季)")
_DAY = re.compile(
    rf"(?:农历|阴历|夏历|旧历|阳历|公历)?闰?(?P<month>正|冬|腊|[{NUMERALS}]{{1,2}}|\d{{1,2}}) "
    rf"?月(?!饼|亮|牙|桂)"
    rf"(?: ?(?P<day>初[一二三四五六七八九十]|[{NUMERALS}]{{1,3}}(?=[日号]|$|"
    rf"[^{NUMERALS}年月世代户亩人里])|\d{{1,2}}(?= ?[日号])))? ?[日号]?"
)
_DAY_ALONE = re.compile(r"(?<!月)初[一二三四五六七八九十](?!中|高|年级|[月次步衷])")
_DAY_EN = re.compile(
    rf"\b(?P<month>{_MONTH}) (?:the )?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?!,?\d)"
    rf"|\b(?P<day2>\d{{1,2}})(?:st|nd|rd|th)? (?:of )?(?P<month2>{_MONTH})"
    rf"|\b(?i:in|of|by|since|until|every|each|early|late|mid|last|from|to|and)[ "
    rf"-](?P<month3>{_MONTH})(?! \d{{1,2}}\b)"
    rf"|\b(?P<month4>{_MONTH})(?=,? \d{{4}}\b)"
    r"|\b(?P<month5>January|February|April|June|July|August|September|October|November|December)\b"
)
_ISO = re.compile(r"(?<!\d)(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})(?!\d)")
_LUNAR_EN = re.compile(rf"(?i)\b(?P<day>{_ORDINAL_EN}) (?:day )?of the (?P<month>{_ORDINAL_EN}) (?:lunar )?month\b")
_FESTIVAL = re.compile("|".join((*FESTIVALS, *(f"(?i:{name})" for name in FESTIVALS_EN))))
_DYNASTY_ZH = re.compile(
    r"(?P<pair>唐宋|宋元|元明|明清)(?=[时两之以年古建民二风,，。、]|$)"
    r"|(?<![年月周岁春夏秋冬季开起当])"
    r"(?P<one>北宋|南宋|民国|五代(?=时|十国|末|之际)|周(?=代|朝)|[夏商秦汉晋隋唐宋元明清](?=代|朝|"
    r"末[年期叶，。时]?|中叶|中期|晚期|早期|前期|后期|时期|廷)"
    r"|[唐宋元明清](?=初))(?!清楚|白)[代朝]?"
)
_DYNASTY_ENGLISH = re.compile(
    rf"\b(?:(?P<one>{_DYNASTY_EN})(?=[ -](?i:dynast\w+|era|period|times|court|emperors?|rule|reign)\b)"
    rf"|(?i:late|early|mid)[ -](?P<two>{_DYNASTY_EN})\b"
    r"|(?P<republic>Republic of China|Republican (?:era|period|times)))"
)
_REIGN_EN = re.compile(
    rf"(?:(?i:(?P<ordinal>{_ORDINAL_EN}) year (?:of|in) (?:the )?(?:reign of )?(?:the )?)|"
    rf"(?i:year (?P<year>\d{{1,2}}) of (?:the )?))?"
    rf"\b(?P<reign>{_ROMAN})\b(?: (?P<number>\d{{1,2}})\b)?"
)


def find_times(text: str) -> Iterator[Claim]:
    """Claims of time in a text with folded width; they may overlap."""
    lowered = text.lower()
    for trigger, finder in _FINDERS:
        if trigger.search(lowered):
            yield from finder(text)


def _claim(kind: ClaimKind, match: re.Match[str], value: str, group: str | int = 0) -> Claim:
    return Claim(kind=kind, text=match[group], value=value, start=match.start(group), end=match.end(group))


def year_value(year: int) -> str:
    """A western year as the value of a claim; BCE years are negative."""
    return str(year)


def _reign_years(text: str) -> Iterator[Claim]:
    for match in _REIGN_YEAR.finditer(text):
        number = whole_number(match["number"])
        if number is None:
            continue
        year = year_of_reign(match["reign"], number)
        kind, value = (ClaimKind.YEAR, year_value(year)) if year else (ClaimKind.REIGN, f"{match['reign']}{number}")
        start = match.start("reign")
        yield Claim(kind=kind, text=text[start : match.end()], value=value, start=start, end=match.end())
        if match["dynasty"]:
            yield _claim(ClaimKind.DYNASTY, match, match["dynasty"], "dynasty")


def _reigns(text: str) -> Iterator[Claim]:
    for match in _REIGN_ALONE.finditer(text):
        yield _claim(ClaimKind.REIGN, match, match["reign"], "reign")
        if match["dynasty"]:
            yield _claim(ClaimKind.DYNASTY, match, match["dynasty"], "dynasty")
    for match in _CYCLE.finditer(text):
        yield _claim(ClaimKind.YEAR, match, match["name"])


def _years(text: str) -> Iterator[Claim]:
    for match in _YEAR.finditer(text):
        era, after, digits = match["era"].strip(), match["after"].strip(), match["number"]
        year = int(digits)
        if era.endswith("前") or after.startswith("B"):
            yield _claim(ClaimKind.YEAR, match, year_value(-year))
        elif after in {"年代", "s"}:
            if len(digits) == _YEAR_LENGTH:
                yield _claim(ClaimKind.YEAR, match, f"{year // 10 * 10}s")
        elif era or after in {"CE", "AD"} or (len(digits) == _YEAR_LENGTH and (after or year in _WRITTEN)):
            yield _claim(ClaimKind.YEAR, match, year_value(year))
    for match in _YEAR_DIGITS.finditer(text):
        year = whole_number(match["number"]) or 0
        if match["after"] == "年代":
            yield _claim(ClaimKind.YEAR, match, f"{year // 10 * 10}s")
        elif match["after"] or year in _WRITTEN:
            yield _claim(ClaimKind.YEAR, match, year_value(year))


def _centuries(text: str) -> Iterator[Claim]:
    for match in _CENTURY.finditer(text):
        number = whole_number(match["number"])
        decade = whole_number(match["decade"]) if match["decade"] and match["after"] else None
        if number is not None:
            value = f"{number}c" if decade is None else f"{(number - 1) * 100 + decade}s"
            yield _claim(ClaimKind.YEAR, match, value)
    for match in _CENTURY_EN.finditer(text):
        number = ordinal_number(match["number"])
        if number:
            yield _claim(ClaimKind.YEAR, match, f"{number}c")
    for match in _DECADE.finditer(text):
        yield _claim(ClaimKind.YEAR, match, f"{whole_number(match['number'])}s")


def _days(text: str) -> Iterator[Claim]:
    named = {"正": 1, "冬": 11, "腊": 12}
    for match in _DAY.finditer(text):
        month = named.get(match["month"]) or whole_number(match["month"])
        day = whole_number((match["day"] or "").removeprefix("初") or "〇")
        if month and month <= _MONTHS_OF_YEAR and day is not None and day <= _DAYS_OF_MONTH:
            yield _claim(ClaimKind.DATE, match, f"{month:02}-{day:02}" if day else f"{month:02}")
    for match in _DAY_ALONE.finditer(text):
        yield _claim(ClaimKind.DATE, match, f"d{whole_number(match[0][1:]):02}")
    for match in _FESTIVAL.finditer(text):
        name = FESTIVALS_EN.get(match[0].lower(), match[0])
        yield _claim(ClaimKind.DATE, match, FESTIVALS[name] or name)


def _iso_days(text: str) -> Iterator[Claim]:
    for match in _ISO.finditer(text if has_latin(text) else ""):
        yield _claim(ClaimKind.YEAR, match, year_value(int(match["year"])), "year")
        start = match.start("month")
        value = f"{int(match['month']):02}-{int(match['day']):02}"
        yield Claim(kind=ClaimKind.DATE, text=text[start : match.end()], value=value, start=start, end=match.end())


def _days_en(text: str) -> Iterator[Claim]:
    for match in _DAY_EN.finditer(text):
        group = next(name for name in ("month", "month2", "month3", "month4", "month5") if match[name])
        month = next(index for index, name in enumerate(_MONTHS, 1) if name[:3] == match[group].rstrip(".")[:3])
        day = match["day"] or match["day2"]
        alone = group in {"month3", "month4", "month5"}
        value = f"{month:02}-{int(day):02}" if day else f"{month:02}"
        yield _claim(ClaimKind.DATE, match, value, group if alone else 0)
    for match in _LUNAR_EN.finditer(text):
        lunar, day_number = ordinal_number(match["month"]), ordinal_number(match["day"])
        if lunar and day_number:
            yield _claim(ClaimKind.DATE, match, f"{lunar:02}-{day_number:02}")


def _dynasties(text: str) -> Iterator[Claim]:
    for match in _DYNASTY_ZH.finditer(text):
        if match["pair"]:
            for offset, char in enumerate(match["pair"], match.start()):
                yield Claim(kind=ClaimKind.DYNASTY, text=char, value=char, start=offset, end=offset + 1)
        else:
            yield _claim(ClaimKind.DYNASTY, match, match["one"])
    for match in _DYNASTY_ENGLISH.finditer(text):
        name = match["one"] or match["two"]
        yield _claim(ClaimKind.DYNASTY, match, DYNASTIES_EN[name.lower()] if name else "民国")


def _english_reigns(text: str) -> Iterator[Claim]:
    for match in _REIGN_EN.finditer(text):
        reign = ROMANISED[match["reign"].lower()]
        counted = match["year"] or match["number"]
        number = ordinal_number(match["ordinal"]) if match["ordinal"] else int(counted) if counted else None
        year = year_of_reign(reign, number) if number else None
        if year:
            yield _claim(ClaimKind.YEAR, match, year_value(year))
        else:
            yield _claim(ClaimKind.REIGN, match, f"{reign}{number or ''}", 0 if number else "reign")


_FINDERS = [
    (re.compile(trigger), finder)
    for trigger, finder in (
        ("年|载", _reign_years),
        ("|".join((*REIGNS, *"甲乙丙丁戊己庚辛壬癸")), _reigns),
        (r"[\d一二三四五六七八九]", _years),
        ("世纪|年代|century", _centuries),
        ("|".join(("月", "初", *FESTIVALS, *FESTIVALS_EN)), _days),
        (
            "|".join(("北宋", "南宋", "五代", "民国", *"夏商周秦汉晋隋唐宋元明清", *DYNASTIES_EN, "republic")),
            _dynasties,
        ),
        (r"\d{4}[-/.]\d", _iso_days),
        ("|".join(("month", *(name[:3].lower() for name in _MONTHS))), _days_en),
        ("|".join(ROMANISED), _english_reigns),
    )
]
"""What finds claims, with words of which each of them has one, in lower case: a search for these is much faster."""
