"""From hits to passages: which come first, and how much of the question each covers.

**Score.** Without vectors a passage's score is the coverage of the store's :class:`~wenmai.stores.base.Hit`:
the share of the question's terms that it holds, weighted by their rarity. With vectors, what is not covered
is made up for in part, as far as the passage stands out from the others that were found::

    score = coverage + MEANING_SHARE · (1 - coverage) · nearness
    nearness = (similarity - lowest) / (1 - lowest)            lowest: of the hits of this question

Cosines have no zero: those of the bundled embedder lie between 0.75 and 0.92 whatever is asked. So they are
never held against a threshold; the farthest hit is the zero, the same meaning is the one. Measured on the npc
profile's sample, the best passage had a nearness of 0.06 to 0.16 for ten questions about something else, and
of 0.15 to 0.50 for fourteen that it answers. A passage that shares no word with the question stays under
``MEANING_SHARE``, the gate's usual minimum: a score of 0.3 means about the same with and without an embedder.

**Order.** Reciprocal rank fusion of the order by words and the order by meaning; what ties goes by score. A
verified passage goes before an unverified one that scores no more than :data:`NEARLY` better.
"""

from collections.abc import Sequence

from wenmai.chat.evidence.fields import primary_language
from wenmai.stores.base import RRF_CONSTANT, Hit
from wenmai.stores.records import EvidenceRecord

MEANING_SHARE = 0.3
NEARLY = 0.05


def scores(hits: Sequence[Hit]) -> dict[str, float]:
    """The score of each hit by its id; see the module."""
    lowest = min((hit.similarity for hit in hits if hit.similarity is not None), default=1.0)
    found: dict[str, float] = {}
    for hit in hits:
        similarity = lowest if hit.similarity is None else hit.similarity
        nearness = (similarity - lowest) / (1 - lowest) if lowest < 1 else 0.0
        found[hit.id] = hit.coverage + MEANING_SHARE * (1 - hit.coverage) * nearness
    return found


def ordered(hits: Sequence[Hit], score: dict[str, float]) -> list[str]:
    """The ids of the hits, best first; see the module."""
    by_words = sorted((hit for hit in hits if hit.lexical > 0), key=lambda hit: -hit.lexical)
    near = [(hit.similarity, hit) for hit in hits if hit.similarity is not None]
    by_meaning = [hit for _, hit in sorted(near, key=lambda pair: -pair[0])]
    fused = {hit.id: 0.0 for hit in hits}
    for ranking in (by_words, by_meaning):
        for rank, hit in enumerate(ranking, start=1):
            fused[hit.id] += 1 / (RRF_CONSTANT + rank)
    return sorted(fused, key=lambda id_: (-fused[id_], -score[id_], id_))


def verified_first(records: Sequence[EvidenceRecord], score: dict[str, float]) -> list[EvidenceRecord]:
    """The records in their order, but each verified one before unverified ones that are hardly better."""
    result: list[EvidenceRecord] = []
    for record in records:
        place = len(result)
        while record.verified and place and _gives_way(result[place - 1], record, score):
            place -= 1
        result.insert(place, record)
    return result


def one_of_each(records: Sequence[EvidenceRecord]) -> list[EvidenceRecord]:
    """The records without those that are another language's copy of an earlier one.

    Copies are told by their ids: ``precepts-01`` and ``precepts-01-en``, or ``a:zh`` and ``a:en``.
    """
    first: dict[str, EvidenceRecord] = {}
    for record in records:
        first.setdefault(_stem(record), record)
    return list(first.values())


def _gives_way(unverified: EvidenceRecord, verified: EvidenceRecord, score: dict[str, float]) -> bool:
    return not unverified.verified and score[unverified.evidence_id] <= score[verified.evidence_id] + NEARLY


def _stem(record: EvidenceRecord) -> str:
    language = primary_language(record.language)
    for mark in "-_.:":
        if record.evidence_id.endswith(mark + language):
            return record.evidence_id.removesuffix(mark + language)
    return record.evidence_id
