"""Messages as OpenAI's chat API takes and gives them, in our fields; for what is appended and what is imported.

A content may be text, null beside tool calls, or a list of parts. Roles that have another name here are renamed. What
has no field of ours goes into the metadata.
"""

from collections.abc import Mapping
from typing import Any

RENAMED_ROLES = {"developer": "system", "function": "tool"}
"""The original is kept in the metadata."""

BESIDES = ("refusal", "annotations", "audio", "function_call", "reasoning_content")
"""Fields of that API which have none here."""

_TEXTS = ("refusal", "reasoning_content")
_KEPT_CHARACTERS = 1_000
"""Longer texts in what is not text, such as the bytes of a picture, are left out."""


def in_our_fields(given: Mapping[str, Any], besides: Mapping[str, Any]) -> dict[str, Any]:
    """The message in the fields of :class:`~wenmai.stores.records.NewMessage`, without those that are null.

    Nothing is checked: values that are of no use are handed on as they are.

    Args:
        given: its fields that have the name of one of ours.
        besides: its other fields, which become metadata.
    """
    fields = {field: value for field, value in given.items() if value is not None and value != []}
    content, others = _joined(given.get("content"))
    noted: dict[str, Any] = {}
    role = fields.get("role")
    if isinstance(role, str) and role in RENAMED_ROLES:
        fields["role"], noted["role"] = RENAMED_ROLES[role], role
    if others:
        noted["parts"] = others
    if content is None and (besides or others or fields.get("tool_calls")):
        refusal = besides.get("refusal")
        content = refusal if isinstance(refusal, str) else ""
    if content is not None:
        fields["content"] = content
    kept = {field: _kept(field, value) for field, value in besides.items() if value not in (None, [], {})}
    if (kept or noted) and isinstance(fields.get("metadata", {}), dict):
        fields["metadata"] = kept | fields.get("metadata", {}) | noted
    return fields


def _kept(field: str, value: object) -> object:
    return value if field in _TEXTS else _shortened(value)


def _joined(content: object) -> tuple[object, list[object]]:
    """The text of a list of parts, and the parts that are no text; any other content as it is."""
    if not isinstance(content, list):
        return content, []
    texts, others = [], []
    for part in content:
        text = part.get("text", part.get("refusal")) if isinstance(part, dict) else part
        if isinstance(text, str):
            texts.append(text)
        else:
            others.append(_shortened(part))
    return "\n".join(texts), others


def _shortened(value: object) -> object:
    if isinstance(value, dict):
        return {key: _shortened(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_shortened(each) for each in value]
    if isinstance(value, str) and len(value) > _KEPT_CHARACTERS:
        return f"{value[:40]}… ({len(value)} characters left out)"
    return value
