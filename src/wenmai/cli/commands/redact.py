"""``wenmai redact``: texts without private values."""

import sys
from typing import Annotated, Any

import msgspec
import typer

from wenmai.cli.terminal.output import expected_errors
from wenmai.errors import InvalidInput
from wenmai.text.redact import Redactor


class _Line(msgspec.Struct):
    text: str


def redact(
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help='Read JSON lines {"text"}; print them with their spans, not redacted')
    ] = False,
) -> None:
    """Filter standard input: replace e-mail addresses, telephone numbers, cards, ids, keys and secrets."""
    redactor = Redactor()
    given = sys.stdin.buffer
    with expected_errors():
        if not as_json:
            sys.stdout.buffer.write(_redacted(redactor, given.read()))
            return
        for number, line in enumerate(given, 1):
            if line.strip():
                sys.stdout.buffer.write(msgspec.json.encode(_with_spans(redactor, number, line)) + b"\n")
                sys.stdout.buffer.flush()


def _redacted(redactor: Redactor, data: bytes) -> bytes:
    """The whole input, since a private key has several lines.

    Raises:
        InvalidInput: it is not UTF-8; the error shows nothing of it, as it is not redacted.
    """
    try:
        return redactor.redact(data.decode()).encode()
    except UnicodeDecodeError as problem:
        raise InvalidInput(f"byte {problem.start}", "***", "text in UTF-8") from problem


def _with_spans(redactor: Redactor, number: int, line: bytes) -> dict[str, Any]:
    try:
        text = msgspec.json.decode(line, type=_Line).text
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise InvalidInput(f"line {number}", "***", 'a JSON object {"text": "…"}') from problem
    spans = [{"start": start, "end": end, "kind": kind} for start, end, kind in redactor.find(text)]
    return {"text": text, "spans": spans}
