"""Sets of conversations with questions about them, whose answers are in known messages.

Three formats: LoCoMo files, of one conversation or a list of them; a folder with MemoryBank's ``history.json`` and
``questions.json``; JSON lines that ``wenmai import`` reads, with lines ``{"type": "question", "question", "evidence":
[ids of messages], "category"?, "any"?}`` between them.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from wenmai.errors import InvalidInput
from wenmai.evaluation.loading import convert, unreadable
from wenmai.memory.recalled_items import QUERY_LIMIT, Unit

_LOCOMO_ID = re.compile(r"D\d+:\d+")
_LOCOMO_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_HISTORY, _QUESTIONS = "history.json", "questions.json"
_MARK = b"\xef\xbb\xbf"

_Question = Annotated[str, Meta(min_length=1, max_length=QUERY_LIMIT, pattern=r"\S")]


class _LocomoQuestion(msgspec.Struct):
    question: _Question
    evidence: list[str] = []
    category: int | None = None


class _LocomoSample(msgspec.Struct):
    qa: list[_LocomoQuestion]


class _LineQuestion(msgspec.Struct):
    question: _Question
    evidence: Annotated[list[str], Meta(min_length=1)]
    category: str = "all"
    any: bool = False


class _BankTurn(msgspec.Struct):
    query: str
    response: str


class _BankUser(msgspec.Struct):
    history: dict[date, list[_BankTurn]]


class _BankQuestion(msgspec.Struct):
    user: str
    question: _Question
    evidence: Annotated[list[tuple[date, int]], Meta(min_length=1)]
    alternatives: bool
    kind: str


class RecallQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question, and the ids of the messages that answer it.

    Attributes:
        evidence: for each part of the answer, messages of which one is enough.
        any: whether one part is enough.
    """

    question: str
    evidence: list[list[str]]
    category: str
    any: bool = False


class RecallSet(msgspec.Struct, frozen=True, kw_only=True):
    """Conversations of one user, and questions about them.

    Attributes:
        file: imported as it is; None if there are ``lines``.
        lines: lines for an import.
    """

    name: str
    unit: Unit
    questions: Sequence[RecallQuestion]
    file: Path | None = None
    lines: Sequence[Mapping[str, Any]] = ()


def load_recall_sets(path: Path) -> list[RecallSet]:
    """The sets of a file, or of all files of a folder.

    Raises:
        InvalidInput: a file cannot be used, or there is no question; the error names the file and the place in it.
    """
    sets = _load_folder(path) if path.is_dir() else _load_file(path)
    if not any(each.questions for each in sets):
        raise InvalidInput("path", str(path), "conversations with questions whose answers are in known messages")
    return sets


def _load_folder(path: Path) -> list[RecallSet]:
    if (path / _HISTORY).is_file() and (path / _QUESTIONS).is_file():
        return _load_memorybank(path)
    files = sorted([*path.glob("*.json"), *path.glob("*.jsonl")])
    if not files:
        raise InvalidInput("path", str(path), f"a folder with .json or .jsonl files, or with {_HISTORY}")
    return [each for file in files for each in _load_file(file)]


def _load_file(path: Path) -> list[RecallSet]:
    if path.suffix == ".jsonl":
        return [_load_lines(path)]
    document = _decoded(path, _read(path))
    if isinstance(document, list):
        samples = convert(document, list[_LocomoSample], path)
        return [
            RecallSet(name=f"{path.stem}-{number}", unit="message", lines=[given], questions=_locomo_questions(sample))
            for number, (given, sample) in enumerate(zip(document, samples, strict=True), start=1)
        ]
    sample = convert(document, _LocomoSample, path)
    return [RecallSet(name=path.stem, unit="message", file=path, questions=_locomo_questions(sample))]


def _locomo_questions(sample: _LocomoSample) -> list[RecallQuestion]:
    """The questions that name messages."""
    questions = []
    for asked in sample.qa:
        ids = [id_ for given in asked.evidence for id_ in _LOCOMO_ID.findall(given)]
        category = "other" if asked.category is None else _LOCOMO_CATEGORIES.get(asked.category, "other")
        if ids:
            questions.append(
                RecallQuestion(question=asked.question, evidence=[[id_] for id_ in ids], category=category)
            )
    return questions


def _load_lines(path: Path) -> RecallSet:
    lines, questions = [], []
    # Not str.splitlines, for which a text may contain the end of a line.
    for number, text in enumerate(_read(path).split(b"\n"), start=1):
        if not text.strip():
            continue
        line = _decoded(path, text, number)
        if isinstance(line, dict) and line.get("type") == "question":
            given = convert(line, _LineQuestion, f"{path}:{number}")
            evidence = [[id_] for id_ in given.evidence]
            questions.append(
                RecallQuestion(question=given.question, evidence=evidence, category=given.category, any=given.any)
            )
        else:
            lines.append(line)
    return RecallSet(name=path.stem, unit="message", lines=lines, questions=questions)


def _load_memorybank(folder: Path) -> list[RecallSet]:
    file, questions_file = folder / _HISTORY, folder / _QUESTIONS
    history = convert(_decoded(file, _read(file)), dict[str, _BankUser], file)
    asked = convert(_decoded(questions_file, _read(questions_file)), list[_BankQuestion], questions_file)
    sets = []
    for user, given in history.items():
        lines = [line for day, turns in given.history.items() for line in _turns_of(day, turns)]
        questions = [
            RecallQuestion(
                question=each.question,
                evidence=[[_turn_message(day, index, role) for role in _ROLES] for day, index in each.evidence],
                category=each.kind,
                any=each.alternatives,
            )
            for each in asked
            if each.user == user
        ]
        sets.append(RecallSet(name=user, unit="turn", lines=lines, questions=questions))
    return sets


_ROLES: Sequence[Literal["user", "assistant"]] = ("user", "assistant")


def _turns_of(day: date, turns: Sequence[_BankTurn]) -> list[dict[str, Any]]:
    began = datetime.combine(day, time(12), UTC)
    return [
        {
            "session_id": f"day-{day}",
            "id": _turn_message(day, index, role),
            "role": role,
            "content": content,
            "timestamp": (began + timedelta(minutes=index)).isoformat(),
        }
        for index, turn in enumerate(turns)
        for role, content in zip(_ROLES, (turn.query, turn.response), strict=True)
    ]


def _turn_message(day: date, index: int, role: str) -> str:
    return f"{day}:{index}:{role}"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes().removeprefix(_MARK)
    except OSError as problem:
        raise unreadable(path, problem) from problem


def _decoded(path: Path, text: bytes, line: int = 0) -> Any:
    try:
        return msgspec.json.decode(text)
    except (RecursionError, UnicodeDecodeError, msgspec.DecodeError) as problem:
        raise unreadable(f"{path}:{line}" if line else path, problem) from problem
