"""Screening of values on their way to a store: texts in records, messages, tool calls and metadata."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from wenmai.stores.records import Block, Message, NewMessage, Record, TurnStep
from wenmai.stores.structs import SearchEntry
from wenmai.stores.values import MAX_DEPTH, MAX_INTEGER, MIN_INTEGER
from wenmai.text.redact import Kind, Redactor

R = TypeVar("R", bound=Record)
T = TypeVar("T")

_IDS = frozenset({"session_id", "incarnation", "npc_id", "persona_id", "trace_id", "evidence_id", "message_id", "turn"})
"""Names of members that hold ids, which are no conversation: an id that looked private would be lost."""

_PUBLIC = frozenset({"citations", "policy_mode", "timestamp"})
"""Names of members that hold evidence, or no text of a user."""

_UNSCREENED = _IDS | _PUBLIC

_PUBLIC_BLOCKS = frozenset({"system", "evidence"})
"""Blocks of a prompt that the site's editors and sources wrote."""

_PLAIN = frozenset({type(None), bool, int, float, datetime, msgspec.UnsetType})
"""Types of values without a text; most of a record's values are texts or these."""

_NESTED = (dict, list, tuple, Mapping)
"""Types of values that have others; those that are recognised faster come first."""

_LABELLED = 200
"""Characters up to which a member's name is read with its value, as in ``{"password": "…"}``."""

_LEAST_DIGITS, _PHONE_DIGITS = 3, 11
"""An integer with fewer digits is not private; one without the label of a telephone is one with so many."""


LARGE = 8_000
"""Characters from which on values are screened in a worker thread."""


_RECENT, _RECENT_CHARACTERS = 512, 4_000
"""How many screened texts are remembered, and their size: a turn stores its texts several times."""

_CLEAN, _CLEAN_BYTES = 2_000, 2_000
"""How many structs without private values are remembered, and their size: a state is stored with its last changes."""

_NOT_ENCODED = (TypeError, ValueError, OverflowError, RecursionError)
"""Errors of encoding a value that the store refuses."""


class Screening:
    """Replaces private values. What has none is returned as it is, the same object."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._recent = lru_cache(_RECENT)(redactor.redact)
        self._clean: set[tuple[type, bytes | None]] = set()

    def record(self, record: R) -> R:
        """The record with its declared private fields screened."""
        return _with_changes(record, {name: self.value(getattr(record, name)) for name in record.spec.private})

    def message(self, message: NewMessage) -> NewMessage:
        """The message with its private fields screened."""
        texts = {name: each for name in Message.private if type(each := getattr(message, name)) not in _PLAIN}
        return _with_changes(message, {name: self.value(each) for name, each in texts.items()})

    def entry(self, entry: SearchEntry) -> SearchEntry:
        """The search entry with its text screened."""
        return _with_changes(entry, {"text": self.text(entry.text)})

    def text(self, text: str) -> str:
        """The text without private values; one in JSON stays JSON."""
        if type(text) is not str:
            return text  # the store refuses it
        if text.lstrip()[:1] in ("{", "["):
            screened = self._json(text)
            if screened is not None:
                return screened
        redacted = self._recent(text) if len(text) <= _RECENT_CHARACTERS else self._redactor.redact(text)
        return text if redacted == text else redacted

    def _json(self, text: str) -> str | None:
        """A text in JSON, whose values may be escaped; None if it is not JSON, or too deep."""
        try:
            given = msgspec.json.decode(text)
            screened = self.value(given)
        except (msgspec.DecodeError, RecursionError):
            return None
        return text if screened is given else msgspec.json.encode(screened).decode()

    def member(self, name: Any, value: Any, depth: int = 1) -> Any:
        """A member of an object, whose name may be its label, or of a list, which has a number."""
        if name in _UNSCREENED:
            return value
        if type(value) is int:
            return self._number(str(name), value)
        if isinstance(name, str) and isinstance(value, str) and len(value) <= _LABELLED and '"' not in value:
            return self._labelled(name, value)
        return self.value(value, depth + 1)

    def value(self, value: Any, depth: int = 1) -> Any:
        """A value as it can be stored in JSON, with everything in it screened."""
        if type(value) is str or type(value) in _PLAIN:
            return self.text(value) if type(value) is str else value
        if isinstance(value, msgspec.Struct) or not isinstance(value, _NESTED):
            return self._single(value, depth)
        if depth > MAX_DEPTH:
            return value  # the store refuses it
        # One call for each level, so that the deepest value that a store accepts does not exhaust the stack.
        pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
        screened = []
        for key, each in pairs:
            if isinstance(each, msgspec.Struct) and self._is_clean(each):
                screened.append(each)
                continue
            nested = type(each) is not str and isinstance(each, _NESTED) and key not in _UNSCREENED
            screened.append(self.value(each, depth + 1) if nested else self.member(key, each, depth))
        if isinstance(value, Mapping):
            names = self._names(value)
            if names or any(new is not old for new, old in zip(screened, value.values(), strict=True)):
                return {names.get(key, key): new for key, new in zip(value, screened, strict=True)}
        elif any(new is not old for new, old in zip(screened, value, strict=True)):
            return screened
        return value

    def _struct(self, value: msgspec.Struct, depth: int) -> msgspec.Struct:
        encoded = _encoded(value)
        if (type(value), encoded) in self._clean:
            return value
        fields = {name: getattr(value, name) for name in value.__struct_fields__ if name not in _UNSCREENED}
        texts = {name: each for name, each in fields.items() if type(each) not in _PLAIN}
        screened = _with_changes(value, {name: self.value(each, depth + 1) for name, each in texts.items()})
        if screened is value and encoded is not None and len(encoded) <= _CLEAN_BYTES:
            if len(self._clean) >= _CLEAN:
                self._clean.clear()
            self._clean.add((type(value), encoded))
        return screened

    def _is_clean(self, value: msgspec.Struct) -> bool:
        """Whether the struct is known to have no private values."""
        return _is_public(value) or (type(value), _encoded(value)) in self._clean

    def _single(self, value: Any, depth: int) -> Any:
        """A struct, a text, or another value that JSON has a form for."""
        if isinstance(value, msgspec.Struct):
            return value if _is_public(value) else self._struct(value, depth)
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int | float | datetime):
            return value
        try:
            plain = msgspec.to_builtins(value, str_keys=True)
        except _NOT_ENCODED:
            return value  # the store refuses it
        screened = plain if plain is value else self.value(plain, depth + 1)
        return value if screened is plain else screened

    def _names(self, value: Mapping[Any, Any]) -> dict[str, str]:
        """The names of members that are private, each with the name in its place."""
        names: dict[str, str] = {}
        numbers: Counter[str] = Counter()
        for key in value:
            name = self.text(key) if isinstance(key, str) else key
            if name is not key:
                numbers[name] += 1
                while (numbered := f"{name} {numbers[name]}") in value:
                    numbers[name] += 1
                names[key] = numbered
        return names

    def _labelled(self, name: str, value: str) -> str:
        before = f'"{name}": "'
        redacted = self._redactor.redact(f'{before}{value}"')
        if redacted == f'{before}{value}"':
            return value
        if redacted.startswith(before) and redacted.endswith('"'):
            return redacted[len(before) : -1]
        return self.text(value)

    def _number(self, name: str, value: int) -> Any:
        written = str(value) if MIN_INTEGER <= value <= MAX_INTEGER else ""  # the store refuses others
        if len(written) < _LEAST_DIGITS:
            return value
        found = self._redactor.find(f'"{name}": "{written}"')
        unlabelled = self._redactor.find(written) if found and found[0].kind == Kind.PHONE else []
        if not found or (unlabelled and len(written) != _PHONE_DIGITS):
            return value
        return f"[REDACTED_{found[0].kind}]"


def _encoded(value: msgspec.Struct) -> bytes | None:
    """The struct in MessagePack; None if it has no form there."""
    try:
        return msgspec.msgpack.encode(value)
    except _NOT_ENCODED:
        return None


def _is_public(value: Any) -> bool:
    """Whether a struct has no text of a user: a step of a turn, or a block that the site wrote."""
    return isinstance(value, TurnStep) or (isinstance(value, Block) and value.kind in _PUBLIC_BLOCKS)


def _with_changes(value: T, fields: Mapping[str, Any]) -> T:
    changed = {name: each for name, each in fields.items() if each is not getattr(value, name)}
    return msgspec.structs.replace(value, **changed) if changed else value  # type: ignore[type-var] # structs only


def size_of(value: Any, most: int, depth: int = 0) -> int:
    """About how many characters a value has; counted up to ``most``, in structs as encoded."""
    if type(value) in _PLAIN:
        return 0
    if isinstance(value, str):
        return len(value)
    if depth > MAX_DEPTH or _is_public(value):
        return 0
    if isinstance(value, msgspec.Struct):
        encoded = _encoded(value)
        if encoded is not None and (depth or len(encoded) <= most):
            return len(encoded)
        value = [getattr(value, name) for name in value.__struct_fields__]
    parts: Any = ()
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, list | tuple):
        parts = value
    total = 0
    for part in parts:
        total += size_of(part, most, depth + 1)
        if total > most:
            break
    return total
