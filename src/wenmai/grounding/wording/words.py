"""The general words, loaded once: concepts, antonyms, negations, function words and courtesies of both languages."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

import msgspec

from wenmai.text.cjk import has_cjk, terms
from wenmai.text.patterns import any_word

_NO_IDS: frozenset[int] = frozenset()
_SECTION = "["


class Word(msgspec.Struct, frozen=True):
    """One word or phrase of the files.

    Attributes:
        concepts: ids of the concepts that it belongs to; words of one concept are synonyms or translations.
        sides: sides of oppositions, ``n`` and ``-n``.
        negates: whether it negates what follows.
        content: whether it counts as content.
        person: whether it stands for a person.
    """

    concepts: frozenset[int] = _NO_IDS
    sides: frozenset[int] = _NO_IDS
    negates: bool = False
    content: bool = True
    person: bool = False


UNKNOWN = Word()
FUNCTION = Word(content=False)


class ExactWords(NamedTuple):
    """Words of one value, such as a weekday.

    Attributes:
        words: one of which is in every statement that says it.
        stated: finds the words in a statement.
        accepted: finds them, or others that say the same, in a passage.
    """

    words: Sequence[str]
    stated: re.Pattern[str]
    accepted: re.Pattern[str]


class Words(msgspec.Struct, frozen=True):
    """All words by their form: Chinese as written, English as stems joined by blanks.

    Attributes:
        known: every word but those of courtesy alone.
        courtesies: the words of phrases that state nothing.
        courtesy_starts: their first characters.
        courtesy_chars: all their characters.
        exact: the words that are values.
        any_exact: finds any of these words.
        beginnings: the Chinese words of more than one character, and what they begin with.
        wider: words that make a statement say more, those of one meaning together.
        musts: the same for obligations.
        limits: words that make it say less, likewise.
        light: verbs and prepositions that add nothing.
        bounds: words beside which something else is not so.
        modals: words that say that one may or must.
        denials: negations of what was to be expected.
        phrases: the first stems of English phrases, with the number of words of the longest one.
    """

    known: Mapping[str, Word]
    courtesies: frozenset[str]
    courtesy_starts: frozenset[str]
    courtesy_chars: frozenset[str]
    phrases: Mapping[str, int]
    exact: Sequence[ExactWords]
    any_exact: re.Pattern[str]
    beginnings: frozenset[str]
    wider: Sequence[frozenset[str]]
    musts: Sequence[frozenset[str]]
    limits: Sequence[frozenset[str]]
    light: frozenset[str]
    bounds: frozenset[str]
    modals: frozenset[str]
    denials: frozenset[str]


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """The stem of an English word in lower case, or of its base form; a stop word is its own."""
    base = _bases().get(word, word)
    found = terms(base)
    return found[0] if len(found) == 1 else base


@cache
def _bases() -> dict[str, str]:
    """The base forms of irregular English words."""
    return {form: line.split()[0] for line in _lines("irregular.txt") for form in line.split()[1:]}


def form_of(word: str) -> str:
    """The form by which a word of the files is found."""
    return word if has_cjk(word) else " ".join(stem(part) for part in word.replace("_", " ").split())


@cache
def load_words() -> Words:
    """Read the files; takes about 20 ms."""
    concepts, sides = _concepts(), _sides()
    negations, fused, plain = _negations()
    persons = {form_of(word) for line in _lines("persons.txt") for word in line.split()}
    functions = {form_of(word) for line in _lines("function_words.txt") for word in line.split()}
    known: dict[str, Word] = {}
    for form in {*concepts, *sides, *negations, *plain, *functions, *persons}:
        known[form] = Word(
            concepts=frozenset(concepts.get(form, ())) | frozenset(concepts.get(fused.get(form, ""), ())),
            sides=frozenset(sides.get(form, ())) | frozenset(sides.get(fused.get(form, ""), ())),
            negates=form in negations,
            content=form not in negations and form not in plain and form not in functions,
            person=form in persons,
        )
    phrases: dict[str, int] = {}
    for form in known:
        first, _, rest = form.partition(" ")
        if rest:
            phrases[first] = max(phrases.get(first, 0), form.count(" ") + 1)
    courtesies = frozenset(form_of(word) for line in _lines("courtesy.txt") for word in line.split())
    exact = [_exact(line) for line in _lines("exact.txt")]
    extents = _extents()
    merged = {name: frozenset().union(*extents[name]) for name in ("light", "bound", "modal", "denial")}
    return Words(
        known=known,
        courtesies=courtesies,
        courtesy_starts=frozenset(form[0] for form in courtesies),
        courtesy_chars=frozenset("".join(courtesies)),
        phrases=phrases,
        exact=exact,
        any_exact=re.compile("|".join(re.escape(word) for words in exact for word in words.words)),
        beginnings=frozenset(form[:end] for form in known if has_cjk(form[0]) for end in range(2, len(form) + 1)),
        wider=extents["wider"],
        musts=extents["must"],
        limits=extents["limit"],
        light=merged["light"],
        bounds=merged["bound"],
        modals=merged["modal"],
        denials=merged["denial"],
    )


def _lines(name: str) -> Iterator[str]:
    text = (files("wenmai.grounding.wording") / name).read_text(encoding="utf-8")
    return (line for line in text.splitlines() if line and not line.startswith("#"))


def _exact(line: str) -> ExactWords:
    stated, others = (side.replace("_", " ").split("  ") for side in line.replace(" ", "  ").split("/"))
    words = [word.strip() for word in stated if word.strip()]
    further = [word.strip() for word in others if word.strip()]
    return ExactWords(words, re.compile(any_word(words)), re.compile(any_word([*words, *further])))


def _extents() -> dict[str, list[frozenset[str]]]:
    """The words that set how far a statement reaches, by section."""
    found: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
    section = ""
    for line in _lines("extents.txt"):
        if line.startswith(_SECTION):
            section = line.strip("[]")
        else:
            found[section].append(frozenset(form_of(word) for word in line.split()))
    return found


def _concepts() -> dict[str, set[int]]:
    found: defaultdict[str, set[int]] = defaultdict(set)
    for number, line in enumerate(_lines("concepts.txt"), start=1):
        for word in line.replace("=", " ").split():
            found[form_of(word)].add(number)
    return found


def _sides() -> dict[str, set[int]]:
    found: defaultdict[str, set[int]] = defaultdict(set)
    for number, line in enumerate(_lines("antonyms.txt"), start=1):
        for side, words in zip((number, -number), line.split("/"), strict=True):
            for word in words.split():
                found[form_of(word)].add(side)
    return found


def _negations() -> tuple[set[str], dict[str, str], set[str]]:
    """The negating words, the concept word that some of them contain, and the words that only look negative."""
    negations: set[str] = set()
    fused: dict[str, str] = {}
    plain: set[str] = set()
    section = concept = ""
    for line in _lines("negations.txt"):
        if line.startswith(_SECTION):
            section, _, concept = line.strip("[]").partition(" ")
            continue
        forms = {form_of(word) for word in line.split()}
        if section == "no":
            plain |= forms
            continue
        negations |= forms
        if concept:
            fused |= dict.fromkeys(forms, concept)
    return negations - plain, fused, plain
