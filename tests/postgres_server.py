"""A real PostgreSQL with pgvector, from a wheel, in a folder of its own, reached through a Unix socket."""

import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import quote

from alembic.util import CommandError as CommandError  # noqa: PLC0414


class PostgresServer:
    """Starts the server when it is asked for and stops it at the end; a stopped one can be started again."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._server: Any = None
