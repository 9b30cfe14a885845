"""Times that a text names, in Chinese and English, as spans of days.

A relative expression (昨天, 上周五, *two weeks ago*, *last Friday*) counts from the day on which the text was written.
A date without a year recurs each year. 第一次, 最近一次, *the first time* and *the last time* name no day, but the
earliest or the latest of what was said.
"""

import re
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import Literal, NamedTuple

DAY = timedelta(days=1)
WEEK = timedelta(days=7)
MONTHS_OF_YEAR = 12
MAX_READ = 2_000
"""Characters of a text that are read."""

_MAX_COUNT = 1_000
_LATEST_YEAR = 2_200


class DaySpan(NamedTuple):
    """The days from ``first`` to ``last``, both included; ``yearly`` if the year was not given."""

    first: date
    last: date
    yearly: bool = False

    @property
    def days(self) -> int:
        """The number of days."""
        return (self.last - self.first).days + 1

    def distance(self, day: date) -> int:
        """Days between the day and the span, 0 within it."""
        spans = [self]
        if self.yearly:
            spans = [_in_year(self, year) for year in (day.year - 1, day.year, day.year + 1)]
        return min(max((span.first - day).days, (day - span.last).days, 0) for span in spans)

    def near(self, day: date) -> "DaySpan":
        """The span itself, or the one of the year in which it is nearest to the day."""
        if not self.yearly:
            return self
        return min((_in_year(self, day.year + step) for step in (0, -1, 1)), key=lambda span: span.distance(day))


End = Literal["first", "last"]

_FIRST = re.compile(
    r"第一[次回]|头一[次回]|首次|最早|最初|最开始"
    r"|\b(?:first time|earliest)\b|\bwhen (?:did|was|were|had) (?:\S+ ){1,4}first\b"
)
_LAST = re.compile(
    r"最近[一这]?[次回]|上一?[次回]|最后[一这]?[次回]|最新"
    r"|\b(?:last time|most recent(?:ly)?|latest|newest)\b"
    r"|\bwhen (?:did|was|were|had) (?:\S+ ){1,4}last\b"
    r"(?! (?:week|month|year|night|spring|summer|autumn|fall|winter|\w+day))"
)


def asked_end(question: str) -> End | None:
    """Whether a question asks for the earliest or for the latest of several times; None for neither, or both."""
    text = question[:MAX_READ].lower()
    first, last = _FIRST.search(text) is not None, _LAST.search(text) is not None
    if first == last:
        return None
    return "first" if first else "last"


def find_spans(text: str, written: date) -> list[DaySpan]:
    """The spans that the text names, each once, without those that contain another, such as the month of a day."""
    text = text[:MAX_READ].lower()
    if not _HINT.search(text):
        return []
    found: dict[DaySpan, None] = {}
    for pattern, resolve in _RULES:
        for match in pattern.finditer(text):
            span = _checked(resolve, match, written)
            if span is not None:
                found[span] = None
    return [span for span in found if not any(_is_part(other, span) for other in found)]


def _is_part(part: DaySpan, span: DaySpan) -> bool:
    return part.days < span.days and span.first <= part.first and part.last <= span.last


def _checked(resolve: "_Resolve", match: re.Match[str], written: date) -> DaySpan | None:
    try:
        return resolve(match, written)
    except (ValueError, OverflowError):  # the 31st of June, the year 0
        return None


def _in_year(span: DaySpan, year: int) -> DaySpan:
    year = min(max(year, date.min.year + 1), date.max.year - 1)
    return DaySpan(_replaced(span.first, year), _replaced(span.last, year))


def _replaced(day: date, year: int) -> date:
    return day.replace(year=year, day=28) if (day.month, day.day) == (2, 29) else day.replace(year=year)


_Resolve = Callable[[re.Match[str], date], DaySpan | None]

_HINT = re.compile(
    r"[年月天日晚早儿周末]|星期|礼拜|day|night|morning|evening|week|month|year|ago|spring|summer|autumn|fall|winter"
    r"|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|\d{4}"
)
"""Every expression has one of these."""

_ONE_TO_TEN = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBER_WORDS = {
    **{word: number for number, word in enumerate(_ONE_TO_TEN, 1)},
    **dict.fromkeys(("a", "an", "一"), 1),
    **dict.fromkeys(("couple of", "a couple of", "两", "俩"), 2),
    **dict.fromkeys(("few", "a few", "several", "几"), 3),
    **{word: number for number, word in enumerate("二三四五六七八九十", 2)},
}
_COUNT = r"(?P<n>\d{1,3}|a couple of|couple of|a few|few|several|an?|one|two|three|four|five|six|seven|eight|nine|ten)"
_COUNT_ZH = r"(?P<n>\d{1,3}|[一二两三四五六七八九十]{1,3}|几)"
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAY = r"(?P<weekday>mon|tues|wednes|thurs|fri|satur|sun)day"
_WEEKDAYS_ZH = "一二三四五六日"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_SEASONS = {"spring": 3, "春": 3, "summer": 6, "夏": 6, "autumn": 9, "fall": 9, "秋": 9, "winter": 12, "冬": 12}
_DAY_NUMBER = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_DAY_NUMBER_ZH = r"(?P<day>\d{1,2}|[一二三四五六七八九十]{1,3}) ?[日号]"
_MONTH_ZH = r"(?P<month>\d{1,2}|[一二三四五六七八九十]{1,2}) ?月(?!饼|亮|底薪|薪)"
_YEAR = r"(?P<year>(?:19|20|21)\d\d)"


def _number(text: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    if text in _NUMBER_WORDS:
        return _NUMBER_WORDS[text]
    tens, _, ones = text.partition("十")
    if "十" not in text:
        raise ValueError(text)
    return 10 * (_NUMBER_WORDS[tens] if tens else 1) + (_NUMBER_WORDS[ones] if ones else 0)


def _day_at(offset: int) -> _Resolve:
    def resolve(_: re.Match[str], written: date) -> DaySpan:
        return DaySpan(written + offset * DAY, written + offset * DAY)

    return resolve


def _month_of(year: int, month: int, *, yearly: bool = False) -> DaySpan:
    first = date(year, month, 1)
    after = date(year + month // MONTHS_OF_YEAR, month % MONTHS_OF_YEAR + 1, 1)
    return DaySpan(first, after - DAY, yearly)


def _month_at(written: date, offset: int) -> DaySpan:
    months = written.year * MONTHS_OF_YEAR + written.month - 1 + offset
    return _month_of(months // MONTHS_OF_YEAR, months % MONTHS_OF_YEAR + 1)


def _year_at(year: int) -> DaySpan:
    return DaySpan(date(year, 1, 1), date(year, 12, 31))


def _week_at(written: date, offset: int, *, weekend: bool = False) -> DaySpan:
    monday = written - written.weekday() * DAY + offset * WEEK
    return DaySpan(monday + 5 * DAY, monday + 6 * DAY) if weekend else DaySpan(monday, monday + 6 * DAY)


def _ago(match: re.Match[str], written: date) -> DaySpan:
    """*Three weeks ago*: as exact as its unit."""
    count, unit = _number(match["n"]), match["unit"]
    if unit.startswith(("day", "天")):
        return DaySpan(written - count * DAY, written - count * DAY)
    if unit.startswith(("week", "周", "星期", "礼拜")):
        middle = written - count * WEEK
        return DaySpan(middle - 3 * DAY, middle + 3 * DAY)
    if unit.startswith(("month", "月")):
        return _month_at(written, -count)
    return _year_at(written.year - count)


_STEPS = {"last": -1, "previous": -1, "past": -1, "上": -1, "next": 1, "coming": 1, "下": 1}


def _period(match: re.Match[str], written: date) -> DaySpan:
    """*Last week*, *this weekend*, 上个月, 今年."""
    step, unit = _STEPS.get(match["which"].removeprefix("this "), 0), match["unit"]
    if unit.startswith(("weekend", "周末")):
        return _week_at(written, step, weekend=True)
    if unit.startswith(("week", "周", "星期", "礼拜")):
        return _week_at(written, step)
    if unit.startswith(("month", "月")):
        return _month_at(written, step)
    return _year_at(written.year + step)


def _last_weekday(match: re.Match[str], written: date) -> DaySpan:
    """*Last Friday*: the latest one before; *next Friday*: the first one after."""
    wanted = next(at for at, name in enumerate(_WEEKDAYS) if name.startswith(match["weekday"]))
    if _STEPS.get(match["which"].removeprefix("this "), -1) < 0:
        day = written - ((written.weekday() - wanted - 1) % 7 + 1) * DAY
    else:
        day = written + ((wanted - written.weekday() - 1) % 7 + 1) * DAY
    return DaySpan(day, day)


def _weekday_zh(match: re.Match[str], written: date) -> DaySpan:
    """上周五: Friday of the week before."""
    monday = _week_at(written, _STEPS.get(match["which"][:1], 0)).first
    day = monday + _WEEKDAYS_ZH.index(match["weekday"].replace("天", "日")) * DAY
    return DaySpan(day, day)


def _season(match: re.Match[str], written: date) -> DaySpan:
    """*Last summer*, 去年夏天: three months."""
    month = _SEASONS[match["season"]]
    year = written.year if match["which"] in ("this", "今年") else written.year - 1
    if match["which"] == "last" and date(written.year, month, 1) + 92 * DAY < written:
        year = written.year
    first = date(year, month, 1)
    return DaySpan(first, first + 91 * DAY)


def _last_month_named(match: re.Match[str], written: date) -> DaySpan:
    """*Last June*: the latest one before this month."""
    month = _month_number(match["month"])
    return _month_of(written.year if month < written.month else written.year - 1, month)


def _month_number(text: str) -> int:
    return _MONTHS.index(text[:3]) + 1 if text[:3] in _MONTHS else _number(text)


def _dated(match: re.Match[str], written: date) -> DaySpan | None:
    """A date, a month or a year, in figures or words."""
    given = match.groupdict()
    year = int(given["year"]) if given.get("year") else None
    if given.get("relative"):
        year = written.year + {"去": -1, "前": -2, "今": 0, "明": 1}[given["relative"]]
    if year is not None and year > _LATEST_YEAR:
        return None
    if not given.get("month"):
        return None if year is None else _year_at(year)
    month = _month_number(given["month"])
    if not given.get("day"):
        return _month_of(year or written.year, month, yearly=year is None)
    day = date(year or written.year, month, _number(given["day"]))
    return DaySpan(day, day, yearly=year is None)


def _rules() -> Iterator[tuple[re.Pattern[str], _Resolve]]:
    def rule(pattern: str, resolve: _Resolve) -> tuple[re.Pattern[str], _Resolve]:
        return re.compile(pattern), resolve

    yield rule(r"\b(?:today|tonight|this (?:morning|afternoon|evening))\b|今[天日晚早晨]|今儿", _day_at(0))
    yield rule(r"(?<!before )\byesterday\b|\blast night\b|昨[天日晚夜早晨儿]", _day_at(-1))
    yield rule(r"\bday before yesterday\b|(?<!大)前[天日](?!气)|前晚", _day_at(-2))
    yield rule(r"大前天", _day_at(-3))
    yield rule(r"\btomorrow\b|明[天日晚早儿]", _day_at(1))
    yield rule(r"(?<![今以此之])后天", _day_at(2))
    yield rule(rf"\b{_COUNT} (?P<unit>days?|weeks?|months?|years?) (?:ago|back|before)\b", _ago)
    yield rule(rf"{_COUNT_ZH}个?(?P<unit>天|周|星期|礼拜|月|年)(?:以|之)?前", _ago)
    yield rule(
        r"\b(?P<which>last|this past|past|previous|this|next|coming) (?P<unit>weekend|week|month|year)\b", _period
    )
    yield rule(r"(?P<which>上|这|本|下)一?个?(?P<unit>周末|周(?![一二三四五六日天末])|月(?!饼))", _period)
    yield rule(r"(?P<which>上|这|本|下)一?个?(?P<unit>星期|礼拜)(?![一二三四五六日天])", _period)
    yield rule(rf"\b(?P<which>last|this past|past|previous|next|coming) {_WEEKDAY}\b", _last_weekday)
    yield rule(r"(?P<which>上|这|本|下)个?(?:周|星期|礼拜)(?P<weekday>[一二三四五六日天])", _weekday_zh)
    yield rule(r"\b(?P<which>last|this) (?P<season>spring|summer|autumn|fall|winter)\b", _season)
    yield rule(r"(?P<which>去年|今年)的?(?P<season>[春夏秋冬])", _season)
    yield rule(rf"\blast {_MONTH}", _last_month_named)
    yield rule(rf"\b{_DAY_NUMBER} (?:of )?{_MONTH},?(?: {_YEAR}\b)?", _dated)
    yield rule(rf"\b{_MONTH} (?:the )?{_DAY_NUMBER}\b(?:,? {_YEAR}\b)?", _dated)
    yield rule(rf"\b{_MONTH},? (?:of )?{_YEAR}\b", _dated)
    yield rule(rf"\b(?:in|of|during|since|until|by|early|late|mid)[ -]{_MONTH}(?!,? ?\d)(?!,? of \d)", _dated)
    yield rule(rf"(?<!\d){_YEAR}[-/.](?P<month>\d{{1,2}})[-/.](?P<day>\d{{1,2}})(?!\d)", _dated)
    yield rule(rf"(?<!\d){_YEAR}年(?: ?{_MONTH_ZH})?(?: ?{_DAY_NUMBER_ZH})?", _dated)
    yield rule(rf"(?P<relative>[去前今明])年(?: ?{_MONTH_ZH})?(?: ?{_DAY_NUMBER_ZH})?", _dated)
    yield rule(rf"(?<![年\d]){_MONTH_ZH}(?: ?{_DAY_NUMBER_ZH})?", _dated)
    yield rule(rf"\b(?:in|of|during|since|until|by|before|after) {_YEAR}\b", _dated)


_RULES = tuple(_rules())
