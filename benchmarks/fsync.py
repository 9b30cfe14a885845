"""The library of ``slow_fsync.c``: made where there is a C compiler, loaded into the measured processes."""

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).with_name("slow_fsync.c")


def build(folder: Path) -> Path | str:
    """Compile the library into ``folder``; its path, or why there is none."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        return "counting and slowing fsync needs Linux and a C compiler named cc"
    library = folder / "slow_fsync.so"
    done = subprocess.run(
        [compiler, "-O2", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return library if done.returncode == 0 else f"{SOURCE.name} does not compile: {done.stderr.strip()}"


class FsyncMeter:
    """Counts and slows the fsyncs of this process, if it was started with the library."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self.available = hasattr(self._library, "wenmai_fsync_calls")

    def calls(self) -> int | None:
        """How many there were since the start, or None if nobody counts."""
        return self._library.wenmai_fsync_calls() if self.available else None

    def pause(self, micros: int) -> None:
        """Add so much to each from now on."""
        if self.available:
            self._library.wenmai_fsync_pause(ctypes.c_long(micros))
