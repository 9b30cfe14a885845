"""Decodes a file into lines, or raises an error that names its actual encoding."""

import re

from wenmai.errors import InvalidInput
from wenmai.grounding.evidence.fields import forbidden_character

LINE_BYTES = 1_000_000
"""Maximum size of a line."""

_UNDECODABLE = re.compile("[\udc80-\udcff]")
_BEYOND_ASCII = re.compile("[^\x00-\x7f\udc80-\udcff]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def decode(data: bytes, name: str) -> list[str]:
    """The lines of a UTF-8 file, without line ends (LF, CRLF or CR); a byte order mark is dropped.

    Single bytes that are not UTF-8 are kept in their line; :func:`line_problem` reports them.

    Raises:
        InvalidInput: the file is binary, or its text has another encoding.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidInput("file", name, "UTF-8: it is UTF-16, convert it with: iconv -f UTF-16 -t UTF-8")
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    controls = len(_CONTROLS.findall(text))
    if "\0" in text or controls * 100 > len(text):
        raise InvalidInput("file", name, "text: it holds binary data")
    undecodable = len(_UNDECODABLE.findall(text))
    if undecodable > len(_BEYOND_ASCII.findall(text)):
        raise InvalidInput("file", name, f"UTF-8: {_other_encoding(data)}")
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def line_problem(line: str) -> str | None:
    """Why a line cannot be used, or None if it can."""
    if _UNDECODABLE.search(line):
        return "not UTF-8"
    if len(line) * 4 > LINE_BYTES and len(line.encode()) > LINE_BYTES:
        return f"longer than {LINE_BYTES} bytes"
    found = forbidden_character(line)
    return f"it has the character {found}" if found else None


def _other_encoding(data: bytes) -> str:
    try:
        data.decode("gb18030")
    except UnicodeDecodeError:
        return "its encoding is not known"
    return "it looks like GBK or GB18030, convert it with: iconv -f GB18030 -t UTF-8"
