"""Finds passages that no persona can retrieve: a persona with domains only gets passages of these domains."""

from collections.abc import Iterable, Iterator

from wenmai.chat.persona import PersonaRegistry
from wenmai.scope import Scope
from wenmai.stores.records import EvidenceRecord

_NAMED_DOMAINS = 20


class Reach:
    """Counts passages that no persona can retrieve.

    Args:
        domains: the domains of all personas; None if a persona is not restricted.
    """

    def __init__(self, domains: frozenset[str] | None) -> None:
        self._domains = domains
        self._passages = 0
        self._hidden = 0

    def counted(self, records: Iterable[EvidenceRecord]) -> Iterator[EvidenceRecord]:
        """Count each record and pass it on."""
        for record in records:
            self._passages += 1
            self._hidden += self._domains is not None and self._domains.isdisjoint(record.domains)
            yield record

    def warnings(self) -> list[str]:
        """The problem and its fix, in one sentence; empty if every passage can be retrieved."""
        if not self._hidden or self._domains is None:
            return []
        named = sorted(self._domains)
        known = ", ".join(named[:_NAMED_DOMAINS]) + (", …" if len(named) > _NAMED_DOMAINS else "")
        return [
            (
                f"no persona finds {self._hidden} of the {self._passages} passages, because personas speak about other "
                f"domains; ingest them again with one of these as their domain: {known}"
            )
        ]


async def reach_of(personas: PersonaRegistry, scope: Scope) -> Reach:
    """A counter for the personas of a site."""
    return Reach(await personas.domains(scope))
