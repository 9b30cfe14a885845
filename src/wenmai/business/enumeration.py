"""The parts of a question that enumerates objects: one about each."""

import re

from wenmai.business.understanding import Recognized
from wenmai.business.words import plain

MOST_PARTS = 4

_JOINER = re.compile(
    r"(.*?)\s*(?:[、&和与跟及]|以及|还有|\band\b|[,;。?]\s*(?:再|然后|接着|还有|另外|以及)[问说看查]?)\s*(?:the|an?)?\s*"
)

_FIRST = re.compile(r"(?:首先|先)[问说看查]?\Z")
_EACH = re.compile(r"分别|各自?(?=在|有|是|怎|如)|\brespectively\b")


def enumerated(text: str, said: Recognized) -> dict[str, str]:
    """Of *A 的评估和 B 的用印有什么规定*, *A 的评估* and the rest; of *A 和 B 在哪里查*, the question about each.

    Args:
        text: the question.
        said: what the message with it says.

    Returns:
        The parts by object, normalised; nothing if the objects are not all enumerated.
    """
    names = [each.name for each in said.objects]
    if not 1 < len(names) <= MOST_PARTS or said.rejected:
        return {}
    normal = plain(text)
    words = {name: {name, *(word for word, of in said.aliases.items() if of == name)} for name in names}
    places = [_place(normal, words[name]) for name in names]
    if -1 in places or sorted(places) != places:
        return {}
    head, pieces = (
        _FIRST.sub("", normal[: places[0]]),
        [normal[start:end] for start, end in zip(places, [*places[1:], len(normal)], strict=True)],
    )
    joined = [_JOINER.fullmatch(piece) for piece in pieces[:-1]]
    if not all(joined):
        return {}
    last = max((word for word in words[names[-1]] if pieces[-1].startswith(word)), key=len)
    rest = pieces[-1].removeprefix(last)
    parts = {
        name: f"{head}{match[1]}" if match and match[1] not in words[name] else f"{head}{name}{rest}"
        for name, match in zip(names[:-1], joined, strict=True)
    } | {names[-1]: f"{head}{names[-1]}{rest}"}
    return {name: _EACH.sub("", part) for name, part in parts.items()}


def _place(text: str, words: set[str]) -> int:
    """Where the first of these words stands; of those at one place, the longest counts."""
    return min((at for word in words if (at := text.find(word)) >= 0), default=-1)
