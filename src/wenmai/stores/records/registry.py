"""Versions of personas and prompts, and which of them is active."""

from typing import Any, ClassVar

import msgspec

from wenmai.stores.records.base import Record, RecordSpec


class PersonaVersion(Record, frozen=True, kw_only=True):
    """One version of a persona; ``ref`` is ``persona_id:version``."""

    spec: ClassVar[RecordSpec] = RecordSpec("persona_versions", key="ref", shared=True, filters=("npc_id",))

    ref: str
    persona_id: str = msgspec.field(name="npc_id")
    number: int
    persona: dict[str, Any]
    author: str = ""
    note: str = ""


class PromptVersion(Record, frozen=True, kw_only=True):
    """One version of a persona's system prompt; ``ref`` is ``persona_id:version``."""

    spec: ClassVar[RecordSpec] = RecordSpec("prompt_versions", key="ref", shared=True, filters=("npc_id",))

    ref: str
    persona_id: str = msgspec.field(name="npc_id")
    number: int
    text: str
    language: str = "zh"
    author: str = ""
    note: str = ""


class ActiveVersion(Record, frozen=True, kw_only=True):
    """The active version; ``ref`` is ``persona:persona_id`` or ``prompt:persona_id``. Changed by compare-and-set."""

    spec: ClassVar[RecordSpec] = RecordSpec("active_versions", key="ref", shared=True)

    ref: str
    number: int
    latest: int
