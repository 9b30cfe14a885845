"""Comparisons: a question about two things, as one question about each."""

import re

import msgspec

from wenmai.text.cjk import has_cjk

_SIDE = r"[^,，。？?！!；;和与跟同及或\n]{1,24}?"
_LAST = r"[^,，。？?！!；;\n]{1,24}?"
_GAP = r"(?:[,，](?:相?差|[多贵早晚长便宜]{1,2})了?(?:多少|几)[^,，。？?]{0,6})?"
_WHICH = r"(?:哪一?(?:个|座|种|家|款|条|位|项|类|台|本|篇|间|边|方|者|样|张)?|谁|何者)"

_DIMENSIONS = (
    ("早晚先后古老新旧", "什么时候"),
    ("贵便宜", "多少钱"),
    ("久", "多久"),
    ("长短", "多长"),
    ("高矮低", "多高"),
    ("多少", "多少"),
    ("大小", "多大"),
    ("远近", "多远"),
    ("重轻", "多重"),
    ("快慢", "多久"),
)
_DIMENSION = (
    r"(?P<more>更为?|比较|最|要|较)?"
    r"(?P<dim>早|晚|先|后|古老|老|新|旧|贵|便宜|久|长|短|高|矮|低|多|少|大|小|远|近|重|轻|快|慢)"
)
_THAN = r"(?<![无好相对百反之])比(?![例率赛如较喻重分方值邻拟照对])"
_ASKS = re.compile(
    r"什么|啥|哪|谁|多少|几|怎|如何|[为因]何|\b(?:who|whom|whose|what|when|where|why|how|which)\b", re.IGNORECASE
)

_LEAD_ZH = r"^(?:请问|那么?)?"
_END_ZH = r"[？?。]?$"
_AND = "(?:和|与|跟|同|及|还是|或者?)"
_REST = "[^,，。？?]"
_ZH = [
    re.compile("".join(parts))
    for parts in (
        (
            rf"{_LEAD_ZH}(?P<a>{_SIDE}){_AND}(?P<b>{_LAST})(?:相比|比起来|之间|这?两[个者种])?[,，]?(?:都?是)?{_WHICH}",
            rf"(?P<rest>{_REST}{{0,12}}?){_DIMENSION}(?P<tail>{_REST}{{0,10}}){_GAP}{_END_ZH}",
        ),
        (
            rf"{_LEAD_ZH}{_WHICH}(?P<rest>{_REST}{{0,8}}?){_DIMENSION}(?P<tail>{_REST}{{0,8}})",
            rf"[,，:：]\s*(?:是)?(?P<a>{_SIDE}){_AND}(?P<b>{_LAST})(?:呢)?{_END_ZH}",
        ),
        (
            rf"{_LEAD_ZH}(?P<a>{_SIDE}){_THAN}(?P<b>{_SIDE})(?P<rest>){_DIMENSION}(?P<tail>{_REST}{{0,8}}?)",
            rf"(?:吗|么|多少|几{_REST}{{1,3}}|一些|还是\w{{1,4}})?{_END_ZH}",
        ),
    )
]
_ZH_DIFFERENCE = [
    re.compile("".join(parts))
    for parts in (
        (
            rf"{_LEAD_ZH}(?P<a>{_SIDE})(?:和|与|跟|同|及)(?P<b>{_LAST})(?:之间|这?两[个者种])?(?:有|的)?",
            rf"(?:什么|哪些|啥|何|怎么|哪里|如何)?(?:区别|不同|差别|差异|分别|不一样){_REST}{{0,6}}{_END_ZH}",
        ),
        (rf"{_LEAD_ZH}(?:比较|对比)(?:一下)?(?P<a>{_SIDE})(?:和|与|跟|同|及)(?P<b>{_LAST}){_END_ZH}",),
    )
]
_ZH_GAP = re.compile(
    rf"{_LEAD_ZH}(?P<a>{_SIDE})(?:和|与|跟|同|到|离|距)(?P<b>{_LAST})(?:之间)?(?:相?差|相隔|隔|相距|间隔)了?"
    rf"(?:多少年|几年|多久|多少天|几天|多少|多长时间){_END_ZH}"
)

_NOUN = r"[^,;?!.\n]{1,60}?"
_MORE = (
    r"(?P<dim>earlier|older|oldest|first|sooner|before|later|newer|youngest|younger|last|after|longer|shorter|longest|"
    r"shortest|higher|taller|lower|bigger|larger|smaller|farther|further|nearer|closer|heavier|lighter|faster|slower|"
    r"quicker|cheaper|dearer|costlier|pricier|more|fewer|less|most|\w{3,14}(?:er|est))"
)
_LEAD_EN = r"^\W*(?:and |so |but )?"
_END_EN = r"[?.!]*$"
_VERB = "(?P<rest>is|are|was|were|does|do|did|has|have)"
_TAIL = r"(?P<tail>[^,:;?!.\n]{0,40})"
_EN = [
    re.compile("".join(parts), re.IGNORECASE)
    for parts in (
        (
            rf"{_LEAD_EN}(?:which|what|who)(?: one| of (?:the two|them|these))?\s(?P<rest>{_NOUN})\s?\b{_MORE}\b",
            rf"{_TAIL}[,:;-]+\s*(?P<a>{_NOUN})\sor\s(?P<b>{_NOUN}){_END_EN}",
        ),
        (
            rf"{_LEAD_EN}{_VERB}\s(?P<a>{_NOUN})\s(?P<deed>\w+\s)(?P<dim>(?:before|after)(?=\s)",
            r"|(?:earlier|later|sooner|more|less|longer)(?=\s(?:than|or)\s))\s(?P<tail>)(?:than\s|or\s)?",
            rf"(?P<b>(?:the|a|an|my|our|[A-Z\d])\s?{_NOUN}){_END_EN}",
        ),
        (
            rf"{_LEAD_EN}{_VERB}\s(?P<a>{_NOUN})\s{_MORE}\b(?P<tail>\s(?!than\b|or\b)[^,:;?!.\n]{{1,30}}?)?\s?",
            rf"(?:than|or)\s(?P<b>{_NOUN}){_END_EN}",
        ),
        (
            rf"^\W*(?P<a>{_NOUN})\sor\s(?P<b>{_NOUN})[,:;-]+\s*(?:which|what|who)(?: one)?\s",
            rf"(?P<rest>{_NOUN})\s?\b{_MORE}\b{_TAIL}{_END_EN}",
        ),
    )
]
_EN_DIFFERENCE = [
    re.compile("".join(parts), re.IGNORECASE)
    for parts in (
        (
            rf"{_LEAD_EN}(?:what(?:'s| is| are)\s)?(?:the\s)?differences?\sbetween\s",
            rf"(?P<a>{_NOUN})\sand\s(?P<b>{_NOUN}){_END_EN}",
        ),
        (
            rf"{_LEAD_EN}how\s(?:do|does|are|is)\s(?P<a>{_NOUN})\sand\s(?P<b>{_NOUN})\s",
            rf"(?:differ\w*|compare\w*)[^?!.\n]{{0,30}}{_END_EN}",
        ),
        (rf"^\W*(?:please\s)?compare\s(?P<a>{_NOUN})\s(?:and|with|to)\s(?P<b>{_NOUN}){_END_EN}",),
    )
]
_EN_GAP = re.compile(
    rf"{_LEAD_EN}how\s(?:many\s(?:years|days|months|hours|minutes)|long|much\stime)\s(?:(?:is|are|was|were)\s)?"
    rf"(?:there\s)?(?:passed\s)?between\s(?P<a>{_NOUN})\sand\s(?P<b>{_NOUN}){_END_EN}",
    re.IGNORECASE,
)
_WHEN_EN = frozenset(
    [
        "earlier",
        "older",
        "oldest",
        "first",
        "sooner",
        "before",
        "later",
        "newer",
        "youngest",
        "younger",
        "last",
        "after",
    ]
)
_ASK_EN = {
    "longer": "how long", "shorter": "how long", "longest": "how long", "shortest": "how long",
    "higher": "how high", "taller": "how tall", "lower": "how high",
    "bigger": "how big", "larger": "how large", "smaller": "how big",
    "farther": "how far", "further": "how far", "nearer": "how far", "closer": "how far",
    "heavier": "how heavy", "lighter": "how heavy", "faster": "how long", "slower": "how long", "quicker": "how long",
    "cheaper": "how much", "dearer": "how much", "costlier": "how much", "pricier": "how much",
    "more": "how many", "fewer": "how many", "less": "how much", "most": "how many",
}  # fmt: skip
_COST = re.compile(r"\b(?:expensive|cost\w*|price\w*|money)\b", re.IGNORECASE)
_AUXILIARY = re.compile(r"(?i)\b(?:is|are|was|were|does|do|did|has|have)\b")
_PARTICLE = re.compile(r"[了的得呢吗些]+$|^[了的得是]+")


class Comparison(msgspec.Struct, frozen=True):
    """One question about each of two things."""

    first: str
    second: str


def compared(question: str) -> Comparison | None:
    """The two questions of a comparison; None for any other question, which is at most 200 characters long."""
    text = question.strip()
    if len(text) > _LONGEST:
        return None
    return _chinese(text) if has_cjk(text) else _english(text)


_LONGEST = 200


def _chinese(text: str) -> Comparison | None:
    gap = _ZH_GAP.match(text)
    if gap:
        return _sides(gap, "{}是什么时候")
    for pattern in _ZH:
        found = pattern.match(text)
        if found:
            asked = next(ask for chars, ask in _DIMENSIONS if found["dim"] in chars)
            deed = _PARTICLE.sub("", found["rest"].strip()) + _PARTICLE.sub("", found["tail"].strip())
            deed = re.sub(r"^(?:是|更为?|比较|要)|[得的]$", "", deed)
            return _sides(found, "{}" + asked + deed if asked == "什么时候" else "{}" + deed + asked)
    for pattern in _ZH_DIFFERENCE:
        found = pattern.match(text)
        if found:
            return _sides(found, "{}是什么样的" if found["b"] else "{}")
    return None


def _english(text: str) -> Comparison | None:
    gap = _EN_GAP.match(text)
    if gap:
        return _sides(gap, "when was {}?")
    for pattern in _EN:
        found = pattern.match(text)
        if found:
            return _sides(found, _english_question(found))
    for pattern in _EN_DIFFERENCE:
        found = pattern.match(text)
        if found:
            return _sides(found, "{}")
    return None


def _english_question(found: re.Match[str]) -> str:
    groups = found.groupdict()
    measure = found["dim"].lower()
    head = found["rest"].strip()
    auxiliary = _AUXILIARY.search(head)
    verb = auxiliary[0].lower() if auxiliary else "is"
    predicate = head[auxiliary.end() :] if auxiliary else head
    deed = " ".join(part.strip() for part in (groups.get("deed"), predicate, found["tail"]) if part and part.strip())
    if _COST.search(f"{deed} {measure} {head}"):
        return "how much does {} cost?"
    if measure in _WHEN_EN:
        return f"when {verb} {{}} {deed}?".replace(" ?", "?")
    asked = _ASK_EN.get(measure)
    if asked is None:
        return f"{verb} {{}} {deed} {measure}?".replace("  ", " ")
    if asked == "how many" and deed and "deed" not in groups:
        return f"how many {deed} {verb} {{}}?"
    return f"{asked} {verb} {{}} {deed}?".replace(" ?", "?")


def _sides(found: re.Match[str], question: str) -> Comparison | None:
    first, second = found["a"].strip(), found["b"].strip()
    if not first or not second or first == second or _ASKS.search(first) or _ASKS.search(second):
        return None
    if "的" in second and "的" not in first:  # 电池和充电器的保修期
        first += second[second.index("的") :]
    return Comparison(question.replace("{}", first), question.replace("{}", second))
