"""``wenmai version``."""

import platform
from importlib.metadata import version as installed

import typer


def version() -> None:
    """Print the versions of Wenmai and Python."""
    typer.echo(f"wenmai {installed('wenmai')} (Python {platform.python_version()})")
