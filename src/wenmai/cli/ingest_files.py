"""Ingestion of files, for ``wenmai ingest``."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from wenmai.chat.persona import PersonaRegistry
from wenmai.chat.reach import reach_of
from wenmai.cli.terminal.output import print_stderr
from wenmai.cli.terminal.progress import Bar, bar
from wenmai.config.settings import Settings
from wenmai.config.sources import load_profiles
from wenmai.errors import InvalidInput, ModelError
from wenmai.grounding.evidence import EvidenceBase
from wenmai.grounding.evidence.base import IngestReport
from wenmai.grounding.evidence.fields import with_default_domains
from wenmai.grounding.evidence.parsing import FORMATS, BadLine, parse
from wenmai.memory.library import required
from wenmai.providers.embedders import open_embedder
from wenmai.retrieval.embedding import EmbeddingProgress
from wenmai.scope import Scope
from wenmai.stores.key_prefix import with_key_prefix
from wenmai.stores.opening import open_search, open_stores
from wenmai.stores.records import EvidenceRecord


class IngestOutcome(NamedTuple):
    """The ingestion report, in passages, the skipped lines, and why passages were not embedded, if so."""

    report: IngestReport
    skipped: list[BadLine]
    warnings: list[str]
    not_embedded: str


class SourceFile(NamedTuple):
    """A file and its source name: the path relative to the given folder, or the file name."""

    path: Path
    name: str


def find_files(paths: Sequence[Path]) -> list[SourceFile]:
    """The given files, and the files with a known extension below the given folders, sorted.

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
            raise InvalidInput("path", str(path), f"a folder with files of type {', '.join(FORMATS)}")
        found += [SourceFile(each, each.relative_to(path).as_posix()) for each in inside]
    return found


async def ingest_files(
    settings: Settings, scope: Scope, files: Sequence[SourceFile], domains: Sequence[str], *, replace: bool
) -> IngestOutcome:
    """Ingest the files one after another, then embed what has no vector; unusable files and lines are reported.

    Raises:
        StoreError: the store failed; the preceding files are ingested.
    """
    embedder = open_embedder(settings.embedder)
    personas = [persona for each in load_profiles(settings.profile) for persona in each.profile.personas]
    total, skipped = IngestReport(), list[BadLine]()
    store_url = with_key_prefix(settings.store, settings.key_prefix)
    async with AsyncExitStack() as opened:
        store, _ = await opened.enter_async_context(open_stores(store_url, search=settings.search))
        documents, _ = required(store, settings.store)
        index = store.search
        if settings.evidence:
            index = await opened.enter_async_context(open_search(settings.evidence, setting="evidence"))
        evidence = EvidenceBase(documents, index, embedder)
        reach = await reach_of(PersonaRegistry(documents, personas), scope)
        try:
            with bar("ingest", len(files)) as progress:
                for number, file in enumerate(files):
                    records, bad = _read(file, domains)
                    skipped += bad

                    on_progress = partial(_show, progress, number, file.name, len(records))
                    done = await evidence.ingest(
                        scope, reach.counted(records), replace_source=replace, on_progress=on_progress
                    )
                    total = _sum(total, done)
            not_embedded = await _embed(evidence, scope)
        finally:
            await evidence.close()
    return IngestOutcome(total, skipped, reach.warnings(), not_embedded)


async def _embed(evidence: EvidenceBase, scope: Scope) -> str:
    """Wait until all passages are embedded; the embedder's error, if it failed."""

    def show(done: EmbeddingProgress) -> None:
        progress.show(done.embedded, f"{done.embedded} of {done.passages}", total=done.passages)

    try:
        with bar("embed") as progress:
            await evidence.finish_embedding(scope, on_progress=show)
    except ModelError as problem:
        return str(problem)
    except asyncio.CancelledError:
        print_stderr("stopped: all passages are stored; the service embeds the rest, or the same command again")
        raise
    return ""


def _read(file: SourceFile, domains: Sequence[str]) -> tuple[list[EvidenceRecord], list[BadLine]]:
    records: list[EvidenceRecord] = []
    bad: list[BadLine] = []
    try:
        for item in parse(file.path.read_bytes(), file.name):
            if isinstance(item, BadLine):
                bad.append(item)
            else:
                records.append(with_default_domains(item, domains))
    except InvalidInput as problem:
        bad.append(BadLine(file.name, 1, str(problem)))
    except OSError as problem:
        bad.append(BadLine(file.name, 1, problem.strerror or "cannot be read"))
    return records, bad


def _show(progress: Bar, number: int, name: str, size: int, done: IngestReport) -> None:
    progress.show(number + (done.added + done.changed + done.unchanged) / max(1, size), name)


def _sum(left: IngestReport, right: IngestReport) -> IngestReport:
    fields = IngestReport.__struct_fields__
    return IngestReport(**{field: getattr(left, field) + getattr(right, field) for field in fields})
