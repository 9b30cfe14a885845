"""The persona registry: versioned personas per tenant and site."""

from collections.abc import Sequence
from typing import Any

import msgspec

from wenmai.chat.versioning import VersionedRegistry
from wenmai.config.profile import Persona
from wenmai.errors import InvalidInput, PersonaNotFound
from wenmai.grounding.policy import merge_policies
from wenmai.memory.ids import wrong_field
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.records import PersonaVersion


class ActivePersona(msgspec.Struct, frozen=True):
    """The active version of a persona, and its number."""

    persona: Persona
    version: int


class PersonaRegistry(VersionedRegistry[PersonaVersion]):
    """See :class:`VersionedRegistry`; values are the fields of :class:`~wenmai.config.profile.Persona`."""

    kind = "persona"
    record = PersonaVersion

    def __init__(self, documents: Documents, personas: Sequence[Persona]) -> None:
        super().__init__(documents, {each.persona_id: msgspec.to_builtins(each) for each in personas})
        self._builtin_personas = {each.persona_id: each for each in personas}

    async def active_persona(self, scope: Scope, persona_id: str) -> ActivePersona:
        """The active version of the persona.

        Raises:
            PersonaNotFound: the site has no such persona.
        """
        version = await self.active(scope, persona_id)
        if version is None:
            raise PersonaNotFound(persona_id)
        if version.created_at is None:
            return ActivePersona(self._builtin_personas[persona_id], version.number)
        return ActivePersona(msgspec.convert(version.value, Persona), version.number)

    async def domains(self, scope: Scope) -> frozenset[str] | None:
        """The evidence domains of the site's personas; None if one of them has all domains."""
        return all_domains([version.value.get("domains", []) for version in await self.all_active(scope)])

    def _make(self, persona_id: str, number: int, value: dict[str, Any], author: str, note: str) -> PersonaVersion:
        if value.get("npc_id", persona_id) != persona_id:
            raise InvalidInput("persona.npc_id", value["npc_id"], f"{persona_id}, or absent")
        try:
            persona = msgspec.convert(value | {"npc_id": persona_id}, Persona)
        except msgspec.ValidationError as problem:
            field = wrong_field(problem)
            where = f"persona.{field}" if field else "persona"
            raise InvalidInput(where, value.get(field, value), f"allowed: {problem}") from problem
        merge_policies(persona.policy)
        plain = msgspec.to_builtins(persona)
        return PersonaVersion(
            ref=f"{persona_id}:{number}", persona_id=persona_id, number=number, persona=plain, author=author, note=note
        )

    def _value(self, record: PersonaVersion) -> dict[str, Any]:
        return record.persona


def all_domains(domains: Sequence[Sequence[str]]) -> frozenset[str] | None:
    """The domains of several personas; None if one of them has all domains."""
    return frozenset(domain for each in domains for domain in each) if all(domains) else None
