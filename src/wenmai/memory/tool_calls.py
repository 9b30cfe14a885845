"""Tool calls and their results as short lines: what was called with which values, and the values of the result.

Calls are read in the form of OpenAI's chat API (``function`` with ``name`` and ``arguments``) and in that of LangChain
(``name`` and ``args``).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from wenmai.memory.sizes import ELLIPSIS
from wenmai.stores.records import Message

VALUES = 6
"""Most values of a call or a result that are shown."""

VALUE_CHARACTERS = 40
TEXT_CHARACTERS = 100
"""Of a result that is no JSON object or array."""

_PARSED_CHARACTERS = 100_000
_VISITED = 200
"""Items of a result that are looked at."""


def results_by_call(messages: Sequence[Message]) -> dict[str, Message]:
    """The results by the ids of their calls."""
    return {message.tool_call_id: message for message in messages if message.role == "tool" and message.tool_call_id}


def call_lines(message: Message, results: Mapping[str, Message]) -> Iterator[str]:
    """A line for each call of the message, with its result if there is one."""
    for call in message.tool_calls or ():
        result = results.get(str(call.get("id")))
        found = result_line(result) if result is not None else ""
        yield f"{_called(call)} → {found}" if found else _called(call)


def result_line(message: Message) -> str:
    """The values of a result, or the beginning of its text; "" for none."""
    text = message.content.strip()
    parsed = _parsed(text)
    if isinstance(parsed, dict | list):
        return _shown(parsed)
    return _beginning(" ".join(text[: 2 * TEXT_CHARACTERS].split()), TEXT_CHARACTERS)


def _called(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    named = function if isinstance(function, dict) else call
    arguments = named.get("arguments", named.get("args"))
    if isinstance(arguments, str):
        arguments = _parsed(arguments)
    shown = _shown(arguments) if isinstance(arguments, dict | list) else ""
    return f"{_beginning(str(named.get('name', '?')), VALUE_CHARACTERS)}({shown})"


def _parsed(text: str) -> Any:
    if not text.startswith(("{", "[")) or len(text) > _PARSED_CHARACTERS:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _shown(value: Any) -> str:
    found = list(islice(_values(value), VALUES + 1))
    return ", ".join([*found[:VALUES], *([ELLIPSIS] if len(found) > VALUES else [])])


def _values(value: Any) -> Iterator[str]:
    """The scalars with their keys, in breadth-first order, so that nesting costs no recursion."""
    level: list[tuple[str, Any]] = [("", value)]
    visited = 0
    while level and visited < _VISITED:
        deeper: list[tuple[str, Any]] = []
        for key, each in level:
            visited += 1
            if isinstance(each, dict):
                deeper += islice(each.items(), _VISITED)
            elif isinstance(each, list):
                deeper += ((key, item) for item in each[:_VISITED])
            elif each is not None and each != "":
                text = _beginning(" ".join(str(each)[: 2 * VALUE_CHARACTERS].split()), VALUE_CHARACTERS)
                yield f"{_beginning(key, VALUE_CHARACTERS)}={text}" if key else text
        level = deeper[:_VISITED]


def _beginning(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + ELLIPSIS
