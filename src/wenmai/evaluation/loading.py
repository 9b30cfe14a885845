"""Loads sets of cases from YAML files: dialogues (``answers.yaml``), models' answers (``verification.yaml``)."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from wenmai.errors import InvalidInput
from wenmai.evaluation.cases import AnswerSet, Dialogue, ModelAnswer, StatementSet, Text, Texts
from wenmai.grounding.evidence.parsing import BadLine, parse
from wenmai.stores.records import EvidenceRecord

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STEP = re.compile(r"(\w+)|\[(\d+)\]")


class _SetFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Attributes of both kinds of files; ``evidence`` and ``profile`` are relative to the file."""

    evidence: Texts
    profile: Text | None = None
    persona: str | None = None


class _DialogueFile(_SetFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    dialogues: list[Dialogue]


class _StatementFile(_SetFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    answers: list[ModelAnswer]


def find_files(path: Path, name: str) -> list[Path]:
    """The file itself, or all files of that name below a folder, sorted.

    Raises:
        InvalidInput: the folder has no such file.
    """
    found = sorted(path.rglob(name)) if path.is_dir() else [path]
    if not found:
        raise InvalidInput("path", str(path), f"a folder with a file {name}")
    return found


def load_answer_set(path: Path, name: str) -> AnswerSet:
    """Read a file of dialogues.

    Raises:
        InvalidInput: the file or its evidence cannot be used; the error names the file and the field.
    """
    given = convert(_read_yaml(path), _DialogueFile, path)
    evidence = _evidence(path, given.evidence)
    known = {record.evidence_id for record in evidence}
    _check_unique(path, "dialogues", given.dialogues)
    for at, dialogue in enumerate(given.dialogues):
        for number, turn in enumerate(dialogue.turns):
            _check_known(path, f"dialogues[{at}].turns[{number}].cite", turn.cite, known)
    return AnswerSet(
        name=name,
        evidence=evidence,
        dialogues=given.dialogues,
        profile=_beside(path, given.profile),
        persona=given.persona,
    )


def load_statement_set(path: Path, name: str) -> StatementSet:
    """Read a file of models' answers; errors are those of :func:`load_answer_set`."""
    given = convert(_read_yaml(path), _StatementFile, path)
    evidence = _evidence(path, given.evidence)
    known = {record.evidence_id for record in evidence}
    _check_unique(path, "answers", given.answers)
    for at, answer in enumerate(given.answers):
        _check_known(path, f"answers[{at}].passages", answer.passages, known)
    return StatementSet(
        name=name, evidence=evidence, answers=given.answers, profile=_beside(path, given.profile), persona=given.persona
    )


_T = TypeVar("_T")


def convert(raw: Any, of: type[_T], path: Path | str) -> _T:
    """The value as a struct, or a collection of structs.

    Raises:
        InvalidInput: it has another shape; the error names the file and the field.
    """
    try:
        return msgspec.convert(raw, of)
    except msgspec.ValidationError as problem:
        reason, _, where = str(problem).partition(" - at `$")
        where = where.rstrip("`").removeprefix(".")
        field = f"{path}: {where}" if where else str(path)
        raise InvalidInput(field, _value_at(raw, where), f"allowed: {reason}") from problem


def _value_at(raw: Any, where: str) -> Any:
    """The value at a path such as ``dialogues[3].id``; of one with keys that it does not name, ``[...]``, the whole."""
    if "[...]" in where:
        return raw
    for name, index in _STEP.findall(where):
        raw = raw[int(index)] if index else raw[name]
    return raw


def unreadable(path: Path | str, problem: Exception) -> InvalidInput:
    """The error for a file that cannot be read or parsed."""
    return InvalidInput("path", str(path), f"a readable file: {problem}")


def _read_yaml(path: Path) -> Any:
    try:
        return _text_keys(yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader))  # noqa: S506 — both are safe
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise unreadable(path, problem) from problem


def _text_keys(value: Any) -> Any:
    """The value with all keys as text: YAML reads the key ``true`` as a boolean."""
    if isinstance(value, list):
        return [_text_keys(each) for each in value]
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key).lower(): _text_keys(each) for key, each in value.items()}
    return value


def _beside(path: Path, profile: str | None) -> str | None:
    """The path of a profile file; a name of a shipped profile is left as it is."""
    return str(path.parent / profile) if profile and profile.endswith((".yaml", ".yml")) else profile


def _evidence(path: Path, names: Sequence[str]) -> list[EvidenceRecord]:
    records: dict[str, EvidenceRecord] = {}
    for name in names:
        source = path.parent / name
        try:
            items = list(parse(source.read_bytes(), source.name))
        except OSError as problem:
            raise InvalidInput(f"{path}: evidence", name, f"a readable file: {problem.strerror}") from problem
        for item in items:
            if isinstance(item, BadLine):
                raise InvalidInput(f"{path}: evidence", f"{name}:{item.line}", f"readable: {item.reason}")
            if item.evidence_id in records:
                raise InvalidInput(f"{source}: evidence_id", item.evidence_id, "unique in the set")
            records[item.evidence_id] = item
    return list(records.values())


def _check_unique(path: Path, field: str, cases: Iterable[Dialogue | ModelAnswer]) -> None:
    seen: set[str] = set()
    for at, case in enumerate(cases):
        if case.id in seen:
            raise InvalidInput(f"{path}: {field}[{at}].id", case.id, "unique")
        seen.add(case.id)


def _check_known(path: Path, field: str, ids: Iterable[str], known: set[str]) -> None:
    for id_ in ids:
        if id_ not in known:
            raise InvalidInput(f"{path}: {field}", id_, "an id of the evidence")
