"""Reading sets as dialogues of one question: JSON in the shape of SQuAD (also DRCD), or of CMRC."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from wenmai.errors import InvalidInput
from wenmai.evaluation.cases import AnswerSet, Dialogue, Half, Turn, in_half
from wenmai.evaluation.loading import convert, unreadable
from wenmai.grounding.evidence.fields import detect_language, record_from
from wenmai.stores.records import EvidenceRecord

ANSWERABLE, IMPOSSIBLE, ABSENT = "reading", "impossible", "absent"
"""Categories: answered by an ingested passage; marked impossible by the set; about a passage that is not ingested."""


class ReadingLimits(NamedTuple):
    """How much of a reading set is used.

    Attributes:
        documents: passages ingested.
        questions: asked about them; None for one of each passage.
        unanswerable: questions asked about passages that are not ingested.
    """

    documents: int = 200
    questions: int | None = None
    unanswerable: int = 100


class _SquadAnswer(msgspec.Struct, frozen=True):
    text: str


class _SquadQuestion(msgspec.Struct, frozen=True):
    id: str
    question: str
    answers: list[_SquadAnswer] = []
    is_impossible: bool = False


class _SquadParagraph(msgspec.Struct, frozen=True):
    context: str
    qas: list[_SquadQuestion]
    id: str = ""


class _SquadArticle(msgspec.Struct, frozen=True):
    paragraphs: list[_SquadParagraph]
    title: str = ""


class _Squad(msgspec.Struct, frozen=True):
    data: list[_SquadArticle]


class _CmrcQuestion(msgspec.Struct, frozen=True):
    query_id: str
    query_text: str
    answers: list[str]


class _CmrcPassage(msgspec.Struct, frozen=True):
    context_id: str
    context_text: str
    qas: list[_CmrcQuestion]
    title: str = ""


class _Question(NamedTuple):
    """A question with its accepted answers; none if the passage does not answer it."""

    id: str
    text: str
    answers: list[str]


class _Passage(NamedTuple):
    record: EvidenceRecord
    questions: list[_Question]


def load_reading_set(path: Path, name: str, limits: ReadingLimits, half: Half) -> AnswerSet:
    """The passages to ingest and the questions of the half, by the id of their passage.

    Passages, and the questions of each, are taken in the order of a hash of their id: one question of each passage,
    then the second of each, until there are enough.

    Raises:
        InvalidInput: the file has neither shape; the error names the file and the field.
    """
    passages = sorted(_merged(_passages(path)), key=lambda each: _order(each.record.evidence_id))
    ingested, others = passages[: limits.documents], passages[limits.documents :]
    asked = [each for each in ingested if in_half(each.record.evidence_id, half)]
    absent = [each for each in others if in_half(each.record.evidence_id, half)]
    questions = len(asked) if limits.questions is None else limits.questions
    dialogues = [_dialogue(question, passage) for passage, question in islice(_round_robin(asked), questions)]
    dialogues += [
        _dialogue(question, passage, absent=True)
        for passage, question in islice(_round_robin(absent), limits.unanswerable)
    ]
    return AnswerSet(name=name, evidence=[each.record for each in ingested], dialogues=dialogues)


def _order(id_: str) -> str:
    return hashlib.sha256(id_.encode()).hexdigest()


def _round_robin(passages: Sequence[_Passage]) -> Iterator[tuple[_Passage, _Question]]:
    ordered = [
        [(passage, each) for each in sorted(passage.questions, key=lambda question: _order(question.id))]
        for passage in passages
    ]
    return (each for round_ in zip_longest(*ordered) for each in round_ if each is not None)


def _dialogue(question: _Question, passage: _Passage, *, absent: bool = False) -> Dialogue:
    if absent or not question.answers:
        turn = Turn(ask=question.text, category=ABSENT if absent else IMPOSSIBLE, expect="hold_back")
    else:
        cite = [passage.record.evidence_id]
        turn = Turn(ask=question.text, category=ANSWERABLE, expect="answer", cite=cite, show=[question.answers])
    return Dialogue(id=question.id, language=detect_language(question.text), turns=[turn])


def _passages(path: Path) -> Iterator[_Passage]:
    try:
        raw = msgspec.json.decode(path.read_bytes())
    except (OSError, ValueError) as problem:
        raise unreadable(path, problem) from problem
    shape, of = _SHAPES.get(type(raw), (None, None))
    if shape is None or of is None:
        raise InvalidInput("path", str(path), "a reading set: an object with `data`, or a list of passages")
    return shape(convert(raw, of, path), path)


def _from_squad(squad: _Squad, path: Path) -> Iterator[_Passage]:
    for article in squad.data:
        for paragraph in article.paragraphs:
            questions = [
                _Question(each.id, each.question, [] if each.is_impossible else [a.text for a in each.answers])
                for each in paragraph.qas
            ]
            yield _Passage(_record(path, paragraph.id, article.title, paragraph.context), questions)


def _from_cmrc(passages: Iterable[_CmrcPassage], path: Path) -> Iterator[_Passage]:
    for each in passages:
        questions = [_Question(question.query_id, question.query_text, question.answers) for question in each.qas]
        yield _Passage(_record(path, each.context_id, each.title, each.context_text), questions)


_SHAPES: dict[type, tuple[Callable[[Any, Path], Iterator[_Passage]], Any]] = {
    dict: (_from_squad, _Squad),
    list: (_from_cmrc, list[_CmrcPassage]),
}


def _record(path: Path, id_: str, title: str, text: str) -> EvidenceRecord:
    try:
        return record_from({"evidence_id": id_, "title": title, "text": text, "source_ref": title})
    except InvalidInput as problem:
        raise InvalidInput(f"{path}: {id_}", title, f"a passage: {problem}") from problem


def _merged(passages: Iterable[_Passage]) -> list[_Passage]:
    """Passages with one id joined; without an id of its own, a passage has one made of its text."""
    merged: dict[str, _Passage] = {}
    for each in passages:
        known = merged.setdefault(each.record.evidence_id, _Passage(each.record, []))
        known.questions.extend(each.questions)
    return list(merged.values())
