"""Salience of a statement: how much a user would want it to be remembered, by features of any Chinese and English.

What holds from now on counts: who a user is, what was decided, agreed or changed, what must or may not be, by when,
and the names and numbers in it. What only happened, was heard or felt counts less; greetings and questions hardly do.
"""

import math
import re
from functools import cache, lru_cache
from typing import NamedTuple

from wenmai.text.cjk import CJK

_SPELLED = (
    r"two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen"
    r"|(?:twen|thir|for|fif|six|seven|eigh|nine)ty|hundred|thousand|million|first|second|third"
)
_NUMERAL = "[〇零一二两三四五六七八九十百千万亿]"
_MONTH = (
    r"jan(?:uary)?|feb(?:ruary)?|march|apr(?:il)?|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?"
)
_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"


class _Feature(NamedTuple):
    """Adds ``weight`` for each match, at most ``most`` times.

    Attributes:
        chinese: of texts with CJK characters; "" for none.
        english: of texts with Latin letters; "" for none.
        any: of any text; "" for none.
    """

    weight: float
    most: int
    chinese: str = ""
    english: str = ""
    any: str = ""


_NUMBERS = _Feature(
    1.5,
    2,
    chinese=rf"{_NUMERAL}{{2,}}|第?{_NUMERAL}+(?=[年月岁点号楼层位名只元块])",
    english=rf"\b(?:{_SPELLED})\b",
    any=r"\d+(?:[.,]\d+)*",
)
_DATES = _Feature(  # other than of what has just happened
    1.5,
    2,
    chinese=r"\d+\s*[年月日号]|星期[一二三四五六日天]|周[一二三四五六日]|下个?(?:周|月|星期)|[明去前后]年|[春夏秋冬][天季]"
    r"|生日|明[天晚]|后天|今[晚年]",
    english=rf"\b(?:{_MONTH}|{_DAY}s?|may \d|next (?:week|month|year)|summer|winter|autumn|easter|christmas|tomorrow"
    r"|tonight|birthday)\b|\d ?[ap]m\b|\d(?:st|nd|rd|th)\b",
    any=r"\d{1,4}[-/.:]\d{1,2}",
)
_NAMES = _Feature(
    1.5,
    3,
    chinese=r"(?:叫做?|名叫|名字是|姓)[^\s，。！？,.!?]|《[^》]{1,40}》|[\u4e00-\u9fff](?:先生|女士|老师|医生|大夫|经理|教授|师傅)",
    english=r"(?<=[a-z,;:'’] )(?-i:(?!(?:I|AI|OK)\b|I['’])[A-Z])[\w'’-]*|\b(?-i:(?!(?:AI|OK)\b)[A-Z]{2,})\b",
    any=r"\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]+\b|\S@\w|https?:",
)
_IDENTITY = _Feature(  # who the speaker is, has and belongs to
    1.5,
    1,
    chinese=r"我们?(?:叫|姓|是|住|有|家|的|来自|养|在|属|今年)|(?:叫|称呼)我|老家|出生|长大|毕业"
    r"|(?:编号|号码?|型号|密码|地址|尺码)[是为]",
    english=r"\b(?:my|our|(?:i['’]m|i am) (?:an?|from|in|on)|i (?:live|work|grew up|own|run|use|speak|teach|study)"
    r"|we (?:have|live|speak|own)|calls? me|(?:is|are) (?:called|named)|(?:number|code|address|size|model) is)\b",
)
_FIRST_PERSON = _Feature(0.7, 1, "我|咱", r"\b(?:i|i['’](?:m|ve|ll|d)|me|we|we['’]\w+|us)\b")
_FAMILY = _Feature(
    1.2,
    1,
    "妈|爸|母亲|父亲|爷爷|奶奶|外公|外婆|女儿|儿子|孙[子女]|外甥|侄|哥|姐|弟|妹|妻子|丈夫|爱人|老[婆公]|太太|岳|公婆",
    r"\b(?:mom|mum|mother|dad|father|parents?|sisters?|brothers?|sons?|daughters?|wife|husband|partner|fianc[ée]e?|aunt"
    r"|uncle|cousins?|nephew|niece|grand(?:ma|pa|mother|father|parents|son|daughter)|in-laws?|eldest|youngest)\b",
)
_HEALTH = _Feature(
    1.2,
    2,
    "病|手术|药|过敏|孕|体检|残疾|忌口|血型",
    r"\b(?:allerg\w+|disease|illness|surgery|operation|medic\w+|pills?|pregnan\w+|blood type|disab\w+|wheelchair|deaf"
    r"|blind|intoleran\w+)\b",
)
_DECISION = _Feature(  # decided, agreed, changed
    2.0,
    2,
    "决定|[约说]好|约[定在了]|定[在了于为]|[选订签报][了在到]|买好|报名|敲定|答应|同意|换[成了到]|改[成为到在]|推迟|提前"
    "|延期|取消|说错|更正|不再|现在[由是归]",
    r"\b(?:decid\w+|agreed?|promised?|chos\w+|(?:go(?:ing)?|went) with|book(?:ed|ing)|scheduled|signed|ordered"
    r"|move[ds]? to|chang\w+|extended|postponed|cancell?ed|instead|no longer|any ?more|mistaken|corrected|now|due)\b",
)
_CONSTRAINT = _Feature(  # what must and may not be
    2.0,
    2,
    "必须|务必|千万|一律|凡是|只能|只吃|只喝|不[能可许准要吃喝碰用收]|从不|绝不|忌|戒|别[叫让给用放忘再]"
    "|最[多少晚迟高低]|至少|不超过|以[内上下]|要求",
    r"\b(?:must(?:n['’]t)?|needs? to|have to|has to|only|never|always|every(?:one|thing)|any(?:one|thing)|without"
    r"|no (?:\w+ )?\w+s|at (?:most|least|the (?:most|latest|earliest))|up to|can['’]t|cannot|won['’]t|don['’]t want"
    r"|insists?|avoid|not allowed)\b",
)
_REMINDER = _Feature(  # by when, how often; to be remembered
    2.0,
    1,
    "之前|截止|到期|期限|记得|记住|提醒|以后|每[天周月年晚]|每个[周月]|一年[一两]",
    rf"\b(?:deadline|by (?:the|next|{_DAY})|until|till|remember|remind|from now on"
    r"|every (?:day|week|month|year|morning|evening|night)|(?:once|twice|times) an? (?:day|week|month|year))\b",
)
_WISH = _Feature(
    1.0,
    2,
    "想要|想[去买学找让把]|希望|打算|准备|计划|目标|预算|需要|喜欢|讨厌|不想|宁愿|最[爱怕]|一直想",
    r"\b(?:wants?|wanted|wish|hopes?|plan(?:s|ning)?|prefer|need|likes?|hates?|dislikes?|budget|goal|favou?rite"
    r"|going to|owes?)\b",
)
_FEATURES = (
    *(_NUMBERS, _DATES, _NAMES, _IDENTITY, _FIRST_PERSON, _FAMILY, _HEALTH),
    *(_DECISION, _CONSTRAINT, _REMINDER, _WISH),
)
_TO_LISTENER = _Feature(  # to the listener, or of feelings
    0.5,
    1,
    "你|您|非常|真的|感觉|觉得|认为|似乎|心情|开心|高兴|太[^，。]{1,4}了|聊|再见|谢|哈哈|我(?:再|也)(?:想|觉)",
    r"\b(?:you|your|you['’]re|feel|feeling|felt|really|amazing|awesome|great|glad|happy|excited|grateful|thanks?|thank"
    r"|so|love[ds]?|i (?:think|guess|suppose|wonder))\b",
)
_PAST = _Feature(  # happened and is over, or was heard of
    0.6,
    1,
    "今天|昨[天晚]|前[天晚]|刚才|刚刚|上(?:个?(?:周|月|星期))|周末|早上|傍晚|听说|据说",
    r"\b(?:yesterday|today|just now|the other day|last (?:week|night|month|year|weekend|summer)|at the weekend"
    r"|(?:this|that) (?:morning|afternoon|evening)|(?:they|people) say|i heard|apparently)\b",
)
_DISCOUNTS = (_TO_LISTENER, _PAST)
_QUESTION = r"[?？][”’」』）)\"']*\s*\Z|(?:吗|呢|什么|多少|哪[里儿个些]|怎么样?)[？?。]?\Z"
_LETTERS = rf"[{CJK}]|[^\W_]+"

_ENOUGH_LETTERS = 6
_USUAL_LETTERS = 12
_OF_A_QUESTION = 0.4
_OF_AN_EXCLAMATION = 0.6
_OF_OTHERS = 0.5

_CACHED_CHARACTERS = 200
"""A prompt is made of the same turns again and again."""


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled on first use, to keep the import of Wenmai light."""
    return re.compile(pattern, re.IGNORECASE)


@cache
def _pattern(feature: _Feature, chinese: bool, latin: bool) -> re.Pattern[str] | None:  # noqa: FBT001 — a key
    """The pattern for texts in these scripts; those of the others would only take time."""
    parts = [feature.any, feature.chinese if chinese else "", feature.english if latin else ""]
    pattern = "|".join(filter(None, parts))
    return _compiled(pattern) if pattern else None


def salience(statement: str, *, by_user: bool) -> float:
    """The salience of a statement per length, 0 for one without letters; linear in its length."""
    own = (_cached if len(statement) <= _CACHED_CHARACTERS else _own_salience)(statement)
    return own if by_user else own * _OF_OTHERS


def _own_salience(statement: str) -> float:
    """As said by the user."""
    text = statement.strip()
    letters = len(_compiled(_LETTERS).findall(text))
    if not letters:
        return 0.0
    scripts = _compiled(f"[{CJK}]").search(text) is not None, _compiled("[a-z]").search(text) is not None
    score = min(letters, _ENOUGH_LETTERS) / _ENOUGH_LETTERS
    for feature in _FEATURES:
        pattern = _pattern(feature, *scripts)
        if pattern is not None:
            score += feature.weight * min(feature.most, len(pattern.findall(text)))
    if _compiled(_QUESTION).search(text):
        score *= _OF_A_QUESTION
    elif text[-1] in "!！":
        score *= _OF_AN_EXCLAMATION
    for discount in _DISCOUNTS:
        pattern = _pattern(discount, *scripts)
        if pattern is not None and pattern.search(text):
            score *= discount.weight
    return score / math.sqrt(max(letters, _USUAL_LETTERS))


_cached = lru_cache(maxsize=4096)(_own_salience)
