"""The size of a message in a prompt (content, tool calls and names), and how it is shortened.

A chat API reads all of these, so all of them count wherever characters or tokens are counted.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from wenmai.stores.records import Message, NewMessage
from wenmai.text.tokens import TokenCounter

ELLIPSIS = "…"

_IDENTIFYING = frozenset({"id", "type", "name", "index"})
"""Fields of a tool call that are never shortened, because results refer to the call by them."""

_SHORTENED = "shortened"
_EMPTY = len(f'{{"{_SHORTENED}":""}}')
_UNESCAPED = str.maketrans({'"': "'", "\\": "/"} | {chr(code): " " for code in range(0x20)})
"""Replaces characters that JSON escapes, so that the encoded length of shortened arguments is known beforehand."""


def has_only_content(message: Message | NewMessage) -> bool:
    """Whether content is all that a model reads of the message, as with nearly all messages."""
    return message.name is message.tool_call_id is None and not message.tool_calls


def count_characters(message: Message) -> int:
    """The code points of everything in the message that a model reads."""
    others = _others(message)
    return len(message.content) + sum(map(len, others)) if others else len(message.content)


def count_message_tokens(message: Message | NewMessage, count_tokens: TokenCounter) -> int:
    """The tokens of everything in the message that a model reads."""
    others = _others(message)
    tokens = count_tokens(message.content)
    return tokens + sum(map(count_tokens, others)) if others else tokens


def longest_part(message: Message) -> int:
    """The length of the longest part of the message, in characters."""
    return max(len(message.content), *map(len, _others(message)), 0)


def shorten(message: Message, length: int, count_tokens: TokenCounter) -> Message:
    """The message with each part longer than ``length`` shortened to that many characters.

    Tool call arguments remain valid JSON: the shortened text becomes the only field of an object. A name that is too
    long is removed. Ids are kept, so that calls and results still match.
    """
    calls = message.tool_calls and [_shortened_call(call, length) for call in message.tool_calls]
    name = message.name if message.name is not None and len(message.name) <= length else None
    content = _beginning(message.content, length)
    if (content, calls, name) == (message.content, message.tool_calls, message.name):
        return message
    shortened = msgspec.structs.replace(message, content=content, tool_calls=calls, name=name)
    return msgspec.structs.replace(shortened, tokens=count_message_tokens(shortened, count_tokens))


def _others(message: Message | NewMessage) -> Sequence[str]:
    """The texts of the message other than its content."""
    if has_only_content(message):
        return ()  # fast path: each turn counts a whole window
    calls = _json(message.tool_calls) if message.tool_calls else None
    return [text for text in (calls, message.tool_call_id, message.name) if text]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _beginning(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    return text[: length - 1] + ELLIPSIS if length else ""


def _shortened_call(call: Mapping[str, Any], length: int) -> dict[str, Any]:
    return {field: value if field in _IDENTIFYING else _shortened_value(value, length) for field, value in call.items()}


def _shortened_value(value: Any, length: int) -> Any:
    if isinstance(value, dict) and "name" in value:
        return _shortened_call(value, length)  # the called function, with its name and arguments
    if not isinstance(value, str | dict | list):
        return value
    text = value if isinstance(value, str) else _json(value)
    if len(text) <= length:
        return value
    if isinstance(value, str) and not value.lstrip().startswith(("{", "[")):
        return _beginning(value, length)
    room = length - _EMPTY
    left = {_SHORTENED: _beginning(text[: room + 1].translate(_UNESCAPED), room)} if room > 1 else {}
    return _json(left) if isinstance(value, str) else left
