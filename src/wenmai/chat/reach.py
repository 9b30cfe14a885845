"""Which passages no persona finds: a persona with domains is given passages of these domains only."""

from collections.abc import Iterable, Iterator

from wenmai.chat.persona import PersonaRegistry
from wenmai.scope import Scope
from wenmai.stores.records import EvidenceRecord

_NAMED_DOMAINS = 20


class Reach:
    """Counts passages that no persona finds.

    Args:
        domains: those that personas speak about; None if one of them speaks about everything.
    """

    def __init__(self, domains: frozenset[str] | None) -> None:
        self._domains = domains
        self._passages = 0
        self._hidden = 0

    def counted(self, records: Iterable[EvidenceRecord]) -> Iterator[EvidenceRecord]:
        """The records as they are, each counted."""
        for record in records:
            self._passages += 1
            self._hidden += self._domains is not None and self._domains.isdisjoint(record.domains)
            yield record

    def warnings(self) -> list[str]:
        """What is wrong and what to do about it, in a sentence; empty if every passage can be found."""
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
    """A count for the personas that answer at a site."""
    return Reach(await personas.domains(scope))
