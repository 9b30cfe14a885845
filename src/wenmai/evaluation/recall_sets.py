"""Sets of conversations with questions about them, whose answers are in known messages.

Three formats: LoCoMo files; a folder with MemoryBank's ``history.json`` and ``questions.json``; JSON lines that
``wenmai import`` reads, with lines ``{"type": "question", "question", "evidence": [ids of messages], "category"?,
"any"?}`` between them.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import msgspec

from wenmai.errors import InvalidInput
from wenmai.evaluation.loading import unreadable
from wenmai.memory.recalled_items import Unit

_LOCOMO_ID = re.compile(r"D\d+:\d+")
_LOCOMO_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_HISTORY, _QUESTIONS = "history.json", "questions.json"


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
    file: Path | None
    lines: Sequence[Mapping[str, Any]] = ()
    questions: Sequence[RecallQuestion]


def load_recall_sets(path: Path) -> list[RecallSet]:
    """The sets of a file, or of all files of a folder.

    Raises:
        InvalidInput: nothing there can be used.
    """
    if not path.is_dir():
        return [_load_file(path)]
    if (path / _HISTORY).is_file() and (path / _QUESTIONS).is_file():
        return _load_memorybank(path)
    files = sorted([*path.glob("*.json"), *path.glob("*.jsonl")])
    if not files:
        raise InvalidInput("path", str(path), f"a folder with .json or .jsonl files, or with {_HISTORY}")
    return [_load_file(file) for file in files]


def _load_file(path: Path) -> RecallSet:
    if path.suffix == ".jsonl":
        return _load_lines(path)
    sample = _read_json(path)
    if not isinstance(sample, dict) or not isinstance(sample.get("qa"), list):
        raise InvalidInput("path", str(path), "a LoCoMo file, with `qa`")
    questions = []
    for asked in sample["qa"]:
        ids = [id_ for given in asked.get("evidence", ()) for id_ in _LOCOMO_ID.findall(given)]
        category = _LOCOMO_CATEGORIES.get(asked.get("category"), "other")
        if ids:
            text = str(asked["question"])
            questions.append(RecallQuestion(question=text, evidence=[[id_] for id_ in ids], category=category))
    return RecallSet(name=path.stem, unit="message", file=path, questions=questions)


def _load_lines(path: Path) -> RecallSet:
    lines, questions = [], []
    try:
        texts = path.read_text(encoding="utf-8").splitlines()
        for text in filter(str.strip, texts):
            line = msgspec.json.decode(text)
            if isinstance(line, dict) and line.get("type") == "question":
                evidence = [[id_] for id_ in line["evidence"]]
                given = {"category": "all", **{key: line[key] for key in ("category", "any") if key in line}}
                questions.append(RecallQuestion(question=line["question"], evidence=evidence, **given))
            else:
                lines.append(line)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError, KeyError) as problem:
        raise unreadable(path, problem) from problem
    return RecallSet(name=path.stem, unit="message", file=None, lines=lines, questions=questions)


def _load_memorybank(folder: Path) -> list[RecallSet]:
    history, asked = _read_json(folder / _HISTORY), _read_json(folder / _QUESTIONS)
    sets = []
    for user, given in history.items():
        lines = [line for day, turns in given["history"].items() for line in _turns_of(day, turns)]
        questions = [
            RecallQuestion(
                question=each["question"],
                evidence=[[_turn_message(day, index, role) for role in _ROLES] for day, index in each["evidence"]],
                category=each["kind"],
                any=each["alternatives"],
            )
            for each in asked
            if each["user"] == user
        ]
        sets.append(RecallSet(name=user, unit="turn", file=None, lines=lines, questions=questions))
    return sets


_ROLES: Mapping[Literal["user", "assistant"], str] = {"user": "query", "assistant": "response"}


def _turns_of(day: str, turns: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    began = datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC)
    return [
        {
            "session_id": f"day-{day}",
            "id": _turn_message(day, index, role),
            "role": role,
            "content": turn[field],
            "timestamp": (began + timedelta(minutes=index)).isoformat(),
        }
        for index, turn in enumerate(turns)
        for role, field in _ROLES.items()
    ]


def _turn_message(day: str, index: int, role: str) -> str:
    return f"{day}:{index}:{role}"


def _read_json(path: Path) -> Any:
    try:
        return msgspec.json.decode(path.read_bytes())
    except (OSError, RecursionError, msgspec.DecodeError) as problem:
        raise unreadable(path, problem) from problem
