"""Versioned registries: exactly one version of an entry is active, and activation is a compare-and-set.

Personas and system prompts are versioned this way, per tenant and site. An entry of the profile is version 1 without
being stored.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar
from weakref import WeakValueDictionary

import msgspec
from msgspec import Meta

from wenmai.errors import Conflict, NotFound, VersionConflict
from wenmai.memory.ids import checked_id
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.records import ActiveVersion, PersonaVersion, PromptVersion
from wenmai.stores.structs import Stored
from wenmai.stores.update import update

V = TypeVar("V", PersonaVersion, PromptVersion)

READ_PAGE = 500


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One version of an entry.

    Attributes:
        value: the persona's fields, or the prompt's text and language.
        created_at: None for the version of the profile.
    """

    persona_id: Annotated[str, Meta(description="The persona's id.")] = msgspec.field(name="npc_id")
    number: Annotated[int, Meta(description="The version's number.")]
    active: Annotated[bool, Meta(description="Whether this version is active.")]
    value: Annotated[dict[str, Any], Meta(description="The persona, or the prompt's `text` and `language`.")]
    author: Annotated[str, Meta(description="Author of this version.")]
    note: Annotated[str, Meta(description="What this version changes.")]
    created_at: Annotated[datetime | None, Meta(description="Creation time; null for a version from the profile.")]


class Activation(msgspec.Struct, frozen=True):
    """The previously and the currently active version."""

    previous: Annotated[int | None, Meta(description="The previously active version; null if there was none.")]
    current: Annotated[int, Meta(description="The currently active version.")]


class VersionNotFound(NotFound):
    """No version of that number."""

    what = "version"


class VersionedRegistry(Generic[V]):
    """Versions of one kind of entry. Subclasses convert values to records and back.

    Attributes:
        kind: ``persona`` or ``prompt``.
        record: record type of the versions.
    """

    kind: str
    record: type[V]

    def __init__(self, documents: Documents, builtin: Mapping[str, dict[str, Any]]) -> None:
        self._documents = documents
        self._builtin = builtin
        self._creating: WeakValueDictionary[tuple[Scope, str], asyncio.Lock] = WeakValueDictionary()
        """Versions of an entry are added one after another: of many at once each would lose against the others."""

    def _make(self, persona_id: str, number: int, value: dict[str, Any], author: str, note: str) -> V:
        raise NotImplementedError

    def _value(self, record: V) -> dict[str, Any]:
        raise NotImplementedError

    async def create(
        self, scope: Scope, persona_id: str, value: dict[str, Any], *, author: str = "", note: str = ""
    ) -> Version:
        """Add the next version; it becomes active only if no version was.

        Raises:
            InvalidInput: the value is not allowed; the field is named.
        """
        checked_id("persona_id", persona_id)
        self._make(persona_id, 1, value, author, note)
        lock = self._creating.setdefault((scope, persona_id), asyncio.Lock())
        async with lock:
            return await self._create(scope, persona_id, value, author, note)

    async def _create(self, scope: Scope, persona_id: str, value: dict[str, Any], author: str, note: str) -> Version:
        while True:
            state = await self._state(scope, persona_id)
            number = state.latest + 1
            record = self._make(persona_id, number, value, author, note)
            try:
                stored = await self._documents.put(scope, record, expected=0)
            except VersionConflict:
                # Another writer has taken the number and may not have recorded it yet.
                await self._reserve_number(scope, persona_id, number)
                continue
            active = await self._reserve_number(scope, persona_id, number)
            return self._view(stored, active=active == number)

    async def versions(
        self, scope: Scope, persona_id: str, *, limit: int = 20, cursor: str | None = None
    ) -> tuple[list[Version], str | None]:
        """The versions, newest first, and the cursor of the next page."""
        state = await self._state(scope, persona_id)
        page = await self._documents.list(scope, self.record, where={"npc_id": persona_id}, limit=limit, cursor=cursor)
        found = [self._view(stored, active=stored.record.number == state.number) for stored in page.items]
        if page.next_cursor is None and persona_id in self._builtin:
            found.append(self._builtin_version(persona_id, active=state.number == 1))
        return found, page.next_cursor

    async def get(self, scope: Scope, persona_id: str, number: int) -> Version:
        """One version.

        Raises:
            VersionNotFound: there is none of that number.
        """
        state = await self._state(scope, persona_id)
        return await self._version(scope, persona_id, number, active=state.number == number)

    async def active(self, scope: Scope, persona_id: str) -> Version | None:
        """The active version, or None if the persona has none."""
        state = await self._state(scope, persona_id)
        return await self._version(scope, persona_id, state.number, active=True) if state.number else None

    async def all_active(self, scope: Scope) -> list[Version]:
        """The active version of every entry, by persona id."""
        ids = sorted({*await self._registered(scope), *self._builtin})
        found = [await self.active(scope, persona_id) for persona_id in ids]
        return [version for version in found if version is not None]

    async def set_active(
        self, scope: Scope, persona_id: str, number: int, *, expected: int | None = None
    ) -> Activation:
        """Make a version the active one.

        Args:
            scope: the site.
            persona_id: of the entry.
            number: the version to activate.
            expected: the version that must be active before.

        Raises:
            VersionNotFound: there is none of that number.
            VersionConflict: another version is active than ``expected``.
        """
        previous = 0

        def activated(state: ActiveVersion) -> ActiveVersion:
            nonlocal previous
            previous = state.number
            if expected not in (None, previous):
                raise VersionConflict(f"active {self.kind}", persona_id, expected=expected or 0)
            return msgspec.structs.replace(state, number=number)

        async def exists() -> None:
            await self._version(scope, persona_id, number, active=False)

        await self._change(scope, persona_id, activated, check=exists)
        return Activation(previous or None, number)

    async def delete(self, scope: Scope, persona_id: str, number: int) -> None:
        """Delete a version; its number is not reused.

        Raises:
            VersionNotFound: there is none of that number.
            Conflict: it is active, or it is the profile's.
        """
        version = await self.get(scope, persona_id, number)
        if version.active:
            raise Conflict(f"version {number} of {self.kind} {persona_id} is active; activate another one first")
        if version.created_at is None:
            raise Conflict(f"version {number} of {self.kind} {persona_id} is the profile's own")
        await self._documents.delete(scope, self.record, f"{persona_id}:{number}")

        # A concurrent activation that read the version before its deletion must fail: the state is put again,
        # unchanged, so that its compare-and-set conflicts; if it was faster, the version is restored.
        def unchanged(state: ActiveVersion) -> ActiveVersion:
            if state.number == number:
                raise Conflict(f"version {number} of {self.kind} {persona_id} was activated meanwhile")
            return state

        try:
            await self._change(scope, persona_id, unchanged, rewrite=True)
        except Conflict:
            restored = self._make(persona_id, number, version.value, version.author, version.note)
            await self._documents.put(scope, restored, expected=0)
            raise

    async def _version(self, scope: Scope, persona_id: str, number: int, *, active: bool) -> Version:
        if number == 1 and persona_id in self._builtin:
            return self._builtin_version(persona_id, active=active)
        stored = await self._documents.get(scope, self.record, f"{persona_id}:{number}")
        if stored is None:
            raise VersionNotFound(f"{persona_id}:{number}")
        return self._view(stored, active=active)

    async def _registered(self, scope: Scope) -> list[str]:
        found, cursor = [], None
        while True:
            page = await self._documents.list(scope, ActiveVersion, limit=READ_PAGE, cursor=cursor)
            refs = [stored.record.ref.partition(":") for stored in page.items]
            found += [persona_id for kind, _, persona_id in refs if kind == self.kind]
            cursor = page.next_cursor
            if cursor is None:
                return found

    async def _reserve_number(self, scope: Scope, persona_id: str, number: int) -> int:
        """Record that ``number`` is taken; returns the version active then."""

        def reserved(state: ActiveVersion) -> ActiveVersion:
            if state.latest >= number:
                return state
            return msgspec.structs.replace(state, latest=number, number=state.number or number)

        return (await self._change(scope, persona_id, reserved)).number

    async def _change(
        self,
        scope: Scope,
        persona_id: str,
        change: Callable[[ActiveVersion], ActiveVersion],
        *,
        check: Callable[[], Awaitable[object]] | None = None,
        rewrite: bool = False,
    ) -> ActiveVersion:
        """Change which version is active, see :func:`wenmai.stores.update.update`."""

        def changed(stored: Stored[ActiveVersion] | None) -> ActiveVersion:
            return change(stored.record if stored else self._initial(persona_id))

        ref = self._ref(persona_id)
        stored = await update(self._documents, scope, ActiveVersion, ref, changed, check=check, rewrite=rewrite)
        return stored.record

    async def _state(self, scope: Scope, persona_id: str) -> ActiveVersion:
        stored = await self._documents.get(scope, ActiveVersion, self._ref(persona_id))
        return stored.record if stored else self._initial(persona_id)

    def _initial(self, persona_id: str) -> ActiveVersion:
        first = 1 if persona_id in self._builtin else 0
        return ActiveVersion(ref=self._ref(persona_id), number=first, latest=first)

    def _ref(self, persona_id: str) -> str:
        return f"{self.kind}:{persona_id}"

    def _view(self, stored: Stored[V], *, active: bool) -> Version:
        record = stored.record
        return Version(
            persona_id=record.persona_id,
            number=record.number,
            active=active,
            value=self._value(record),
            author=record.author,
            note=record.note,
            created_at=stored.created_at,
        )

    def _builtin_version(self, persona_id: str, *, active: bool) -> Version:
        return Version(
            persona_id=persona_id,
            number=1,
            active=active,
            value=self._builtin[persona_id],
            author="profile",
            note="",
            created_at=None,
        )
