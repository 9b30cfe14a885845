"""Validates titles made by a model.

A model asked for a title may answer the question instead, refuse, explain itself, change the language or follow
instructions in the question. Output that does not look like a title of this question is rejected; so is output with a
word that is not in the question, because it may be an answer without evidence.
"""

import re
import unicodedata
from collections import Counter

from wenmai.errors import InvalidInput
from wenmai.memory.sessions import checked_title
from wenmai.text.cjk import content_words, has_cjk, normalise, terms
from wenmai.text.stopwords import STOP_EN

MAX_OUTPUT_CHARACTERS = 200
"""Output longer than this cannot be a title."""

WORDS = range(3, 6)
CHARACTERS = range(5, 16)
"""Length of a title: in words, or in characters for scripts without spaces."""

_PART = 2
"""Minimum length of the parts of the question that a title may be composed of."""

_LABEL = re.compile(r"^(?:title|标题|標題|题目|タイトル|題名|제목)\s*[:：]\s*", re.IGNORECASE)
_REFUSAL = re.compile(
    r"^(?:i['’]?m (?:sorry|unable)|i am (?:sorry|unable)|sorry|i can(?:no|['’])t|as an ai"
    r"|很?抱歉|对不起|對不起|我无法|我不能|作为|申し訳|죄송)",
    re.IGNORECASE,
)
_QUOTES = re.compile(r"[\"“”„‟«»「」『』〝〞＂`*#]|(?<!\w)['‘’]|['‘’](?!\w)")
_BOOK_MARKS = re.compile(r"^[《〈](?P<inside>[^《》〈〉]*)[》〉]$")
_JOINERS = re.compile("[\u200d\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")
"""Modifiers and joiners of emoji; the emoji themselves are in Unicode category So."""

_SMALL = frozenset({"a", "an", "the", "and", "or", "of", "in", "on", "at", "to", "for", "by", "with", "from", "as"})
"""Words that title case keeps in lower case inside a title."""

_SCRIPTS = {"CJK": "HAN", "IDEOGRAPHIC": "HAN", "HIRAGANA": "KANA", "KATAKANA": "KANA", "KATAKANA-HIRAGANA": "KANA"}
_SPACELESS = frozenset({"HAN", "KANA", "HANGUL"})
_KANA_IN_JAPANESE = 0.2
"""Share of Kana above which a text is Japanese; Chinese has almost none."""


def is_past_title(output: str) -> bool:
    """Whether further output of the model can no longer belong to the title."""
    output = output.lstrip()
    return "\n" in output or len(output) > MAX_OUTPUT_CHARACTERS


def extract_title(output: str, question: str) -> str | None:
    """The title in a model's output; None if it is not a valid title of this question.

    A title has the question's script, only content words of the question, and the length of a title. Quotes around it,
    punctuation at its end and emoji are removed; English is put in title case.
    """
    title = _plain(output)
    if _REFUSAL.match(title) or not _fits(title, question):
        return None
    if _is_english(question):
        title = _in_title_case(title)
    try:
        return checked_title(title)
    except InvalidInput:
        return None


def _plain(output: str) -> str:
    """The first line without label, quotes, emoji and closing punctuation."""
    lines = output.strip().splitlines()
    line = _JOINERS.sub("", lines[0]) if lines else ""
    line = "".join(" " if unicodedata.category(sign) == "So" else sign for sign in line)
    line = " ".join(_QUOTES.sub("", line).split())
    line = _LABEL.sub("", line)
    while line and unicodedata.category(line[-1]) in {"Po", "Pd", "Pc", "Sm", "Sk"}:
        line = line[:-1].rstrip()
    whole = _BOOK_MARKS.match(line)
    return whole["inside"].strip() if whole else line


def _fits(title: str, question: str) -> bool:
    writing = _writing(question)
    if _writing(title) != writing or not _scripts(title).keys() <= _scripts(question).keys() | _with(writing):
        return False
    length, allowed = (len(title), CHARACTERS) if writing in _SPACELESS else (len(title.split()), WORDS)
    if length not in allowed:
        return False
    return _made_of(question, title)


def _made_of(question: str, title: str) -> bool:
    """Whether the title has content words, and each is in the question.

    Scripts without spaces have no words to compare: there, each run between function words must be composed of parts
    of the question, of at least two characters each unless the run is a single character.
    """
    words, asked, normal = content_words(title), set(terms(question)), normalise(question)
    return bool(words) and all(
        _put_together(word, normal) if has_cjk(word) else asked.issuperset(terms(word)) for word in words
    )


def _put_together(word: str, question: str) -> bool:
    if len(word) < _PART:
        return word in question
    # reached[i]: the first i characters are composed of parts of the question
    reached = [True] + [False] * len(word)
    for end in range(_PART, len(word) + 1):
        reached[end] = any(reached[start] and word[start:end] in question for start in range(end - _PART + 1))
    return reached[-1]


def _with(writing: str) -> set[str]:
    """Other scripts that a language with this script uses."""
    return {"HAN"} if writing == "KANA" else set()


def _writing(text: str) -> str:
    """The script that identifies the language: Kana for Japanese, even if most characters are Han."""
    scripts = _scripts(text)
    if not scripts:
        return ""
    if scripts["KANA"] > _KANA_IN_JAPANESE * (scripts["KANA"] + scripts["HAN"]):
        scripts["KANA"] += scripts.pop("HAN", 0)
    return max(scripts, key=lambda script: scripts[script])


def _scripts(text: str) -> Counter[str]:
    """The amount of each script: in words, or in characters for scripts without spaces."""
    found: Counter[str] = Counter()
    before = ""
    for letter in normalise(text):
        name = unicodedata.name(letter, "").partition(" ")[0] if letter.isalpha() else ""
        script = _SCRIPTS.get(name, name)
        if script and (script in _SPACELESS or script != before):
            found[script] += 1
        before = script
    return found


def _is_english(question: str) -> bool:
    return _writing(question) == "LATIN" and not STOP_EN.isdisjoint(re.findall(r"[a-z]+", normalise(question)))


def _in_title_case(title: str) -> str:
    words = title.split()
    last = len(words) - 1
    return " ".join(
        word if word in _SMALL and place not in {0, last} else word[0].upper() + word[1:]
        for place, word in enumerate(words)
    )
