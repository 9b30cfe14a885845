"""The pages for people: static files that use the public API, with the rights of whoever opens them.

Nothing of a page is made on the server, so it keeps nothing for an open page, and any worker serves any file.
"""

from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

CONTENT_SECURITY_POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
"""No script or style but our own files, and no other host."""

_MEDIA_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class PageFile(NamedTuple):
    """A file of the pages."""

    content: bytes
    media_type: str
    etag: str


@cache
def page_files() -> dict[str, PageFile]:
    """All files by path; read when first asked for."""
    return dict(_files(resources.files("wenmai.console") / "static"))


def _files(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, PageFile]]:
    for file in folder.iterdir():
        suffix = f".{file.name.rpartition('.')[2]}"
        if file.is_dir():
            yield from _files(file, f"{prefix}{file.name}/")
        elif suffix in _MEDIA_TYPES:
            content = file.read_bytes()
            etag = f'"{blake2b(content, digest_size=12).hexdigest()}"'
            yield f"{prefix}{file.name}", PageFile(content, _MEDIA_TYPES[suffix], etag)
