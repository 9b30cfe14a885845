"""Scores of answered questions: pure functions over what was observed."""

import math
from collections.abc import Callable, Iterable, Sequence

import msgspec

from wenmai.evaluation.cases import Turn
from wenmai.evaluation.comparison import occurs

_OUT_OF_SCOPE = "out_of_scope"


class AskedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A question that was asked, and its answer.

    Attributes:
        set_name: the set of the question.
        id: its dialogue.
        number: of the turn in its dialogue, from 1.
        mode, reason, intent: as in the trace.
        searched: the question as it was searched for.
        found: evidence ids of the passages found, best first.
        citations: evidence ids.
        ms: until the answer was returned.
    """

    set_name: str
    id: str
    number: int
    language: str
    turn: Turn
    mode: str
    reason: str
    intent: str
    searched: str
    found: list[str]
    answer: str
    citations: list[str]
    ms: float


class TurnScore(msgspec.Struct, frozen=True, kw_only=True):
    """The judgement of a turn.

    Attributes:
        answered: a normal answer with a citation.
        right_citation: answered, with the citations of the case.
        shown: answered, and the answer shows what it must.
        right: all conditions of the case hold.
        problems: the conditions that do not hold.
    """

    answered: bool
    right_citation: bool
    shown: bool
    right: bool
    problems: list[str]


class AnswerFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Counts over turns, and milliseconds.

    Attributes:
        asked: all turns.
        answerable: those that expect an answer; ``answered`` to ``right`` count among these.
        held_back_wrongly: answerable, without a normal answer with a citation.
        normal_cited: of all turns, normal answers with a citation; ``wrong`` of these are not right.
        unanswerable: turns that expect to be held back: ``held_back`` are, ``answered_wrongly`` are answered.
        courtesies: turns that expect a courtesy.
    """

    asked: int
    answerable: int
    answered: int
    right_citation: int
    shown: int
    right: int
    held_back_wrongly: int
    normal_cited: int
    wrong: int
    unanswerable: int
    held_back: int
    answered_wrongly: int
    courtesies: int
    courtesy_right: int
    median_ms: float
    p95_ms: float


def score_turn(asked: AskedTurn) -> TurnScore:
    """Judge a turn by the conditions of its case."""
    turn = asked.turn
    answered = asked.mode == "normal" and bool(asked.citations)
    cited = [id_ for id_ in turn.cite if id_ in asked.citations]
    right_citation = answered and (len(cited) == len(turn.cite) if turn.cite_all else bool(cited))
    missing = [group for group in turn.show if not any(occurs(each, asked.answer) for each in group)]
    problems = _problems_of_mode(asked, answered=answered)
    if turn.expect == "answer" and answered:
        if not right_citation:
            problems.append(f"cites {', '.join(asked.citations)}")
        problems += [f"does not show {' | '.join(group)}" for group in missing]
    problems += [f"says {text}" for text in turn.never if occurs(text, asked.answer)]
    return TurnScore(
        answered=answered,
        right_citation=right_citation,
        shown=answered and not missing,
        right=not problems,
        problems=problems,
    )


def _problems_of_mode(asked: AskedTurn, *, answered: bool) -> list[str]:
    """An out-of-scope phrase is a normal answer without a citation; it counts as held back."""
    expect = asked.turn.expect
    if expect == "answer":
        return [] if answered else ["not answered"]
    if asked.citations:
        return [f"cites {', '.join(asked.citations)}"]
    if expect == "courtesy":
        return [] if asked.mode == "normal" and asked.intent != _OUT_OF_SCOPE else ["no courtesy"]
    return [] if asked.mode != "normal" or asked.intent == _OUT_OF_SCOPE else ["not held back"]


def answer_figures(turns: Sequence[tuple[AskedTurn, TurnScore]]) -> AnswerFigures:
    """Count the turns."""
    answerable = [score for asked, score in turns if asked.turn.expect == "answer"]
    unanswerable = [score for asked, score in turns if asked.turn.expect == "hold_back"]
    courtesies = [score for asked, score in turns if asked.turn.expect == "courtesy"]
    normal_cited = [score for _, score in turns if score.answered]
    times = [asked.ms for asked, _ in turns]
    return AnswerFigures(
        asked=len(turns),
        answerable=len(answerable),
        answered=_count(answerable, lambda each: each.answered),
        right_citation=_count(answerable, lambda each: each.right_citation),
        shown=_count(answerable, lambda each: each.shown),
        right=_count(answerable, lambda each: each.right),
        held_back_wrongly=_count(answerable, lambda each: not each.answered),
        normal_cited=len(normal_cited),
        wrong=_count(normal_cited, lambda each: not each.right),
        unanswerable=len(unanswerable),
        held_back=_count(unanswerable, lambda each: each.right),
        answered_wrongly=_count(unanswerable, lambda each: each.answered),
        courtesies=len(courtesies),
        courtesy_right=_count(courtesies, lambda each: each.right),
        median_ms=percentile(times, 0.5),
        p95_ms=percentile(times, 0.95),
    )


def _count(scores: Iterable[TurnScore], condition: Callable[[TurnScore], bool]) -> int:
    return sum(map(condition, scores))


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile; 0 of no values."""
    ordered = sorted(values)
    return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 3) if ordered else 0.0
