"""Salience of a statement: how much a user would want it to be remembered, by features of any Chinese and English.

Names, numbers, dates, wishes, decisions and what users say about themselves count; greetings and questions hardly do.
"""

import math
import re
from functools import cache

from wenmai.text.cjk import CJK

_NUMBER = (
    r"\d+|[〇零一二两三四五六七八九十百千万亿]{2,}|第?[一二两三四五六七八九十百]+(?=[年月日号岁点号楼层个位名只元块次])"
)
_DATE = (
    r"\d+\s*[年月日号]|星期[一二三四五六日天]|周[一二三四五六日末]|(?:今|明|后|昨|前)[天晚]|(?:今|明|去|前|后)年|[上下]个?(?:周|月|星期)|生日"
    r"|\b(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)[a-z]*\b\.?|\bmay \d|\d(?:am|pm)\b"
    r"|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(?:today|tomorrow|tonight|yesterday|birthday)\b"
    r"|\b(?:next|last) (?:week|month|year|summer|winter|spring|fall|autumn)\b|\d{1,4}[-/.:]\d{1,2}"
)
_SELF = (
    r"我(?:叫|姓|是|在|住|有|家|的|们|今年|来自|妈|爸|女|儿|妻|丈|老|先生|太太|朋友|同事)"
    r"|\b(?:my|our|i['’]m|i am|i['’]ve|i have|i live|i work|i was|we['’]re|we are|we have|call me)\b"
)
_WISH = (
    r"想要|想[去买学吃看换做找让把]|希望|打算|准备|计划|决定|约定|说好|答应|同意|改[成为到]|定在|选[了择定]|必须|务必|一定|不要|不能|不可|不吃"
    r"|不喝|喜欢|讨厌|不爱|最爱|最怕|害怕|需要|记得|记住|别|提醒|不想|宁愿|过敏|忌|目标|截止"
    r"|\b(?:want|wish|hope|plan|decided?|prefer|need|must|love|like|hate|dislike|allergic|always|never|remember|remind"
    r"|agreed?|promised?|deadline|goal|favou?rite|booked|chosen?|going to|will|can['’]t|cannot|don['’]t|won['’]t)\b"
)
_NAME = (
    r"(?:叫做?|名叫|名字是|姓)[^\s，。！？,.!?]|[《「『“\"][^》」』”\"]{1,40}[》」』”\"]|[小老阿][\u4e00-\u9fff]|[\u4e00-\u9fff](?:先生|女士|老师|医生|经理|教授|师傅)"
    r"|(?<=[a-z,;:'’] )(?!I\b)[A-Z][\w'’-]*|\b[A-Z]{2,}\b|\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]+\b|\S@\w|https?:"
)
_QUESTION = re.compile(r"[?？][”’」』）)\"']*\s*\Z|(?:吗|呢|什么|多少|哪[里儿个些]|怎么样?)[？?。]?\Z")
_LETTERS = re.compile(rf"[{CJK}]|[^\W_]+")

_WEIGHTS = {"number": 1.0, "date": 1.5, "self": 2.0, "wish": 2.0, "name": 1.5}
_MOST = {"number": 3, "date": 2, "self": 1, "wish": 2, "name": 3}
"""How often a feature counts in one statement."""

_ENOUGH_LETTERS = 6
_USUAL_LETTERS = 12
_OF_A_QUESTION = 0.4
_OF_OTHERS = 0.5


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    """Compiled on first use, to keep the import of Wenmai light."""
    return {
        "number": re.compile(_NUMBER),
        "date": re.compile(_DATE, re.IGNORECASE),
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
        found = sum(1 for _ in zip(range(_MOST[feature]), pattern.finditer(text), strict=False))
        score += _WEIGHTS[feature] * found
    if _QUESTION.search(text):
        score *= _OF_A_QUESTION
    if not by_user:
        score *= _OF_OTHERS
    return score / math.sqrt(max(letters, _USUAL_LETTERS))
