"""The persona registry: who answers, by version, per tenant and site."""

from collections.abc import Sequence
from typing import Any

import msgspec

from wenmai.chat.gate.policy import layered
from wenmai.chat.profile import Persona
from wenmai.chat.registry import VersionedRegistry
from wenmai.errors import InvalidInput, PersonaNotFound
from wenmai.memory.ids import wrong_field
from wenmai.scope import Scope
from wenmai.stores.base import Documents
from wenmai.stores.records import PersonaVersion


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

    async def domains(self, scope: Scope) -> frozenset[str] | None:
        """The evidence domains that the site's personas speak about; None if one of them speaks about all."""
        spoken: list[list[str]] = [version.value.get("domains", []) for version in await self.all_active(scope)]
        return frozenset(domain for domains in spoken for domain in domains) if all(spoken) else None

    def _make(self, npc_id: str, number: int, value: dict[str, Any], author: str, note: str) -> PersonaVersion:
        try:
            persona = msgspec.convert(value | {"npc_id": npc_id}, Persona)
        except msgspec.ValidationError as problem:
            field = wrong_field(problem)
            where = f"persona.{field}" if field else "persona"
            raise InvalidInput(where, value.get(field, value), f"allowed: {problem}") from problem
        layered(persona.policy)
        plain = msgspec.to_builtins(persona)
        return PersonaVersion(
            ref=f"{npc_id}:{number}", npc_id=npc_id, number=number, persona=plain, author=author, note=note
        )

    def _value(self, record: PersonaVersion) -> dict[str, Any]:
        return record.persona
