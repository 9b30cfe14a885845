"""What ``wenmai ingest`` does."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from wenmai.chat.evidence import EvidenceBase
from wenmai.chat.evidence.base import IngestReport
from wenmai.chat.evidence.parsing import FORMATS, BadLine, parse
from wenmai.chat.persona import PersonaRegistry
from wenmai.chat.profile import load_profile
from wenmai.chat.reach import reach_of
from wenmai.cli.progress import Bar, bar
from wenmai.configuration import profile_path
from wenmai.errors import InvalidInput
from wenmai.memory.manager import required
from wenmai.providers.embedders import open_embedder
from wenmai.scope import Scope
from wenmai.settings import Settings
from wenmai.stores.key_prefix import with_key_prefix
from wenmai.stores.records import EvidenceRecord
from wenmai.stores.registry import open_store


class Outcome(NamedTuple):
    """What was ingested, in passages, and what was skipped."""

    report: IngestReport
    skipped: list[BadLine]
    warnings: list[str]


class SourceFile(NamedTuple):
    """A file, and its name as a source: below the folder that was given, or its own."""

    path: Path
    name: str


def files_in(paths: Sequence[Path]) -> list[SourceFile]:
    """The files, and those of the folders that have a known ending, by name.

    Raises:
        InvalidInput: a folder has no such file.
    """
    found: list[SourceFile] = []
    for path in paths:
        if not path.is_dir():
            found.append(SourceFile(path, path.name))
            continue
        inside = sorted(each for each in path.rglob("*") if each.suffix.lower() in FORMATS and each.is_file())
        if not inside:
            raise InvalidInput("path", str(path), f"a folder with files that end in {', '.join(FORMATS)}")
        found += [SourceFile(each, each.relative_to(path).as_posix()) for each in inside]
    return found


async def ingest_files(
    settings: Settings, scope: Scope, files: Sequence[SourceFile], domains: Sequence[str], *, replace: bool
) -> Outcome:
    """Ingest the files one after another; a file or line that cannot be used is skipped and named.

    Raises:
        ModelError: the embedder failed; the files before are ingested.
        StoreError: the store failed; likewise.
    """
    embedder = open_embedder(settings.embedder)
    profile = load_profile(profile_path(settings.profile))
    total, skipped = IngestReport(), list[BadLine]()
    with bar("ingest", len(files)) as shown:
        async with open_store(with_key_prefix(settings.store, settings.key_prefix)) as store:
            documents, _ = required(store, settings.store)
            evidence = EvidenceBase(documents, store.search, embedder)
            reach = await reach_of(PersonaRegistry(documents, profile.personas), scope)
            for number, file in enumerate(files):
                records, bad = _read(file, domains)
                skipped += bad

                on_progress = partial(_show, shown, number, file.name, len(records))
                done = await evidence.ingest(
                    scope, reach.counted(records), replace_source=replace, on_progress=on_progress
                )
                total = _sum(total, done)
    return Outcome(total, skipped, reach.warnings())


def _read(file: SourceFile, domains: Sequence[str]) -> tuple[list[EvidenceRecord], list[BadLine]]:
    records: list[EvidenceRecord] = []
    bad: list[BadLine] = []
    try:
        for item in parse(file.path.read_bytes(), file.name):
            if isinstance(item, BadLine):
                bad.append(item)
            else:
                records.append(item if item.domains else msgspec.structs.replace(item, domains=list(domains)))
    except InvalidInput as problem:
        bad.append(BadLine(file.name, 1, str(problem)))
    except OSError as problem:
        bad.append(BadLine(file.name, 1, problem.strerror or "cannot be read"))
    return records, bad


def _show(shown: Bar, number: int, name: str, size: int, done: IngestReport) -> None:
    shown.show(number + (done.added + done.changed + done.unchanged) / max(1, size), name)


def _sum(left: IngestReport, right: IngestReport) -> IngestReport:
    fields = IngestReport.__struct_fields__
    return IngestReport(**{field: getattr(left, field) + getattr(right, field) for field in fields})
