"""The most memory that a process ever had."""

import os
import resource
from pathlib import Path


def peak_mb(process: int | None = None) -> float:
    """Resident megabytes of this process or, on Linux, of another one.

    On Linux of this program alone: ``getrusage`` remembers the process that forked it.
    """
    status = Path(f"/proc/{process or os.getpid()}/status")
    if process is not None or status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
