"""Ranking of passages by what is known of them beyond their score (:mod:`wenmai.retrieval.ranking`)."""

from collections.abc import Sequence
from functools import lru_cache

from wenmai.grounding.evidence.fields import primary_language
from wenmai.stores.records import EvidenceRecord

VERIFIED_MARGIN = 0.05
"""A verified passage precedes an unverified one that scores at most so much better."""


def verified_first(records: Sequence[EvidenceRecord], score: dict[str, float]) -> list[EvidenceRecord]:
    """The records in order, but each verified one before unverified ones within :data:`VERIFIED_MARGIN`."""
    result: list[EvidenceRecord] = []
    for record in records:
        index = len(result)
        while record.verified and index and _yields(result[index - 1], record, score):
            index -= 1
        result.insert(index, record)
    return result


def drop_translations(records: Sequence[EvidenceRecord]) -> list[EvidenceRecord]:
    """The records without translations of an earlier one.

    Translations are recognised by their ids: ``log-01`` and ``log-01-en``, or ``a:zh`` and ``a:en``.
    """
    first: dict[str, EvidenceRecord] = {}
    for record in records:
        first.setdefault(_stem(record.evidence_id, record.language), record)
    return list(first.values())


def _yields(unverified: EvidenceRecord, verified: EvidenceRecord, score: dict[str, float]) -> bool:
    return not unverified.verified and score[unverified.evidence_id] <= score[verified.evidence_id] + VERIFIED_MARGIN


@lru_cache(maxsize=8_192)
def _stem(evidence_id: str, language: str) -> str:
    primary = primary_language(language)
    for mark in "-_.:":
        if evidence_id.endswith(mark + primary):
            return evidence_id.removesuffix(mark + primary)
    return evidence_id
