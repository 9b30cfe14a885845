"""Labelled cases: dialogues (``answers.yaml``) and statements (``verification.yaml``) over a set of evidence."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import yaml

from wenmai.errors import InvalidInput
from wenmai.grounding.evidence.parsing import BadLine, parse
from wenmai.stores.records import EvidenceRecord

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Half = Literal["tuned", "aside", "all"]
Expectation = Literal["answer", "hold_back", "courtesy"]
_Text = Annotated[str, msgspec.Meta(min_length=1, pattern=r"\S")]
_Texts = Annotated[list[_Text], msgspec.Meta(min_length=1)]


class Turn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question and what its answer must be.

    Attributes:
        category: any name; figures are given for each.
        expect: ``answer`` from the evidence, ``hold_back`` because the evidence does not have it, ``courtesy``.
        cite: evidence ids, one of which must be cited; with ``cite_all`` all of them.
        show: groups of alternatives; one of each group must occur in the answer.
        never: texts that must not occur in the answer.
    """

    ask: _Text
    category: _Text
    expect: Expectation
    cite: list[_Text] = []
    cite_all: bool = False
    show: list[_Texts] = []
    never: list[_Text] = []

    def __post_init__(self) -> None:
        if self.expect == "answer" and not self.cite:
            raise ValueError("`cite` is missing: an answer cites a passage")
        if self.expect != "answer" and (self.cite or self.cite_all or self.show):
            raise ValueError(f"`cite`, `cite_all` and `show` are for `expect: answer`, not {self.expect}")


class Dialogue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Turns of one session.

    Attributes:
        id: unique in its set; its hash decides the half.
        persona: who is asked, instead of the persona of the set.
    """

    id: _Text
    language: _Text
    turns: Annotated[list[Turn], msgspec.Meta(min_length=1)]
    persona: str | None = None


class Statement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a model's answer.

    Attributes:
        lie: the false part; default: the whole text without its citation marks.
    """

    text: _Text
    true: bool
    kind: _Text
    lie: _Text | None = None

    def __post_init__(self) -> None:
        if self.true and self.lie is not None:
            raise ValueError("`lie` is for false statements")
        if self.lie is not None and self.lie not in self.text:
            raise ValueError("`lie` is not a part of `text`")


class ModelAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer as a model would write it: its statements, joined.

    Attributes:
        passages: evidence ids of the passages that the model was given, numbered from 1.
    """

    id: _Text
    language: _Text
    question: _Text
    passages: _Texts
    statements: Annotated[list[Statement], msgspec.Meta(min_length=1)]


class _SetFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Attributes of both kinds of files; ``evidence`` and ``profile`` are relative to the file."""

    evidence: _Texts
    profile: _Text | None = None
    persona: str | None = None


class _DialogueFile(_SetFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    dialogues: list[Dialogue]


class _StatementFile(_SetFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    answers: list[ModelAnswer]


class AnswerSet(msgspec.Struct, frozen=True, kw_only=True):
    """Dialogues over one set of evidence; ``profile`` is a path or None for the configured one."""

    name: str
    evidence: list[EvidenceRecord]
    dialogues: list[Dialogue]
    profile: str | None = None
    persona: str | None = None


class StatementSet(msgspec.Struct, frozen=True, kw_only=True):
    """Models' answers over one set of evidence; see :class:`AnswerSet`."""

    name: str
    evidence: list[EvidenceRecord]
    answers: list[ModelAnswer]
    profile: str | None = None
    persona: str | None = None


def in_half(id_: str, half: Half) -> bool:
    """Whether the case belongs to the half: SHA-256 of the id even (``tuned``) or odd (``aside``)."""
    odd = hashlib.sha256(id_.encode()).digest()[-1] % 2
    return half == "all" or odd == (half == "aside")


def dialogues_in(given: AnswerSet, half: Half) -> AnswerSet:
    """The set with the dialogues of the half only."""
    kept = [each for each in given.dialogues if in_half(each.id, half)]
    return msgspec.structs.replace(given, dialogues=kept)


def answers_in(given: StatementSet, half: Half) -> StatementSet:
    """The set with the answers of the half only."""
    return msgspec.structs.replace(given, answers=[each for each in given.answers if in_half(each.id, half)])


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


def convert(raw: Any, of: type[_T], path: Path) -> _T:
    """The value as a struct.

    Raises:
        InvalidInput: it has another shape; the error names the file and the field.
    """
    try:
        return msgspec.convert(raw, of)
    except msgspec.ValidationError as problem:
        reason, _, where = str(problem).partition(" - at `$")
        field = f"{path}: {where.rstrip('`').removeprefix('.')}" if where else str(path)
        raise InvalidInput(field, "the value", f"allowed: {reason}") from problem


def unreadable(path: Path, problem: Exception) -> InvalidInput:
    """The error for a file that cannot be read or parsed."""
    return InvalidInput("path", str(path), f"a readable file: {problem}")


def _read_yaml(path: Path) -> Any:
    try:
        return _text_keys(yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader))  # noqa: S506 — both are safe
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise unreadable(path, problem) from problem


def _text_keys(value: Any) -> Any:
    """The value with the key ``true`` as text; YAML reads it as a boolean."""
    if isinstance(value, list):
        return [_text_keys(each) for each in value]
    if isinstance(value, dict):
        return {"true" if key is True else key: _text_keys(each) for key, each in value.items()}
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
