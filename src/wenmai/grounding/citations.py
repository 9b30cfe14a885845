"""Citations: the passages that support an answer, as they are shown to the user."""

from collections.abc import Sequence

from wenmai.grounding.answers.passages import analyse
from wenmai.grounding.types import Citation, Passage
from wenmai.text.cjk import query_terms, sentences, terms

EXCERPT = 100
"""Characters of a citation's excerpt."""


def citations(passages: Sequence[Passage], numbers: Sequence[int], *, answer: str, limit: int) -> list[Citation]:
    """The citations of an answer, in the order of ``numbers``.

    Args:
        passages: those that the model was given.
        numbers: the passages cited.
        answer: an excerpt begins at the sentence that shares most words with it.
        limit: maximum number of citations.
    """
    by_number = {passage.number: passage for passage in passages}
    answer_terms = set(query_terms(answer))
    return [
        Citation(
            evidence_id=passage.evidence_id,
            title=passage.title,
            source_ref=passage.source_ref,
            excerpt=_excerpt(passage, answer_terms),
            score=passage.score,
        )
        for passage in (by_number[number] for number in list(dict.fromkeys(numbers))[:limit] if number in by_number)
    ]


def _excerpt(passage: Passage, answer_terms: set[str]) -> str:
    text = passage.text
    parts = {each.text: each.terms for each in analyse(passage.title, text).sentences}
    parts = parts or {each: frozenset(terms(each)) for each in sentences(text)}
    if not parts:
        return ""
    best = max(parts, key=lambda part: len(answer_terms.intersection(parts[part])))
    excerpt = text[text.index(best) :].strip()
    return excerpt if len(excerpt) <= EXCERPT else excerpt[: EXCERPT - 1] + "…"
