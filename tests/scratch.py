"""Where tests keep their files: in memory if there is plenty, as no test cuts the power, and syncing takes long."""

import shutil
from pathlib import Path

_MEMORY = Path("/dev/shm")  # noqa: S108 — on Linux, a file system in memory
_PLENTY = 8 << 30
"""Free bytes; a run leaves two gigabytes."""


def scratch_folder() -> str | None:
    """The folder for temporary files; None for the one of the system."""
    return str(_MEMORY) if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _PLENTY else None
