"""The role of a user: the persona speaks in its tone, of the domains that it may ask about."""

from collections.abc import Mapping

from msgspec.structs import replace

from wenmai.chat.persona import ActivePersona
from wenmai.config.profile import Persona
from wenmai.config.queries import Role
from wenmai.errors import InvalidInput

_NOTHING = ["-"]
"""No domain of evidence: a list of none would mean all."""


def in_role(active: ActivePersona, name: str | None, roles: Mapping[str, Role]) -> ActivePersona:
    """The persona as it answers users of that role; None for no role.

    Raises:
        InvalidInput: the profile has no such role.
    """
    if name is None:
        return active
    if name not in roles:
        allowed = f"one of {', '.join(roles)}" if roles else "absent: the profile has no roles"
        raise InvalidInput("role", name, allowed)
    persona, role = active.persona, roles[name]
    return replace(
        active,
        persona=replace(
            persona,
            system={language: _joined(text, role.system.get(language)) for language, text in persona.system.items()},
            openings={**persona.openings, **role.openings},
            conservative={**persona.conservative, **role.conservative},
            domains=_domains(persona, role),
        ),
    )


def _joined(text: str, more: str | None) -> str:
    return f"{text}\n{more}" if more else text


def _domains(persona: Persona, role: Role) -> list[str]:
    if not (persona.domains and role.domains):
        return persona.domains or role.domains
    return [domain for domain in role.domains if domain in persona.domains] or _NOTHING
