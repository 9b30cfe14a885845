"""Finds private values in a text and replaces them."""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import re2

from wenmai.errors import InvalidInput
from wenmai.text.redact import assignments, email, network, numbers, phone, statements, tokens
from wenmai.text.redact.folded import STOP, Folded
from wenmai.text.redact.rule import Check, Found, Kind, Rule, Span, expression

_SIGNS = (
    r"[0-9](?:[^0-9A-Za-z]{0,4}[0-9]){2}|@|[0-9A-Za-z_\-]{18}|::|-----BEGIN|(?i)pass|pwd|secret|token|pin\b|credential|api.?key|kennwort|contrase"
    r"|密码|密碼|口令|密钥|秘钥|key|码|\[at\]|\(at\)|bearer|basic| dot |pw\b"
)
"""What a text with a private value has at least."""

_PASSES = 4
"""A secret can hide another value, whose label it swallowed: what is left is searched again. Nearly always the second
pass finds nothing."""

_SHAPED = frozenset(Kind) - {Kind.SECRET, Kind.API_KEY}
"""Kinds whose values have a shape of their own and swallow nothing."""

_LAST_ASCII = 127

_MAX_MEMORY = 1 << 20
"""Bytes for a compiled rule of a tenant."""


class ExtraRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A further kind of private values, given as data.

    Attributes:
        kind: its name in capitals, for the placeholder.
        pattern: an expression of RE2; its first group, or without one the whole match, is the value.
    """

    kind: str
    pattern: str


class _Compiled(NamedTuple):
    """A rule with its compiled pattern."""

    kind: str
    regex: Any
    check: Check | None = None
    world: bool = False


class _Group(NamedTuple):
    """Rules whose values have the same sign; without one they are always tried."""

    sign: Any
    rules: Sequence[_Compiled]


class Redactor:
    """Finds and replaces private values, in linear time.

    Args:
        extra: rules beyond the built-in ones, over which they take precedence.

    Raises:
        InvalidInput: an extra rule has no valid kind, or a pattern that RE2 refuses or that matches nothing visible.
    """

    def __init__(self, extra: Iterable[ExtraRule] = ()) -> None:
        own = [_Compiled(rule.kind, _extra_expression(rule)) for rule in extra]
        self._signs = None if own else expression(_SIGNS)
        self._groups: Sequence[_Group] = [_Group(None, own), *_built_in()]

    def find(self, text: str) -> list[Span]:
        """The private values of a text, ascending, without overlaps; placeholders are none.

        Raises:
            UnicodeEncodeError: the text has a lone surrogate.
        """
        folded = Folded(text)
        data = folded.data
        if self._signs is not None and self._signs.search(data) is None:
            return []
        found = _claimed(data, self._groups)
        offsets = folded.given([(span.start, span.end) for span in found])
        return [Span(start, end, span.kind) for (start, end), span in zip(offsets, found, strict=True)]

    def redact(self, text: str) -> str:
        """The text with each private value replaced by its placeholder; redacting it again changes nothing."""
        for _ in range(_PASSES):
            spans = self.find(text)
            if not spans:
                break
            text = _replaced(text, spans)
            if all(span.kind in _SHAPED for span in spans):
                break
        return text


def _replaced(text: str, spans: Sequence[Span]) -> str:
    kept = chain([0], (span.end for span in spans))
    pieces = [text[start : span.start] + f"[REDACTED_{span.kind}]" for start, span in zip(kept, spans, strict=False)]
    return "".join([*pieces, text[spans[-1].end :]])


def _claimed(data: bytes, groups: Sequence[_Group]) -> list[Span]:
    """The values that the rules find; where two overlap, that of the earlier rule, and the rest of a secret."""
    world, placeholders = not data.isascii(), STOP in data
    taken = bytearray(len(data))
    found: list[Span] = []
    signed = (group.rules for group in groups if group.sign is None or group.sign.search(data) is not None)
    for kind, regex, check, only_world in chain.from_iterable(signed):
        if only_world and not world:
            continue
        for match in regex.finditer(data):
            if placeholders and STOP in data[match.start() : match.end()]:
                continue
            span = Span(match.start(1), match.end(1), kind) if check is None else check(Found(data, match))
            if span is None or span.start >= span.end:
                continue
            if placeholders and STOP in data[max(0, span.start - 1) : span.end + 1]:
                continue
            if taken.find(1, span.start, span.end) < 0:
                pieces = [span]
            elif span.kind == Kind.SECRET:
                pieces = _untaken(data, taken, span)
            else:
                continue
            for piece in pieces:
                taken[piece.start : piece.end] = b"\1" * (piece.end - piece.start)
            found += pieces
    return sorted(found)


def _untaken(data: bytes, taken: bytearray, span: Span) -> list[Span]:
    """The parts of a secret that are not taken and have letters or digits."""
    parts, start = [], span.start
    for end in range(span.start, span.end + 1):
        if end == span.end or taken[end]:
            if any(byte > _LAST_ASCII or chr(byte).isalnum() for byte in data[start:end]):
                parts.append(Span(start, end, span.kind))
            start = end + 1
    return parts


def _extra_expression(rule: ExtraRule) -> Any:
    if not expression(r"\A[A-Z][A-Z0-9_]{0,31}\z").search(rule.kind):
        raise InvalidInput("kind", rule.kind, "1 to 32 capitals, digits and underscores, a capital first")
    options = re2.Options()
    options.log_errors, options.max_mem = False, _MAX_MEMORY
    try:
        compiled = re2.compile(rule.pattern, options)
        if not compiled.groups:
            compiled = re2.compile(f"({rule.pattern})", options)
    except re2.error as problem:
        raise InvalidInput("pattern", rule.pattern, f"an expression of RE2: {problem}") from problem
    if compiled.search(b"") is not None:
        raise InvalidInput("pattern", rule.pattern, "an expression that does not match an empty text")
    return compiled


@cache
def _built_in() -> list[_Group]:
    """The rules, the specific ones first."""
    groups: list[tuple[str, Sequence[Rule]]] = [
        (tokens.SIGN, tokens.RULES),
        ("://", [assignments.IN_URLS]),
        (email.SIGN, email.RULES),
        (network.IPV6_SIGN, network.IPV6),
        (numbers.SIGN, numbers.RULES),
        (phone.SIGN, phone.RULES),
        (network.IPV4_SIGN, network.IPV4),
        (assignments.SIGN, assignments.RULES),
        (statements.SIGN, statements.RULES),
    ]
    return [_Group(expression(sign), [_compiled(rule) for rule in rules]) for sign, rules in groups]


def _compiled(rule: Rule) -> _Compiled:
    return _Compiled(rule.kind, expression(rule.pattern), rule.check, rule.world)
