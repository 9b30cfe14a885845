"""Markers: small records by which processes check whether their copies are current."""

from typing import ClassVar

from wenmai.stores.records.base import Record, RecordSpec


class Marker(Record, frozen=True, kw_only=True):
    """A named marker of a site; it is compared, never interpreted.

    Attributes:
        value: of a marker that identifies something; one that is only rewritten to signal a change has none.
    """

    spec: ClassVar[RecordSpec] = RecordSpec("markers", key="name", shared=True)

    name: str
    value: str = ""
