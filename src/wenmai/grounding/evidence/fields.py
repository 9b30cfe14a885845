"""Validation of evidence fields, and defaults for missing ones."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Annotated, Any, TypeVar

import msgspec

from wenmai.errors import InvalidInput
from wenmai.stores.records import EvidenceRecord
from wenmai.text.cjk import CJK, normalise

TEXT_CHARACTERS = 20_000
"""Maximum length of a passage."""

TITLE_CHARACTERS = 200
ID_CHARACTERS = 128
_DEFAULT_TITLE_CHARACTERS = 40

_FORBIDDEN = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters other than white space, which terminals execute and stores reject; and lone surrogates."""

_LINE_BREAK_OR_TAB = re.compile("[\t-\r]+")
_CJK_CHARACTER = re.compile(f"[{CJK}]")
_LATIN_WORD = re.compile(r"[A-Za-zÀ-ÿ]+")
_LIST_SEPARATOR = re.compile(r"[;；,，、|]")
_LIST_FIELDS = ("domains", "tags")

_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=ID_CHARACTERS, pattern=r"^[^\x00-\x1f]+$")]
_Title = Annotated[str, msgspec.Meta(max_length=TITLE_CHARACTERS)]
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=TEXT_CHARACTERS, pattern=r"\S")]
_Short = Annotated[str, msgspec.Meta(max_length=500)]
_Words = Annotated[list[Annotated[str, msgspec.Meta(min_length=1, max_length=100)]], msgspec.Meta(max_length=50)]
_Language = Annotated[str, msgspec.Meta(pattern="^[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*$")]
_Day = Annotated[str, msgspec.Meta(pattern=r"^(\d{4}-\d{2}-\d{2})?$")]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class SourceFields(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Fields of a whole source, for example in the front matter of a file; see EvidenceRecord."""

    title: _Title = ""
    source_type: _Short = ""
    source_ref: _Short = ""
    source_url: _Short = ""
    domains: _Words = []
    language: _Language | None = None
    confidence: _Share = 1.0
    verified: bool = True
    tags: _Words = []
    effective_date: _Day = ""
    supersedes: _Short = ""

    def __post_init__(self) -> None:
        if self.effective_date:
            try:
                date.fromisoformat(self.effective_date)
            except ValueError as problem:
                raise ValueError(f"`effective_date` is a day of the calendar: {problem}") from problem
        if self.supersedes and not self.effective_date:
            raise ValueError("a source with `supersedes` has an `effective_date`")
        if self.supersedes and self.supersedes == self.source_ref:
            raise ValueError("`supersedes` is the source_ref of another version, not the source's own")


class PassageFields(SourceFields, kw_only=True, forbid_unknown_fields=True):
    """Fields of one passage; only the text is required."""

    text: _Text
    evidence_id: _Id | None = None


_F = TypeVar("_F", bound=SourceFields)


def source_fields(given: Mapping[str, Any], *, where: str, lax: bool = False) -> SourceFields:
    """Validate the fields of a source; see :func:`record_from` for ``lax``.

    Raises:
        InvalidInput: a field is unknown or not allowed; the error names ``where`` and the field.
    """
    return _checked(given, SourceFields, where=where, lax=lax)


def record_from(given: Mapping[str, Any], *, source_ref: str = "", lax: bool = False) -> EvidenceRecord:
    """A record from the fields of one passage.

    Defaults: the title is the beginning of the text, the language is detected, the id is made by :func:`stable_id`.
    ``domains`` and ``tags`` may be one text, separated by ``;`` or ``,``.

    Args:
        given: the fields of :class:`EvidenceRecord` by name; only ``text`` is required, empty lists and texts count as
            missing.
        source_ref: default source.
        lax: accept numbers and ``true`` or ``false`` as text, as in a CSV file.

    Raises:
        InvalidInput: a field is unknown, missing or not allowed; the error names it.
    """
    fields = _checked(given, PassageFields, where="evidence", lax=lax)
    text = fields.text.strip()
    title = _LINE_BREAK_OR_TAB.sub(" ", fields.title.strip() or _beginning(text))
    source = fields.source_ref or source_ref
    return EvidenceRecord(
        evidence_id=fields.evidence_id or stable_id(source, title, text),
        title=title,
        text=text,
        source_type=fields.source_type or "document",
        source_ref=source,
        source_url=fields.source_url,
        domains=fields.domains,
        language=fields.language or detect_language(text),
        confidence=fields.confidence,
        verified=fields.verified,
        tags=fields.tags,
        effective_date=fields.effective_date,
        supersedes=fields.supersedes,
    )


def check_record(record: EvidenceRecord) -> None:
    """Validate a record that was not made by :func:`record_from`.

    Raises:
        InvalidInput: a field is not allowed; the error names it.
    """
    _checked(msgspec.structs.asdict(record), PassageFields, where="evidence")


def stable_id(source_ref: str, heading: str, text: str) -> str:
    """``ev-`` and 20 hex digits, a hash of source, heading and wording.

    Ingesting a source again gives the same ids, and an edited paragraph changes only its own. Case, character width and
    white space are not part of the wording.
    """
    wording = " ".join(normalise(text).split())
    return "ev-" + hashlib.sha256(f"{source_ref}\0{heading}\0{wording}".encode()).hexdigest()[:20]


def detect_language(text: str) -> str:
    """``zh`` or ``en``: whether the text has more Chinese characters or more Latin words.

    Other languages are never detected.
    """
    return "zh" if len(_CJK_CHARACTER.findall(text)) > len(_LATIN_WORD.findall(text)) else "en"


def forbidden_character(text: str) -> str | None:
    """The first character that is not allowed in any field, as ``U+001B``; None if there is none."""
    found = _FORBIDDEN.search(text)
    return f"U+{ord(found[0]):04X}" if found else None


def primary_language(tag: str) -> str:
    """The first subtag of a BCP 47 tag, in lower case: ``zh`` of ``zh-Hans-CN``."""
    return tag.partition("-")[0].lower()


def _checked(given: Mapping[str, Any], of: type[_F], *, where: str, lax: bool = False) -> _F:
    plain = {name: value for name, value in given.items() if value not in ("", None)}
    for name in _LIST_FIELDS:
        if isinstance(plain.get(name), str):
            plain[name] = [word.strip() for word in _LIST_SEPARATOR.split(plain[name]) if word.strip()]
    try:
        checked = msgspec.convert(plain, of, strict=not lax)
    except msgspec.ValidationError as problem:
        reason, _, path = str(problem).partition(" - at `$.")
        name = path.rstrip("`") or "fields"
        raise InvalidInput(f"{where}.{name}", plain.get(name, ""), f"allowed: {reason}") from problem
    for name, value in plain.items():
        _check_characters(f"{where}.{name}", value)
    return checked


def _check_characters(field: str, value: object) -> None:
    for text in value if isinstance(value, list) else [value]:
        found = forbidden_character(text) if isinstance(text, str) else None
        if found:
            raise InvalidInput(field, text, f"allowed: it has the character {found}")


def _beginning(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= _DEFAULT_TITLE_CHARACTERS else line[: _DEFAULT_TITLE_CHARACTERS - 1] + "…"


def with_default_domains(record: EvidenceRecord, domains: Sequence[str]) -> EvidenceRecord:
    """The passage with these domains, if it has none of its own."""
    return record if record.domains else msgspec.structs.replace(record, domains=list(domains))
