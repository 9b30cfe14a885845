"""Evidence: the passages of ingested sources; only they support facts.

Nothing here may import :mod:`wenmai.memory`: memory is not a source.
"""

from wenmai.grounding.evidence.base import EvidenceBase, IngestReport, SearchResult
from wenmai.grounding.evidence.fields import check_record, record_from
from wenmai.grounding.evidence.parsing import BadLine, parse

__all__ = ["BadLine", "EvidenceBase", "IngestReport", "SearchResult", "check_record", "parse", "record_from"]
