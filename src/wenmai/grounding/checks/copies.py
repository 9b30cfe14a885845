"""Copies: what a sentence adds to the passage that it copies, and which limits it drops."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from wenmai.grounding.aligned import Window
from wenmai.grounding.checks.forms import Form, forms_of
from wenmai.grounding.checks.statement import Objection, Reason, TestedStatement
from wenmai.grounding.content import Content, Token
from wenmai.grounding.wording.words import load_words

_COPIED = 0.6
"""Share of a statement that is copied, from which a word that the passage lacks is an addition."""

_WIDER = 0.3
"""The same for words such as *all*, *always* and *must*."""

_LIMITED = 0.5
"""The same for words such as *only* and *except* that the passage has and the statement lacks."""

_PERIODIC = frozenset({"everi"})
"""*Every* is said of times too: every Friday."""

_SAME = 0.6
_CLOSE = 0.1


def find_additions(statement: TestedStatement) -> Iterator[Objection]:
    """New words within a copied sentence, and words that make it say more than its original."""
    if statement.attribution.is_attributed(0, len(statement.text)):
        return
    find = _added if statement.is_comparable else _widened
    added = [find(statement, window) for window in statement.windows]
    for start, end in min(added, key=len, default=[]):
        yield Objection(start, end, Reason.COVERAGE)


def find_dropped_limits(statement: TestedStatement) -> Iterator[Objection]:
    """Copied clauses without the *only* or *except* of their original."""
    if not statement.is_comparable or statement.copied < _LIMITED:
        return
    forms = statement.content.tokens.forms
    limits = [words for words in load_words().limits if forms.isdisjoint(words)]
    for clause in statement.clauses:
        if clause.is_attributed or not clause.weight or clause.is_verbatim:
            continue
        near = [sentence.tokens.forms for sentence in statement.aligned_sentences(clause, translated=True)]
        stated = [words for words in limits if not all(map(words.isdisjoint, near))]
        closest = statement.closest(clause, least=_SAME, within=_CLOSE) if stated else []
        if closest and any(all(not other.tokens.forms.isdisjoint(words) for other in closest) for words in stated):
            yield Objection(clause.start, clause.end, Reason.COVERAGE)


def _added(statement: TestedStatement, window: Window) -> list[tuple[int, int]]:
    """The spans of the words that the sentences of a window lack, if the rest is copied from them.

    Names, titles and values are checked as such.
    """
    copied = statement.copied_from(window)
    passage = statement.alignment.passages[window.number]
    sentences = [passage.sentences[index] for index in window.sentences]
    found: list[tuple[int, int]] = []
    if copied >= _COPIED:
        concepts = frozenset().union(*(sentence.tokens.concepts for sentence in sentences))
        for run in _new_runs(statement.forms.forms, sentences, passage.units):
            if any(claim.start < run[-1].end and claim.end > run[0].start for claim in statement.claims):
                continue
            touched = [each for each in statement.content.tokens if each.weight and _overlaps(each, run)]
            if not touched or any(_is_new(each, concepts) for each in touched):
                found.append((run[0].start, run[-1].end))
    if copied >= _WIDER:
        found += _lacking(statement, sentences, [*load_words().wider, *load_words().musts])
    return found


def _widened(statement: TestedStatement, window: Window) -> list[tuple[int, int]]:
    """The words such as *all* and *always* in a translation of sentences that have none."""
    sentences = [statement.alignment.passages[window.number].sentences[index] for index in window.sentences]
    return _lacking(statement, sentences, [words - _PERIODIC for words in load_words().wider])


def _lacking(
    statement: TestedStatement, sentences: Sequence[Content], meanings: Iterable[frozenset[str]]
) -> list[tuple[int, int]]:
    """The words of meanings of which some sentences have none."""
    tokens = statement.content.tokens
    return [
        (token.start, token.end)
        for words in meanings
        if not tokens.forms.isdisjoint(words) and all(each.tokens.forms.isdisjoint(words) for each in sentences)
        for token in tokens
        if token.form in words
    ]


def _is_new(token: Token, concepts: frozenset[int]) -> bool:
    return token.form not in load_words().light and token.word.concepts.isdisjoint(concepts)


def _overlaps(token: Token, run: Sequence[Form]) -> bool:
    return token.start < run[-1].end and token.end > run[0].start


def _new_runs(
    forms: Sequence[Form], sentences: Sequence[Content], units: Collection[str | int]
) -> Iterator[Sequence[Form]]:
    """The runs that some sentences lack: new to the whole passage, or between words that are copied."""
    known = set().union(*[forms_of(sentence).places for sentence in sentences])
    pairs = [forms_of(sentence).pairs for sentence in sentences]
    texts = [form.text for form in forms]
    start = 0
    while start < len(forms):
        stop = start
        while stop < len(forms) and texts[stop] not in known:
            stop += 1
        run = forms[start:stop]
        if any(form.weight for form in run):
            new = any(form.weight and form.text not in units for form in run)
            before, after = tuple(texts[max(0, start - 2) : start]), tuple(texts[stop : stop + 2])
            if new or all(any(pair in each for each in pairs) for pair in (before, after)):
                yield run
        start = stop + 1
