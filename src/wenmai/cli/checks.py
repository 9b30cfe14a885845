"""The checks of ``wenmai doctor``, one function each."""

import os
import platform
import shutil
import socket
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import apsw

from wenmai.chat.persona import all_domains
from wenmai.chat.reach import Reach
from wenmai.cli.encryption_check import find_encryption
from wenmai.cli.terminal.output import pluralize
from wenmai.config.settings import Settings
from wenmai.config.sources import load_profiles
from wenmai.engine.profile_check import check_profiles
from wenmai.engine.samples import sample_passages
from wenmai.errors import InvalidInput, MissingExtra, WenmaiError, mask_url
from wenmai.http.loopback import check_bind_host
from wenmai.providers.embedders import open_embedder
from wenmai.providers.models import open_model
from wenmai.stores.key_prefix import with_key_prefix
from wenmai.stores.opening import open_store, schema_at
from wenmai.stores.sqlite import path_of
from wenmai.stores.upgrades import Schema

State = Literal["ok", "warn", "fail"]

OLDEST_PYTHON = (3, 11)
LOW_DISK_SPACE, MIN_DISK_SPACE = 1_000_000_000, 100_000_000
"""Free bytes below which the check warns (enough for a million messages) or fails."""


class CheckResult(NamedTuple):
    """The result of a check; the text says what to do."""

    name: str
    state: State
    text: str


async def run_checks(settings: Settings) -> list[CheckResult]:
    """Run all checks; they create nothing except a temporary file, which is deleted."""
    folder = _store_folder(settings.store)
    results = [check_python(), check_sqlite(), check_profile(settings)]
    if folder is not None:
        results += [await check_folder(folder), check_space(folder)]
    results += [await check_store(settings), *([await check_cache(settings)] if settings.hot else [])]
    indexes = {"search": settings.search, "evidence": settings.evidence}
    results += [await check_search(setting, url) for setting, url in indexes.items() if url]
    results += await check_encryption(settings)
    return [*results, check_model(settings), check_embedder(settings), check_port(settings)]


def check_python() -> CheckResult:
    """The Python version is supported."""
    found = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        return CheckResult("python", "fail", f"{found}; Wenmai needs 3.11 or later")
    return CheckResult("python", "ok", found)


def check_sqlite() -> CheckResult:
    """The bundled SQLite version."""
    return CheckResult("sqlite", "ok", f"{apsw.sqlite_lib_version()} (apsw {apsw.apsw_version()})")


def check_profile(settings: Settings) -> CheckResult:
    """The profile and its evidence files are readable, and each passage has a persona that finds it."""
    served, warnings = [], []
    profiles = load_profiles(settings.profile)
    try:
        check_profiles(profiles)
    except InvalidInput as problem:
        return CheckResult("profile", "fail", str(problem))
    for path, profile in profiles:
        missing = [name for name in profile.evidence if not os.access(path.parent / name, os.R_OK)]
        if missing:
            return CheckResult("profile", "fail", f"{path}: cannot read its evidence {', '.join(missing)}")
        try:
            passages = sample_passages(profile, path.parent)
        except InvalidInput as problem:
            return CheckResult("profile", "fail", f"{path}: {problem}")
        reach = Reach(all_domains([persona.domains for persona in profile.personas]))
        deque(reach.counted(passages), maxlen=0)
        warnings += [f"{profile.name}: {warning}" for warning in reach.warnings()]
        served.append(f"{profile.name}: {pluralize(len(profile.personas), 'persona')}")
    return CheckResult("profile", "warn" if warnings else "ok", "; ".join(warnings or served))


async def check_folder(folder: Path) -> CheckResult:
    """Write-ahead logging works in the folder of the store."""
    if not _exists(folder):
        return CheckResult("folder", "fail", f"{folder} does not exist; create it: mkdir -p {folder}")
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".wenmai-doctor-") as trial:
            async with open_store(f"sqlite:///{trial}/trial.db") as store:
                await store.ping()
    except OSError as problem:
        return CheckResult("folder", "fail", f"{folder}: {problem.strerror}; the service needs write access")
    except WenmaiError as problem:
        return CheckResult("folder", "fail", f"{problem}; put the store on a local disk (--store)")
    return CheckResult("folder", "ok", f"{folder}: write-ahead logging works")


def check_space(folder: Path) -> CheckResult:
    """There is enough free disk space."""
    if not folder.is_dir():
        return CheckResult("disk", "warn", f"{folder} does not exist")
    free = shutil.disk_usage(folder).free
    shown = f"{free / 1e9:.1f} GB free"
    if free < MIN_DISK_SPACE:
        return CheckResult("disk", "fail", f"{shown}; free some disk space")
    return CheckResult("disk", "warn" if free < LOW_DISK_SPACE else "ok", shown)


async def check_store(settings: Settings) -> CheckResult:
    """The store opens and has a schema that this version supports."""
    url, shown = settings.store, mask_url(settings.store)
    try:
        if _is_sqlite(url) and not _exists(path_of(url)):
            return CheckResult("store", "ok", f"{shown} does not exist yet; it is created on first use")
        schema = await schema_at(url)
        if schema is not None and schema.found < schema.known:
            return _outdated(shown, schema)
        async with open_store(with_key_prefix(url, settings.key_prefix)) as store:
            await store.ping()
    except WenmaiError as problem:
        return CheckResult("store", "fail", str(problem))
    return CheckResult("store", "ok", shown if schema is None else f"{shown} (schema {schema.found})")


def _outdated(shown: str, schema: Schema) -> CheckResult:
    if not schema.found:
        return CheckResult("store", "ok", f"{shown} has no tables yet; they are created on first use")
    action = f"the next start upgrades it to schema {schema.known}; to upgrade now, run: wenmai migrate"
    return CheckResult("store", "warn", f"{shown} (schema {schema.found}); {action}")


async def check_cache(settings: Settings) -> CheckResult:
    """The Redis cache is reachable; without it the service runs, but slower."""
    shown = mask_url(settings.hot)
    try:
        from wenmai.stores.redis.address import parse_address  # noqa: PLC0415 — its driver may not be installed
        from wenmai.stores.redis.link import Link  # noqa: PLC0415

        link = Link(parse_address(with_key_prefix(settings.hot, settings.key_prefix), setting="hot"))
        try:
            await link.check()
        finally:
            await link.close()
    except ModuleNotFoundError:
        return CheckResult("cache", "fail", f"{shown}: {MissingExtra('redis', 'redis')}")
    except WenmaiError as problem:
        return CheckResult("cache", "fail", f"{problem}; start it, or change or unset WENMAI_HOT")
    if settings.store.lower().startswith("redis"):
        return CheckResult("cache", "fail", "a Redis store does not use a Redis cache; unset WENMAI_HOT")
    return CheckResult("cache", "ok", shown)


async def check_search(setting: str, url: str) -> CheckResult:
    """A store of search indexes opens; a Milvus file that does not exist is not created."""
    shown = mask_url(url)
    file = url.partition("milvus:///")[2]
    if file and not _exists(Path(file)):
        return CheckResult(setting, "ok", f"{shown} does not exist yet; it is created on first use")
    try:
        async with open_store(url) as store:
            await store.ping()
    except WenmaiError as problem:
        return CheckResult(setting, "fail", str(problem))
    return CheckResult(setting, "ok", shown)


async def check_encryption(settings: Settings) -> list[CheckResult]:
    """The master keys open the data keys; no result if nothing is or was encrypted."""
    found = await find_encryption(settings)
    return [] if found is None else [CheckResult("encryption", found.state, found.text)]


def check_model(settings: Settings) -> CheckResult:
    """The model's package is installed and accepts the settings; the model is not called."""
    if settings.model in ("", "offline"):
        return CheckResult("model", "ok", "offline: answers quote the evidence")
    base_url, key = settings.model_base_url or None, settings.model_api_key or None
    return _check_opens("model", settings.model, lambda: open_model(settings.model, base_url=base_url, api_key=key))


def check_embedder(settings: Settings) -> CheckResult:
    """The embedder's package is installed."""
    if settings.embedder == "none" or (settings.embedder == "auto" and open_embedder("auto") is None):
        return CheckResult("embedder", "ok", f"{settings.embedder}: evidence is found by lexical search")
    return _check_opens("embedder", settings.embedder, lambda: open_embedder(settings.embedder))


def check_port(settings: Settings) -> CheckResult:
    """The service can listen on the configured address."""
    where = f"{settings.host}:{settings.port}"
    try:
        check_bind_host(settings.host, settings.auth)
        address = settings.host.strip("[]")
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        socket.create_server((address, settings.port), family=family).close()
    except WenmaiError as problem:
        return CheckResult("port", "fail", str(problem))
    except OSError as problem:
        reason = os.strerror(problem.errno or 0)
        return CheckResult(
            "port", "warn", f"{where}: {reason}; a service may be running already; otherwise change WENMAI_PORT"
        )
    return CheckResult("port", "ok", f"{where} is available")


def _check_opens(part: str, name: str, open_: Callable[[], object]) -> CheckResult:
    try:
        open_()
    except MissingExtra as missing:
        return CheckResult(part, "fail", f"{name}: {missing}")
    except WenmaiError as problem:
        return CheckResult(part, "fail", str(problem))
    return CheckResult(part, "ok", name)


def _exists(path: Path) -> bool:
    return path.exists()


def _is_sqlite(url: str) -> bool:
    return url.lower().startswith("sqlite://")


def _store_folder(url: str) -> Path | None:
    """The folder of an SQLite store; None for other stores and for invalid URLs."""
    try:
        return path_of(url).absolute().parent if _is_sqlite(url) else None
    except WenmaiError:
        return None
