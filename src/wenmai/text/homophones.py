"""Common Chinese characters that sound alike, which an input method offers for one another."""

from functools import cache
from importlib.resources import files


def homophones(character: str) -> frozenset[str]:
    """The common characters with its sound, without it; none of a rare one."""
    return _by_character().get(character, frozenset()) - {character}


@cache
def _by_character() -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for line in (files(__package__) / "homophones.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            alike = frozenset(line.partition(" ")[2])
            found.update({character: found.get(character, frozenset()) | alike for character in alike})
    return found
