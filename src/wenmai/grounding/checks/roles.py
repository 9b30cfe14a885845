"""Roles: who did what to whom. Two arguments that stand in each other's place in a passage are swapped."""

from collections.abc import Container, Iterator, Sequence
from itertools import combinations, pairwise

from wenmai.grounding.aligned import Window
from wenmai.grounding.checks.forms import ClauseForms, Form, SentenceForms, find_segments, forms_of
from wenmai.grounding.checks.statement import Objection, Reason, TestedStatement
from wenmai.grounding.wording.words import UNKNOWN, load_words

_LEAST_GAIN = 2
_ALIGNED = 0.6
_CLOSE = 0.1
_PASSIVE = frozenset({"被", "受", "遭", "为", "by"})
_LONGEST_SLOT = 6
_TIMES = frozenset("年月日周天时")
_LEAST_PART = 2
_AROUND = 3
"""Segments of which the outer ones may stand in reverse order."""

_ANCHOR = 3
"""Forms beside a place that identify it, if they have no content."""

_PARTICLES = frozenset("的了在把被将须应也都就再并和与及各可能已于是则便而从由向对")
_LEAST_REST = 4
_COMPARED = 0.3
"""Share of a statement that is copied, below which its order is not compared with the passage's."""

_ORDERED = 0.4
"""Share of a statement that is copied, below which its words have another order than the passage."""

_MODELLED = 0.5
"""The same, below which its words are in no places of the passage."""

_COPIED = 0.75
"""Share of the adjacent pairs of a copy that the other clause has."""

_KNOWN = 0.7
"""Share of the rest of a clause that the closest clause must have, for two parts to be in the same place."""


def find_swaps(statement: TestedStatement) -> Iterator[Objection]:
    """The sentence, if a passage has two of its parts in each other's place, or another one in the place of one."""
    tokens = statement.content.tokens
    if not tokens or statement.copied < _COMPARED or statement.attribution.is_attributed(0, len(statement.text)):
        return
    if all(clause.is_verbatim for clause in statement.clauses):
        return
    clauses = statement.forms.clauses
    best = max((window.share for window in statement.windows), default=0.0)
    close = [window for window in statement.windows if window.share >= max(_ALIGNED, best - _CLOSE)]
    if close and all(_swapped_in(statement, window, clauses) for window in close):
        yield Objection(tokens[0].start, tokens[-1].end, Reason.ROLES)


def _swapped_in(statement: TestedStatement, window: Window, clauses: Sequence[ClauseForms]) -> bool:
    passage = statement.alignment.passages[window.number]
    others = [forms_of(passage.sentences[index]) for index in window.sentences]
    copied = statement.copied
    return any(_is_swapped(clause, other, passage.folded, copied) for clause in clauses for other in others)


def _is_swapped(clause: ClauseForms, other: SentenceForms, passage: str, copied: float) -> bool:
    forms, texts, own = clause
    if any(other.texts[place : place + len(texts)] == texts for place in other.places.get(texts[0], ())):
        return False
    segments = [each for each in find_segments(clause, other) if sum([forms[at].weight for at in each]) >= _LEAST_PART]
    pairs = other.pairs
    if any(_gain(texts, first, second, pairs) >= _LEAST_GAIN for first, second in combinations(segments, 2)):
        return True
    if (
        copied >= _ORDERED
        and len(segments) >= _AROUND
        and any(_is_reversed(clause, segments, each) for each in other.clauses)
    ):
        return True
    if copied < _MODELLED:
        return False
    shared = [sum([form.weight for form in each.forms if form.text in own]) for each in other.clauses]
    closest = [each for each, weight in zip(other.clauses, shared, strict=True) if weight >= max(shared)]
    return bool(closest) and all(_takes_place(clause, each, passage) for each in closest)


def _gain(texts: list[str], first: range, second: range, pairs: Container[tuple[str, str]]) -> int:
    """How many more adjacent pairs the passage has if the two segments change places; 0 if they are few."""
    before = texts[first.start - 1] if first.start else ""
    one, one_end = texts[first.start], texts[first.stop - 1]
    two, two_end = texts[second.start], texts[second.stop - 1]
    after = texts[second.stop] if second.stop < len(texts) else ""
    gain = ((before, two) in pairs) + ((one_end, after) in pairs)
    if first.stop == second.start:
        gain += (two_end, one) in pairs
        now = [(before, one), (one_end, two), (two_end, after)]
    else:
        head, last = texts[first.stop], texts[second.start - 1]
        gain += ((two_end, head) in pairs) + ((last, one) in pairs)
        now = [(before, one), (one_end, head), (last, two), (two_end, after)]
    return gain - sum(map(pairs.__contains__, now)) if gain >= _LEAST_GAIN else 0


def _is_reversed(clause: ClauseForms, segments: Sequence[range], other: ClauseForms) -> bool:
    """Whether two segments stand around a third one here, and around it in reverse order in the other clause."""
    if _PASSIVE.isdisjoint(clause.known) != _PASSIVE.isdisjoint(other.known):
        return False
    found = [_find(other.texts, clause.texts[each.start : each.stop]) for each in segments]
    places = [each[0] if len(each) == 1 else None for each in found]
    return any(
        None not in (first, verb, second) and second < verb < first  # type: ignore[operator]  # none is None
        for first, verb, second in combinations(places, 3)
    )


def _find(texts: list[str], part: list[str]) -> list[int]:
    first = part[0]
    return [place for place, text in enumerate(texts) if text == first and texts[place : place + len(part)] == part]


def _takes_place(own: ClauseForms, clause: ClauseForms, passage: str) -> bool:
    """Whether other words of the passage, or new ones in a copy, stand in the place of words of the closest clause."""
    forms, known = own.forms, clause.known
    start = 0
    while start < len(forms):
        stop = start
        while stop < len(forms) and forms[stop].text not in known:
            stop += 1
        part, rest = forms[start:stop], [*forms[:start], *forms[stop:]]
        if (
            sum([form.weight for form in part]) + (len(part) > 1) >= _LEAST_PART
            and not all(form.text.isdigit() for form in part)
            and sum([form.weight for form in rest if form.text in known])
            >= _KNOWN * sum([form.weight for form in rest])
            and ("".join([form.text for form in part]) in passage or _is_copy(rest, clause, start))
        ):
            for length in (1, _ANCHOR):
                slot = _slot(clause, forms[max(0, start - length) : start], forms[stop : stop + length])
                texts = [form.text for form in slot]
                stated = any(form.weight or form.text in _TIMES for form in slot)
                if (
                    stated
                    and own.known.isdisjoint(texts)
                    and _PARTICLES.isdisjoint(texts)
                    and not _synonyms(part, slot)
                ):
                    return True
        start = stop + 1
    return False


def _is_copy(rest: Sequence[Form], clause: ClauseForms, cut: int) -> bool:
    """Whether the rest of a clause, cut at a place, is copied from another one: then a new word there replaces one."""
    pairs = set(pairwise(clause.texts))
    texts = [form.text for form in rest]
    adjacent = [pair for place, pair in enumerate(pairwise(texts), start=1) if place != cut]
    copied = sum(pair in pairs for pair in adjacent)
    return sum(form.weight for form in rest) >= _LEAST_REST and copied >= _COPIED * len(adjacent)


def _synonyms(part: Sequence[Form], slot: Sequence[Form]) -> bool:
    """Whether two runs are words of one concept."""
    known = load_words().known
    words = [known.get("".join(form.text for form in run), UNKNOWN) for run in (part, slot)]
    return not words[0].concepts.isdisjoint(words[1].concepts)


def _slot(clause: ClauseForms, before: Sequence[Form], after: Sequence[Form]) -> list[Form]:
    """The words of a clause between two others, one of which has content and the other may be its edge."""
    if max(len(before), len(after)) < _ANCHOR and not any(form.weight for form in (*before, *after)):
        return []
    texts = clause.texts
    starts = [place + len(before) for place in _find(texts, [form.text for form in before])] if before else [0]
    ends = _find(texts, [form.text for form in after]) if after else [len(texts)]
    for start in starts:
        for end in ends:
            if start < end <= start + _LONGEST_SLOT:
                return clause.forms[start:end]
    return []
