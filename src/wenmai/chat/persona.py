"""The persona registry: who answers, by version, per tenant and site."""

from collections.abc import Sequence
from typing import Any

import msgspec

from wenmai.chat.gate.policy import layered
from wenmai.chat.profile import Persona
from wenmai.chat.registry import Version, VersionedRegistry
from wenmai.errors import InvalidInput, PersonaNotFound
from wenmai.scope import Scope
from wenmai.stores.base import Documents
from wenmai.stores.records import PersonaVersion

PERSONAS_LISTED = 500


class ActivePersona(msgspec.Struct, frozen=True):
    """The persona that answers now, and the number of its version."""

    persona: Persona
    version: int


class PersonaRegistry(VersionedRegistry[PersonaVersion]):
    """See :class:`VersionedRegistry`; values are the fields of :class:`~wenmai.chat.profile.Persona`."""

    kind = "persona"
    record = PersonaVersion

    def __init__(self, documents: Documents, personas: Sequence[Persona]) -> None:
        super().__init__(documents, {each.npc_id: msgspec.to_builtins(each) for each in personas})
        self._ready_made = {each.npc_id: each for each in personas}

    async def answering(self, scope: Scope, npc_id: str) -> ActivePersona:
        """The persona that answers under this id.

        Raises:
            PersonaNotFound: the site has none.
        """
        version = await self.active(scope, npc_id)
        if version is None:
            raise PersonaNotFound(npc_id)
        if version.created_at is None:
            return ActivePersona(self._ready_made[npc_id], version.number)
        return ActivePersona(msgspec.convert(version.value, Persona), version.number)

    async def list(self, scope: Scope) -> list[Version]:
        """The active version of every persona of the site, by id; at most 500 versions back."""
        page = await self._documents.list(scope, PersonaVersion, limit=PERSONAS_LISTED)
        ids = sorted({stored.record.npc_id for stored in page.items} | self._ready_made.keys())
        found = [await self.active(scope, npc_id) for npc_id in ids]
        return [version for version in found if version is not None]

    def _make(
        self, npc_id: str, number: int, value: dict[str, Any], author: str, note: str
    ) -> PersonaVersion:
        try:
            persona = msgspec.convert(value | {"npc_id": npc_id}, Persona)
        except msgspec.ValidationError as problem:
            raise InvalidInput("persona", value, f"a persona: {problem}") from problem
        layered(persona.policy)
        plain = msgspec.to_builtins(persona)
        return PersonaVersion(
            ref=f"{npc_id}:{number}", npc_id=npc_id, number=number, persona=plain, author=author, note=note
        )

    def _value(self, record: PersonaVersion) -> dict[str, Any]:
        return record.persona
