"""Milvus Lite: the server of a file, in this process, shared by the stores that have the file open."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from milvus_lite.server_manager import server_manager_instance

from wenmai.errors import StoreUnavailable

_LOCK = Lock()
_USERS: Counter[str] = Counter()
"""Open stores by path: the driver has one server per path and process, and does not count."""


@contextmanager
def lite_server(file: Path) -> Iterator[str]:
    """The address of the file's server, on the loopback interface; the last user's exit releases the file.

    Raises:
        StoreUnavailable: the file cannot be opened, as when another process has it open.
    """
    path = str(file.resolve())
    with _LOCK:
        file.parent.mkdir(parents=True, exist_ok=True)
        uri = server_manager_instance.start_and_get_uri(path)
        if uri is None:
            raise StoreUnavailable("milvus", f"{file} cannot be opened; one process at a time may have it open")
        _USERS[path] += 1
    try:
        yield uri
    finally:
        with _LOCK:
            _USERS[path] -= 1
            if not _USERS[path]:
                del _USERS[path]
                server_manager_instance.release_server(path)
