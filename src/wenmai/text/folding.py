"""Traditional Chinese characters folded to simplified ones, so that both find each other.

By single characters, not by phrases: a character is folded alike in a text and in a question, whatever stands around
it. The result is for matching only, never for display: 乾隆 becomes 干隆.
"""

from functools import cache


def fold(text: str) -> str:
    """The text with each traditional character replaced by its simplified form; the length stays the same."""
    if text.isascii():
        return text
    traditional, table = _load()
    return text if traditional.isdisjoint(text) else text.translate(table)


@cache
def _load() -> tuple[frozenset[str], dict[int, str]]:
    """The traditional characters, and the table of their simplified forms, from OpenCC's dictionary."""
    # Imported late: `import wenmai` is light, and this takes about 50 ms.
    from opencc import OpenCC  # noqa: PLC0415  see above

    han = [chr(code) for first, end in ((0x3400, 0xA000), (0x20000, 0x323B0)) for code in range(first, end)]
    folded = OpenCC("t2s").convert("\n".join(han)).split("\n")
    table = {given: simple for given, simple in zip(han, folded, strict=True) if given != simple}
    return frozenset(table), str.maketrans(table)
