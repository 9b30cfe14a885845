"""How commands speak and end: results on stdout, all else on stderr; one clear line for an expected error."""

import logging
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import typer

from wenmai.errors import InvalidInput, UnsupportedUrl, WenmaiError

BAD_INPUT = 2
INTERRUPTED = 130
_SHOWN = 20
_OBEYED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_HARMLESS = frozenset("\n\t\u200c\u200d")


@contextmanager
def expected_errors() -> Iterator[None]:
    """Turn an error of ours into a line on stderr and an exit status, and Ctrl-C into a quiet end."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        yield
    except WenmaiError as problem:
        complain(f"wenmai: {problem}")
        bad_input = isinstance(problem, InvalidInput | UnsupportedUrl)
        raise typer.Exit(BAD_INPUT if bad_input else 1) from problem
    except KeyboardInterrupt as stop:
        raise typer.Exit(INTERRUPTED) from stop


def complain(line: str) -> None:
    """A line on stderr."""
    typer.echo(printable(line), err=True)


def printable(text: str) -> str:
    """The text without what a terminal would obey: control and format characters but line breaks, tabs and joiners.

    Answers, titles and sources come from models and files; escape sequences and reversed text must stay there.
    """
    if text.isprintable():
        return text
    return "".join(sign for sign in text if sign in _HARMLESS or unicodedata.category(sign) not in _OBEYED)


def name_skipped(skipped: Sequence[object], count: int) -> None:
    """Name what was skipped, the first 20, and say how many there are in all."""
    for bad in skipped[:_SHOWN]:
        complain(str(bad))
    if count > len(skipped[:_SHOWN]):
        complain(f"… and {count - len(skipped[:_SHOWN])} more")
    if count:
        complain(f"skipped: {count}")


def counted(count: int, thing: str) -> str:
    """``1 session``, ``2 sessions``."""
    return f"{count} {thing}{'' if count == 1 else 's'}"
