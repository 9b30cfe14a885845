"""The entry point of the ``wenmai`` command."""

import os
import sys


def main() -> None:
    """Run the command line; exits with 0, 1 for a failure, 2 for bad input, 130 after Ctrl-C."""
    try:
        from wenmai.cli.app import app  # noqa: PLC0415 — to report a missing package
    except ModuleNotFoundError as missing:
        if missing.name not in ("typer", "rich"):
            raise
        sys.exit(f"wenmai: {missing.name} is not installed; pip install 'wenmai[serve]'")
    try:
        app(prog_name="wenmai")
    except KeyboardInterrupt:  # before or after what a command expects it in
        sys.exit(130)
    except OSError as problem:
        # Standard output cannot be written; what is left in its buffer would fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(f"wenmai: {problem}")
