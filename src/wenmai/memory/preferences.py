"""Session preferences: how the user likes to be answered, by every persona; never a source of facts.

A choice overrides an inference: fields that the user set are in ``chosen``, and inference does not change them.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import get_args, get_type_hints

import msgspec

from wenmai.errors import InvalidInput, SessionNotFound, VersionConflict
from wenmai.memory.inference import REMOVED_TAG, TAG, Inferred, infer
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.records import Preferences
from wenmai.stores.structs import Stored
from wenmai.stores.update import update

MAX_TAGS = 20
MAX_TAG_LENGTH = 40
MAX_REMOVED_TAGS = 200
"""How many removed tags are remembered, so that inference does not add them again."""
FIELDS = ("verbosity", "tone", "language")
"""The fields of one value each."""

_LANGUAGE_TAG = r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}"
"""BCP 47 tags of a language with script, region or variant."""

_CHOICES = {
    field: get_args(hint) for field, hint in get_type_hints(Preferences).items() if field in ("verbosity", "tone")
}


class PreferenceChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change made by the user; None keeps a field.

    Attributes:
        interest_tags: replaces all tags.
        add_interest_tags: adds tags; the newest 20 are kept.
        remove_interest_tags: removes tags; inference does not add them again.
        clear: of :data:`FIELDS`, those that get their default again and are open to inference.
    """

    verbosity: str | None = None
    tone: str | None = None
    language: str | None = None
    interest_tags: Sequence[str] | None = None
    add_interest_tags: Sequence[str] = ()
    remove_interest_tags: Sequence[str] = ()
    clear: Sequence[str] = ()


class SessionPreferences(msgspec.Struct, frozen=True):
    """The current preferences, and when they were last changed (None: never)."""

    values: Preferences
    updated_at: datetime | None


class _NothingToStore(Exception):
    """The preferences stay the defaults, and no record is made for them."""


class PreferenceBook:
    """Reads and changes the preferences of sessions."""

    def __init__(self, documents: Documents, *, default_language: str = "zh") -> None:
        self._documents = documents
        self._default_language = default_language

    async def get(self, scope: Scope, session_id: str, *, incarnation: str = "") -> SessionPreferences:
        """The stored preferences of the session, else the defaults; also if it is another incarnation."""
        stored = await self._documents.get(scope, Preferences, session_id)
        if stored is not None and incarnation not in ("", stored.record.incarnation):
            stored = None
        return self._view(session_id, stored)

    async def set(
        self, scope: Scope, session_id: str, change: PreferenceChange, *, incarnation: str = ""
    ) -> SessionPreferences:
        """Apply the user's change; returns the stored preferences.

        Args:
            scope: the owner of the session.
            session_id: of the session.
            change: see :class:`PreferenceChange`.
            incarnation: of the session; "" for the one that has the id now.

        Raises:
            InvalidInput: a value is not allowed; nothing is changed.
            SessionNotFound: the session is absent, foreign, or another incarnation.
        """
        checked = _checked(change)
        return await self._update(scope, session_id, incarnation, lambda current: self._chosen(current, checked))

    async def restore(self, scope: Scope, preferences: Preferences) -> None:
        """Store preferences as they are, unless the session has some.

        Raises:
            InvalidInput: a value is not allowed.
            SessionNotFound: the session is absent, foreign, or another incarnation.
        """
        checked_language(preferences.language)
        if len(_checked_tags("interest_tags", preferences.interest_tags)) > MAX_TAGS:
            raise InvalidInput("interest_tags", preferences.interest_tags, f"at most {MAX_TAGS} tags")
        with suppress(VersionConflict):
            await self._documents.put(scope, preferences, expected=0)

    async def infer(
        self,
        scope: Scope,
        session_id: str,
        windows: Sequence[Sequence[tuple[str, str]]],
        topic_words: Sequence[str],
        *,
        incarnation: str = "",
    ) -> SessionPreferences:
        """Infer from each window of the user's messages in turn; returns the stored preferences.

        A message is ``(turn reference, text)``; messages and windows ascend.

        Raises:
            SessionNotFound: the session is absent, foreign, or another incarnation than the one named.
        """

        def inferred(current: Preferences) -> Preferences:
            return _inferred(current, windows, topic_words)

        return await self._update(scope, session_id, incarnation, inferred)

    async def would_change(
        self, scope: Scope, session_id: str, windows: Sequence[Sequence[tuple[str, str]]], topic_words: Sequence[str]
    ) -> bool:
        """Whether :meth:`infer` would change the preferences."""
        current = (await self.get(scope, session_id)).values
        return _inferred(current, windows, topic_words) != current

    def _chosen(self, current: Preferences, change: PreferenceChange) -> Preferences:
        defaults = Preferences(session_id=current.session_id, language=self._default_language)
        return _chosen(current, change, {field: getattr(defaults, field) for field in change.clear})

    def _view(self, session_id: str, stored: Stored[Preferences] | None) -> SessionPreferences:
        if stored is None:
            return SessionPreferences(Preferences(session_id=session_id, language=self._default_language), None)
        return SessionPreferences(stored.record, stored.updated_at)

    async def _update(
        self, scope: Scope, session_id: str, incarnation: str, edit: Callable[[Preferences], Preferences]
    ) -> SessionPreferences:
        def edited(stored: Stored[Preferences] | None) -> Preferences:
            if stored is not None and incarnation not in ("", stored.record.incarnation):
                raise SessionNotFound(session_id)
            current = self._view(session_id, stored).values
            new = edit(current)
            if stored is None and new == current:
                raise _NothingToStore
            return new if new.incarnation else msgspec.structs.replace(new, incarnation=incarnation)

        try:
            kept = await update(self._documents, scope, Preferences, session_id, edited)
        except _NothingToStore:
            kept = None
        return self._view(session_id, kept)


def _checked(change: PreferenceChange) -> PreferenceChange:
    for field, allowed in _CHOICES.items():
        value = getattr(change, field)
        if value is not None and value not in allowed:
            raise InvalidInput(field, value, f"one of {', '.join(allowed)}")
    if change.language is not None:
        checked_language(change.language)
    unknown = [field for field in change.clear if field not in FIELDS or getattr(change, field) is not None]
    if unknown:
        raise InvalidInput("clear", unknown, f"fields among {', '.join(FIELDS)} that are not set by the same change")
    tags = {
        field: _checked_tags(field, getattr(change, field) or ())
        for field in ("interest_tags", "add_interest_tags", "remove_interest_tags")
    }
    if change.interest_tags is None:
        return msgspec.structs.replace(change, **(tags | {"interest_tags": None}))
    return msgspec.structs.replace(change, **tags)


def checked_language(tag: object) -> str:
    """The tag, if it is a language tag.

    Raises:
        InvalidInput: it is not a BCP 47 tag.
    """
    if not isinstance(tag, str) or not re.fullmatch(_LANGUAGE_TAG, tag):
        raise InvalidInput("language", tag, "a BCP 47 language tag such as zh or en-GB")
    return tag


def _checked_tags(field: str, tags: object) -> list[str]:
    if isinstance(tags, str) or not isinstance(tags, Iterable) or not all(isinstance(tag, str) for tag in tags):
        raise InvalidInput(field, tags, "a list of texts")
    return [_checked_tag(tag.strip()) for tag in tags]


def _checked_tag(tag: str) -> str:
    if len(tag) > MAX_TAG_LENGTH or len(tag.splitlines()) != 1 or any(mark in tag for mark in "\0【】"):
        raise InvalidInput("interest_tag", tag, f"1 to {MAX_TAG_LENGTH} characters on one line, without 【】")
    return tag


def newest(texts: Sequence[str], limit: int) -> list[str]:
    """The ``limit`` newest texts, oldest first, without duplicates; a repeated text counts as its last mention."""
    return list(dict.fromkeys(reversed(texts)))[:limit][::-1]


def _chosen(current: Preferences, change: PreferenceChange, cleared: Mapping[str, str]) -> Preferences:
    chosen = [field for field in current.chosen if field not in cleared]
    fields = dict(cleared)
    for field in FIELDS:
        value = getattr(change, field)
        if value is not None:
            fields[field] = value
            chosen.append(field)
    before = current.interest_tags if change.interest_tags is None else change.interest_tags
    wanted = [*before, *change.add_interest_tags]
    tags = newest([tag for tag in wanted if tag not in change.remove_interest_tags], MAX_TAGS)
    removed = [*change.remove_interest_tags]
    if change.interest_tags is not None:
        removed += [tag for tag in current.interest_tags if tag not in wanted]
    added = [tag for tag in (*(change.interest_tags or ()), *change.add_interest_tags) if tag in tags]
    inferred = {TAG + tag for tag in tags if tag not in added} | (set(FIELDS) - fields.keys())
    return msgspec.structs.replace(
        current,
        **fields,
        interest_tags=tags,
        chosen=_marked(chosen, added, removed, tags),
        sources={field: turns for field, turns in current.sources.items() if field in inferred},
    )


def _marked(chosen: Sequence[str], added: Sequence[str], removed: Sequence[str], tags: Sequence[str]) -> list[str]:
    """``chosen`` with marks for the user's tags and for removed tags; tags dropped for room get no mark."""
    fields = [mark for mark in dict.fromkeys(chosen) if not mark.startswith(TAG)]
    kept = [mark for mark in chosen if mark.startswith(TAG) and mark.removeprefix(TAG) in tags]
    own = dict.fromkeys([*kept, *(TAG + tag for tag in added)])
    removed_marks = [
        mark for mark in chosen if mark.startswith(REMOVED_TAG) and mark.removeprefix(REMOVED_TAG) not in added
    ]
    newest_removed = newest([*removed_marks, *(REMOVED_TAG + tag for tag in removed)], MAX_REMOVED_TAGS)
    return [*fields, *own, *newest_removed]


def _inferred(
    current: Preferences, windows: Sequence[Sequence[tuple[str, str]]], topic_words: Sequence[str]
) -> Preferences:
    for questions in windows:
        current = _changed(current, infer(questions, current, topic_words))
    return current


def _changed(current: Preferences, found: Inferred) -> Preferences:
    fields = {field: value for field in FIELDS if (value := getattr(found, field)) is not None}
    tags = [tag for tag in current.interest_tags if tag not in found.drop_interest_tags]
    sources = {
        field: turns
        for field, turns in current.sources.items()
        if field not in {f"interest_tags:{tag}" for tag in found.drop_interest_tags}
    }
    return msgspec.structs.replace(
        current,
        **fields,
        interest_tags=newest([*tags, *found.add_interest_tags], MAX_TAGS),
        sources=sources | found.sources,
    )
