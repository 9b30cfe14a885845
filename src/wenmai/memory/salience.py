"""Salience of a statement: how much a user would want it to be remembered, by features of any Chinese and English.

Names, numbers, dates, wishes, decisions and what users say about themselves count; greetings and questions hardly do.
"""

import math
import re
from functools import cache
from itertools import islice

from wenmai.text.cjk import CJK

_SPELLED = (
    r"two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen"
    r"|(?:twen|thir|for|fif|six|seven|eigh|nine)ty|hundred|thousand|million|first|second|third"
)
_NUMERAL = "[〇零一二两三四五六七八九十百千万亿]"
_NUMBER = rf"\d+(?:[.,]\d+)*|{_NUMERAL}{{2,}}|第?{_NUMERAL}+(?=[年月岁点号楼层位名只元块])|\b(?:{_SPELLED})\b"
_MONTH = (
    r"jan(?:uary)?|feb(?:ruary)?|march|apr(?:il)?|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?"
)
_DATE = (
    r"\d+\s*[年月日号]|星期[一二三四五六日天]|周[一二三四五六日末]|[上下]个?(?:周|月|星期)|(?:明|去|前|后)年|生日|\d{1,4}[-/.:]\d{1,2}"
    rf"|\b(?:{_MONTH})\b|\bmay \d|\d ?[ap]m\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\bbirthday\b"
    r"|\b(?:next|last) (?:week|month|year|summer|winter|spring|fall|autumn)\b"
)
_DAY = r"(?:今|明|后|昨|前)[天晚]|今年|\b(?:today|tomorrow|tonight|yesterday)\b"
_SELF = (
    r"我(?:叫|姓|住|有[一个只两]|家|的|今年|来自|养|妈|爸|母亲|父亲|女儿|儿子|妻子|丈夫|老[婆公家]|太太|朋友|同事)"
    r"|\b(?:my|our|i['’]m|i am|i['’]ve|i have|i live|i work|we have|call me)\b"
)
_WISH = (
    r"想要|想[去买学吃看换做找让把]|希望|打算|准备|计划|决定|约定|说好|答应|同意|改[成为到]|定在|选[了择定第]|必须|务必|不要|不能|不可|不吃|不喝"
    r"|喜欢|讨厌|不爱|最爱|最怕|害怕|需要|记得|记住|别|以后|提醒|不想|宁愿|过敏|忌|目标|截止|预算"
    r"|\b(?:want|wish|hope|plan|decided?|prefer|need|must|love|like|hate|dislike|allergic|always|never|remember|remind"
    r"|agreed?|promised?|deadline|due|budget|goal|favou?rite|booked|chosen?|go with|going to|will|can['’]t|cannot"
    r"|don['’]t|won['’]t)\b"
)
_NAME = (
    r"(?:叫做?|名叫|名字是|姓)[^\s，。！？,.!?]|[《「『“\"][^》」』”\"]{1,40}[》」』”\"]"
    r"|[\u4e00-\u9fff](?:先生|女士|老师|医生|经理|教授|师傅)"
    r"|(?<=[a-z,;:'’] )(?!I\b)[A-Z][\w'’-]*|\b[A-Z]{2,}\b|\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]+\b|\S@\w|https?:"
)
_QUESTION = re.compile(r"[?？][”’」』）)\"']*\s*\Z|(?:吗|呢|什么|多少|哪[里儿个些]|怎么样?)[？?。]?\Z")
_CHAT = re.compile(
    r"你|您|非常|真的|感觉|觉得|开心|高兴|太[^，。]{1,4}了|聊|再见|谢"
    r"|\b(?:you|your|you['’]re|feel|feeling|really|amazing|awesome|great|glad|excited|thanks?|thank|so)\b",
    re.IGNORECASE,
)
_LETTERS = re.compile(rf"[{CJK}]|[^\W_]+")

_WEIGHTS = {"number": (1.5, 2), "date": (1.5, 2), "day": (0.5, 1), "self": (2.0, 1), "wish": (2.0, 2), "name": (1.5, 3)}
"""Of each feature, and how often it counts in one statement."""

_ENOUGH_LETTERS = 6
_USUAL_LETTERS = 12
_OF_A_QUESTION = 0.4
_OF_AN_EXCLAMATION = 0.6
_OF_CHAT = 0.6
_OF_OTHERS = 0.5


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    """Compiled on first use, to keep the import of Wenmai light."""
    return {
        "number": re.compile(_NUMBER),
        "date": re.compile(_DATE, re.IGNORECASE),
        "day": re.compile(_DAY, re.IGNORECASE),
        "self": re.compile(_SELF, re.IGNORECASE),
        "wish": re.compile(_WISH, re.IGNORECASE),
        "name": re.compile(_NAME),
    }


def salience(statement: str, *, by_user: bool) -> float:
    """The salience of a statement per length, 0 for one without letters; linear in its length."""
    text = statement.strip()
    letters = len(_LETTERS.findall(text))
    if not letters:
        return 0.0
    score = min(letters, _ENOUGH_LETTERS) / _ENOUGH_LETTERS
    for feature, pattern in _patterns().items():
        weight, most = _WEIGHTS[feature]
        score += weight * sum(1 for _ in islice(pattern.finditer(text), most))
    if _QUESTION.search(text):
        score *= _OF_A_QUESTION
    elif text[-1] in "!！":
        score *= _OF_AN_EXCLAMATION
    if _CHAT.search(text):
        score *= _OF_CHAT
    if not by_user:
        score *= _OF_OTHERS
    return score / math.sqrt(max(letters, _USUAL_LETTERS))
