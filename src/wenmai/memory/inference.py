"""Preference inference: rules over the user's messages; never a source of facts.

The only possible results are the enumerated values of a preference, a language tag, and topics of the lexicon.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal

import msgspec

from wenmai.stores.records import Preferences
from wenmai.text.cjk import find_words, has_cjk, normalise
from wenmai.text.stopwords import STOP_EN

Verbosity = Literal["brief", "normal", "detailed"]
Tone = Literal["casual", "formal", "respectful"]
Question = tuple[str, str]
"""The turn of a user's message, as ``persona_id#turn_id``, and its text."""

MAX_TAGS = 20
TAG = "interest_tags:"
"""Prefix of a tag's entry in ``Preferences.sources``, and in ``chosen`` if the user added it."""
REMOVED_TAG = "interest_tags:-"
"""Prefix of an entry in ``Preferences.chosen``: the user removed the tag that follows."""


class Inferred(msgspec.Struct, frozen=True, kw_only=True):
    """Inferred changes; None and empty mean no change.

    Attributes:
        add_interest_tags: tags to append, the latest mention last.
        drop_interest_tags: inferred tags to drop for them, so that at most 20 are kept.
        sources: for each changed field, or ``interest_tags:<tag>``, its source turns, in order.
    """

    verbosity: Verbosity | None = None
    tone: Tone | None = None
    language: str | None = None
    add_interest_tags: list[str] = []
    drop_interest_tags: list[str] = []
    sources: dict[str, list[str]] = {}


# Compiled by `re` on first use, to keep the import of Wenmai light.
_BIT = "(?:一点儿|一点|点儿|点|一些|些)"
_DETAILED = (
    f"(?<!太)(?:详细|具体|细致|仔细){_BIT}|(?<!用)(?:详细|具体|仔细)地?(?:说|讲|介绍|解释|回答)|展开[说讲]"
    "|(?:太|有点)(?:短|简单|简略)"
    r"|\b(?:more detail(?:s|ed)?|in (?:more |greater )?detail|elaborate|longer answers?|too short)\b"
)
_BRIEF = (
    f"(?<!太)(?:简单|简短|简洁|精简|简练|短){_BIT}|(?:简单|简短|简要)地?(?:说|讲|介绍|回答)|长话短说|言简意赅|[说讲]重点"
    "|(?:太|有点)(?:长|啰嗦|罗嗦|详细)了|(?:别|不要|不用)[太这那]?么?(?:长|啰嗦|罗嗦|详细)"
    r"|\b(?:keep (?:it|them|your answers) (?:short|brief)|be brief|answer briefly"
    r"|short(?:er)? answers?|too long)\b"
)
_CASUAL = (
    f"(?:轻松|随意|随便|活泼){_BIT}|(?:别|不要|不用)[太这那]?么?(?:正式|严肃|客气)"
    r"|\b(?:(?:speak|talk|be|answer) (?:more )?casual(?:ly)?|less formal(?:ly)?)\b"
)
_FORMAL = f"(?:正式|严肃){_BIT}" r"|\b(?:(?:speak|talk|be|answer) (?:more )?formal(?:ly)?|less casual(?:ly)?)\b"
_RESPECTFUL = (
    f"(?<!不)用敬语|(?:恭敬|尊敬|礼貌){_BIT}"
    r"|\b(?:speak|talk|be|answer) (?:more )?(?:respectful(?:ly)?|polite(?:ly)?)\b"
)
_LANGUAGES: dict[str, tuple[str, str]] = {
    "zh": ("中文|汉语|普通话|国语", "chinese|mandarin"),
    "en": ("英文|英语", "english"),
    "ja": ("日文|日语", "japanese"),
    "ko": ("韩文|韩语", "korean"),
    "fr": ("法文|法语", "french"),
    "de": ("德文|德语", "german"),
    "es": ("西班牙文|西班牙语", "spanish"),
}
_REQUESTED_LANGUAGE = {
    tag: (
        f"(?<![别要])(?:请|改|都)[用说讲](?:{zh})|(?<!不要)(?<!别)用(?:{zh})来?(?:回答|回复|说话|讲话|交流|聊|介绍|解释|讲)"
        f"|(?:换成|切换成|切换到|改成)(?:{zh})"
        r"|(?<!don't )\b(?:speak|answer|reply|respond|talk|write|switch)"
        rf"(?: to)?(?: me)?(?: in| to)? (?:{en})\b"
    )
    for tag, (zh, en) in _LANGUAGES.items()
}
_REQUESTS: Mapping[str, Mapping[str, str]] = {
    "verbosity": {"detailed": _DETAILED, "brief": _BRIEF},
    "tone": {"casual": _CASUAL, "formal": _FORMAL, "respectful": _RESPECTFUL},
    "language": _REQUESTED_LANGUAGE,
}
"""By field and value, the pattern of a request for it."""

_HAN = "[\u4e00-\u9fff]"
_OTHER_CJK = "[\u3041-\u30ff\uac00-\ud7a3]"
_LATIN = "[a-z]+"
_TERSE_TURNS, _TERSE_CHARACTERS = 5, 4
_RECENT, _ENOUGH = 3, 2


def infer(questions: Sequence[Question], current: Preferences, topic_words: Sequence[str]) -> Inferred:
    """Infer changes to the preferences of a session.

    Verbosity and tone follow the latest explicit request; five very short messages in a row mean ``brief``.
    The language follows the latest explicit request, else the language of two of the last three messages; the latter
    never overrides a request, which is recognised by its single source. A topic word of two turns becomes a tag.

    A field named in ``current.chosen`` is never changed. There, ``interest_tags`` stands for all tags,
    ``interest_tags:<tag>`` for one that the user added and ``interest_tags:-<tag>`` for one that the user removed,
    which is not added again. Only tags with an entry in ``current.sources`` that the user did not add are
    dropped for others.

    Args:
        questions: the user's messages of the session, ascending, of all personas.
        current: the current preferences.
        topic_words: topics of the profile's lexicon; only these can become tags.
    """
    texts = [(turn, normalise(text)) for turn, text in questions]
    sources: dict[str, list[str]] = {}
    verbosity = _latest(texts, "verbosity") or _terse(texts, current)
    tone = _latest(texts, "tone")
    language = _latest(texts, "language") or _language_used(texts, current)
    changes: dict[str, str] = {}
    for field, found in (("verbosity", verbosity), ("tone", tone), ("language", language)):
        if found and field not in current.chosen and not _is_set(current, field, found[0]):
            changes[field], sources[field] = found
    added, dropped = _tags(questions, current, topic_words, sources)
    return msgspec.convert(
        {**changes, "add_interest_tags": added, "drop_interest_tags": dropped, "sources": sources}, Inferred
    )


def _is_set(current: Preferences, field: str, value: str) -> bool:
    present: str = getattr(current, field)
    return present == value or (field == "language" and present.partition("-")[0] == value)


def _latest(texts: Sequence[Question], field: str) -> tuple[str, list[str]] | None:
    """The last value that the newest message with a request asks for, and its turn."""
    request = _any_request(field)
    for turn, text in reversed(texts):
        if request.search(text):
            requests = _REQUESTS[field].items()
            ends = [(match.end(), value) for value, pattern in requests for match in re.finditer(pattern, text)]
            return max(ends)[1], [turn]
    return None


@cache
def _any_request(field: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in _REQUESTS[field].values()))


def _terse(texts: Sequence[Question], current: Preferences) -> tuple[str, list[str]] | None:
    latest = texts[-_TERSE_TURNS:]
    if len(latest) < _TERSE_TURNS or "verbosity" in current.sources:
        return None
    lengths = [len(content) if has_cjk(content) else len(content.split()) * 2 for _, content in latest]
    return ("brief", [turn for turn, _ in latest]) if max(lengths) <= _TERSE_CHARACTERS else None


def _language_used(texts: Sequence[Question], current: Preferences) -> tuple[str, list[str]] | None:
    if len(current.sources.get("language", ())) == 1:
        return None
    written = [(turn, _written_in(text)) for turn, text in texts[-_RECENT:]]
    for language in ("zh", "en"):
        turns = [turn for turn, tag in written if tag == language]
        if len(turns) >= _ENOUGH:
            return language, turns
    return None


def _written_in(normal: str) -> str | None:
    """``zh`` for Han with hardly any Latin, ``en`` for English words without Han, else None."""
    han, kana_or_hangul = len(re.findall(_HAN, normal)), re.search(_OTHER_CJK, normal)
    words = re.findall(_LATIN, normal)
    if han > len(words) and not kana_or_hangul:
        return "zh"
    return "en" if not has_cjk(normal) and len(words) >= _ENOUGH and not STOP_EN.isdisjoint(words) else None


def _tags(
    questions: Sequence[Question],
    current: Preferences,
    topic_words: Sequence[str],
    sources: dict[str, list[str]],
) -> tuple[list[str], list[str]]:
    """Tags to add and to drop; records the turns of the added ones in ``sources``."""
    if "interest_tags" in current.chosen:
        return [], []
    turns: dict[str, list[str]] = {}
    for turn, text in questions:
        for word in _whole(find_words(text, topic_words)):
            seen = turns.pop(word, [])
            turns[word] = seen if turn in seen else [*seen, turn]
    known = {normalise(tag) for tag in current.interest_tags}
    known |= {normalise(entry.removeprefix(REMOVED_TAG)) for entry in current.chosen}
    wanted = [word for word, seen in turns.items() if len(seen) >= _ENOUGH and normalise(word) not in known]
    own = {entry.removeprefix(TAG) for entry in current.chosen}
    removable = [tag for tag in current.interest_tags if TAG + tag in current.sources and tag not in own]
    room = MAX_TAGS - len(current.interest_tags) + len(removable)
    added = wanted[-room:] if room > 0 else []
    excess = max(0, len(current.interest_tags) + len(added) - MAX_TAGS)
    sources.update({TAG + word: turns[word] for word in added})
    return added, removable[:excess]


def _whole(words: Sequence[str]) -> list[str]:
    """The words that are not part of another one: 灯 does not count where 灯塔 is named."""
    return [word for word in words if not any(word != other and word in other for other in words)]
