"""Evidence: the passages of ingested sources, the only thing that may support a fact.

Nothing here may import :mod:`wenmai.memory`: what was said is no source.
"""

from wenmai.chat.evidence.base import EvidenceBase, Found, IngestReport
from wenmai.chat.evidence.fields import check_record, record_from
from wenmai.chat.evidence.parsing import BadLine, parse

__all__ = ["BadLine", "EvidenceBase", "Found", "IngestReport", "check_record", "parse", "record_from"]
