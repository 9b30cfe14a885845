"""A sentence as a sequence of characters and stems, in which arguments are found and compared."""

from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import msgspec

from wenmai.grounding.content import Content

_MOST_SEGMENTS = 12
_MOST_PLACES = 8
_PRONOUN = 2
"""Weight of a pronoun, which is an argument too."""

_PRONOUNS = frozenset({"他", "她", "他们", "她们", "he", "she", "him", "her", "they", "them"})
_ARTICLES = frozenset({"the", "a", "an"})


class Form(msgspec.Struct, frozen=True, gc=False):
    """A character of Chinese or a stem of English, its clause, its weight, and where it stands."""

    text: str
    clause: int
    weight: int
    start: int
    end: int


class ClauseForms(NamedTuple):
    """The forms of a clause, in order; their texts, and these as a set."""

    forms: list[Form]
    texts: list[str]
    known: frozenset[str]


class SentenceForms:
    """The forms of a sentence, in order."""

    def __init__(self, content: Content) -> None:
        self._tokens = [token for token in content.tokens if token.form not in _ARTICLES]
        self.texts: list[str] = []
        for token in self._tokens:
            self.texts += token.form if token.han else [token.form]

    @cached_property
    def forms(self) -> list[Form]:
        """Each with its place."""
        found: list[Form] = []
        for token in self._tokens:
            form, clause, start = token.form, token.clause, token.start
            weight = _PRONOUN if form in _PRONOUNS else token.own_weight // (len(form) if token.han else 1)
            if token.han:
                found += [Form(part, clause, weight, at, at + 1) for at, part in enumerate(form, start)]
            else:
                found.append(Form(form, clause, weight, start, token.end))
        return found

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """The adjacent forms."""
        return frozenset(pairwise(self.texts))

    @cached_property
    def clauses(self) -> list[ClauseForms]:
        """The forms of each clause."""
        found: dict[int, list[Form]] = {}
        for form in self.forms:
            found.setdefault(form.clause, []).append(form)
        texts = [[form.text for form in forms] for forms in found.values()]
        return [ClauseForms(forms, each, frozenset(each)) for forms, each in zip(found.values(), texts, strict=True)]

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """The places of each form."""
        found: dict[str, list[int]] = {}
        for index, form in enumerate(self.texts):
            found.setdefault(form, []).append(index)
        return found


@lru_cache(maxsize=4096)
def forms_of(content: Content) -> SentenceForms:
    """The forms of a sentence; cached, since those of passages are compared with many statements."""
    return SentenceForms(content)


def find_segments(clause: ClauseForms, other: SentenceForms) -> list[range]:
    """The longest runs, from left to right, that stand in the other text too and begin and end with content."""
    forms, texts, _ = clause
    others, places = other.texts, other.places
    found: list[range] = []
    start = 0
    while start < len(forms) and len(found) < _MOST_SEGMENTS:
        end = start
        for place in places.get(texts[start], ())[:_MOST_PLACES] if forms[start].weight else ():
            most = min(len(texts), start + len(others) - place)
            stop = start + 1
            while stop < most and texts[stop] == others[place + stop - start]:
                stop += 1
            end = max(end, stop)
        while end > start and not forms[end - 1].weight:
            end -= 1
        if end > start:
            found.append(range(start, end))
        start = max(start + 1, end)
    return found
