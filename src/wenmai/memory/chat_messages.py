"""Converts messages of OpenAI's chat API to our fields, for appends and imports.

Content may be text, null beside tool calls, or a list of parts. Roles with another name here are renamed. Fields that
we do not have are put into the metadata.
"""

from collections.abc import Mapping
from typing import Any

RENAMED_ROLES = {"developer": "system", "function": "tool"}
"""The original role is kept in the metadata."""

EXTRA_FIELDS = ("refusal", "annotations", "audio", "function_call", "reasoning_content")
"""Fields of that API without a field of ours."""

CAPTION = "caption"
"""In a message's metadata: describes in words what is attached, such as a picture; recall finds it."""

_TEXTS = ("refusal", "reasoning_content")
_MAX_CHARACTERS = 1_000
"""Longer strings in parts that are not text, such as the bytes of a picture, are cut."""


def to_message_fields(given: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """The message in the fields of :class:`~wenmai.stores.records.NewMessage`, without null values.

    Nothing is validated: invalid values are passed on unchanged.

    Args:
        given: the fields whose names are ours.
        extra: the other fields, which become metadata.
    """
    fields = {field: value for field, value in given.items() if value is not None and value != []}
    content, others = _split_parts(given.get("content"))
    converted: dict[str, Any] = {}
    role = fields.get("role")
    if isinstance(role, str) and role in RENAMED_ROLES:
        fields["role"], converted["role"] = RENAMED_ROLES[role], role
    if others:
        converted["parts"] = others
    if content is None and (extra or others or fields.get("tool_calls")):
        refusal = extra.get("refusal")
        content = refusal if isinstance(refusal, str) else ""
    if content is not None:
        fields["content"] = content
    kept = {field: _extra_value(field, value) for field, value in extra.items() if value not in (None, [], {})}
    if (kept or converted) and isinstance(fields.get("metadata", {}), dict):
        fields["metadata"] = kept | fields.get("metadata", {}) | converted
    return fields


def _extra_value(field: str, value: object) -> object:
    return value if field in _TEXTS else _shortened(value)


def _split_parts(content: object) -> tuple[object, list[object]]:
    """The joined text of a list of parts, and its parts that are not text; any other content unchanged."""
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
    if isinstance(value, str) and len(value) > _MAX_CHARACTERS:
        return f"{value[:40]}… ({len(value)} characters left out)"
    return value
