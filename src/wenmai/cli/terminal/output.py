"""Output and exit of commands: results on stdout, everything else on stderr, one line for an expected error."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import typer

from wenmai.errors import InvalidInput, UnsupportedUrl, WenmaiError
from wenmai.text.printable import printable
from wenmai.text.redact.log_filter import install_log_filter

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130
_MAX_LISTED = 20


@contextmanager
def expected_errors() -> Iterator[None]:
    """Turn a :class:`WenmaiError` into one line on stderr and an exit status, and Ctrl-C into status 130."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    install_log_filter()
    try:
        yield
    except WenmaiError as problem:
        print_stderr(f"wenmai: {problem}")
        bad_input = isinstance(problem, InvalidInput | UnsupportedUrl)
        raise typer.Exit(BAD_INPUT if bad_input else FAILED) from problem
    except KeyboardInterrupt as stop:
        raise typer.Exit(INTERRUPTED) from stop


def print_stderr(line: str) -> None:
    """Print a line on stderr."""
    typer.echo(printable(line), err=True)


def report_skipped(skipped: Sequence[object], count: int) -> None:
    """Print the first 20 skipped items and their total number."""
    for item in skipped[:_MAX_LISTED]:
        print_stderr(str(item))
    if count > len(skipped[:_MAX_LISTED]):
        print_stderr(f"… and {count - len(skipped[:_MAX_LISTED])} more")
    if count:
        print_stderr(f"skipped: {count}")


def pluralize(count: int, noun: str) -> str:
    """The count with its noun: ``1 session``, ``2 sessions``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
