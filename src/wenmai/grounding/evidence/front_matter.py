"""Front matter: YAML between two lines of ``---`` at the top of a file; its fields apply to every passage.

A flat mapping of names to texts or lists of texts, at most :data:`CHARACTERS` long. Anchors, aliases and tags
are rejected: with them a few hundred bytes can expand to gigabytes.
"""

from collections.abc import Iterator
from typing import Any

import yaml

from wenmai.errors import InvalidInput
from wenmai.grounding.evidence.fields import SourceFields, source_fields

CHARACTERS = 4_000
LINES = 100
"""The front matter must end within these first lines, else the file has none."""

_MARK = "---"
_FLAT = "a flat list of fields, one 'name: value' a line"
_PLAIN_VALUES = dict.fromkeys(("~", "null", "Null", "NULL"), "") | {
    form: value
    for word, value in (("yes", "true"), ("on", "true"), ("no", "false"), ("off", "false"))
    for form in (word, word.capitalize(), word.upper())
}
"""YAML's unquoted words for null and booleans; ``true`` and numbers are converted by their field."""


def front_matter(lines: list[str], name: str) -> tuple[SourceFields, int]:
    """The fields of the front matter and its number of lines, 0 if there is none.

    Raises:
        InvalidInput: it is too long, is not YAML or not flat, or has a field that is unknown or not allowed.
    """
    numbers = range(1, min(len(lines), LINES))
    end = next((number for number in numbers if lines[number].rstrip() == _MARK), 0)
    if end == 0 or lines[0].rstrip() != _MARK:
        return SourceFields(), 0
    where = f"{name}:1-{end + 1}"
    content = lines[1:end]
    if sum(map(len, content)) > CHARACTERS:
        raise InvalidInput(where, "front matter", f"at most {CHARACTERS} characters long")
    return source_fields(_fields("\n".join(content), where), where=where, lax=True), end + 1


def _fields(text: str, where: str) -> dict[str, Any]:
    try:
        return _flat(yaml.parse(text, Loader=yaml.SafeLoader))
    except _NotFlatError as bad:
        raise InvalidInput(where, "front matter", str(bad)) from bad
    except (yaml.YAMLError, ValueError, OverflowError) as bad:  # the last two are raised for numbers in escapes
        raise InvalidInput(where, "front matter", f"YAML: {' '.join(str(bad).split())}") from bad


class _NotFlatError(Exception):
    """The YAML is more than a flat list of fields; the message says what is allowed."""


def _flat(events: Iterator[yaml.Event]) -> dict[str, Any]:
    """The fields, read from the parser's events, so that no disallowed value is ever built."""
    found: dict[str, Any] = {}
    nodes = (event for event in events if isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent))
    if not isinstance(_allowed(next(nodes, None)), yaml.MappingStartEvent | None):
        raise _NotFlatError(_FLAT)
    for key in nodes:
        if isinstance(key, yaml.MappingEndEvent):
            break
        field = _scalar(key)
        if field in found:
            raise _NotFlatError(f"{_FLAT}, each field once")
        value = _allowed(next(nodes))
        found[field] = _sequence(nodes) if isinstance(value, yaml.SequenceStartEvent) else _scalar(value)
    if next(nodes, None) is not None:
        raise _NotFlatError(_FLAT)
    return found


def _sequence(nodes: Iterator[yaml.Event]) -> list[str]:
    found: list[str] = []
    while not isinstance(each := next(nodes), yaml.SequenceEndEvent):
        found.append(_scalar(each))
    return found


def _scalar(event: yaml.Event | None) -> str:
    scalar = _allowed(event)
    if not isinstance(scalar, yaml.ScalarEvent):
        raise _NotFlatError(_FLAT)
    value: str = scalar.value
    return _PLAIN_VALUES.get(value, value) if scalar.implicit[0] else value


def _allowed(event: yaml.Event | None) -> yaml.Event | None:
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) or getattr(event, "tag", None):
        raise _NotFlatError("YAML without anchors, aliases and tags")
    return event
