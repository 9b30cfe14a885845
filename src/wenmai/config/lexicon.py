"""A lexicon: the words of one field, as data. All are optional; without them, shared words decide alone.

A word is in Chinese or English. English ones match as whole words, with ``*`` at the end with any ending
(``rescu*``), Chinese ones anywhere. A word between slashes is a regular expression: ``/灯(?!泡)/``.
"""

import re
from collections.abc import Iterator
from typing import Annotated

import msgspec

from wenmai.text.patterns import word_pattern

_Group = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z_]{0,31}$")]
Groups = dict[_Group, list[str]]
"""Synonyms by group; the group's name is never matched itself."""


class LexiconWords(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The words of one field, as a profile gives them; plain data that can be stored and merged.

    Attributes:
        topics: names and subjects of the evidence. A question that leaves its subject out gets the latest of the
            conversation; they are counted as interests.
        entities: things that can be asked about, by kind; the persona names them when it cannot answer.
        synonyms: words of the field that stand for one another, by group.
        events: the same for deeds and events: a date, a number or a person answers only in a clause with the one that
            is asked about.
        place_kinds: words for places: at the end of a Chinese name, or in an English one.
        titles: titles of persons, at the end of a Chinese name.
        not_names: words that have the form of a name and are none.
        sources: words for sources, as in "the log book does not say so".
        addresses: words by which personas address the user.
        list_items: words for the items of a list, as in "the third item".
        measure_words: Chinese words that follow a number directly.
    """

    topics: list[str] = []
    entities: Groups = {}
    synonyms: Groups = {}
    events: Groups = {}
    place_kinds: list[str] = []
    titles: list[str] = []
    not_names: list[str] = []
    sources: list[str] = []
    addresses: list[str] = []
    list_items: list[str] = []
    measure_words: list[str] = []

    def __post_init__(self) -> None:
        for word in self.all_words():
            try:
                usable = bool(word.strip()) and re.compile(word_pattern(word)).groups == 0
            except re.error:
                usable = False
            if not usable:
                raise ValueError(f"`{word}` is no word and no regular expression without groups")

    def all_words(self) -> Iterator[str]:
        """Every word of every field."""
        for field in self.__struct_fields__:
            value = getattr(self, field)
            yield from (word for words in value.values() for word in words) if isinstance(value, dict) else value
