"""The checks of ``wenmai doctor``, one a function."""

import os
import platform
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import apsw

from wenmai.chat.profile import load_profile
from wenmai.configuration import profile_path
from wenmai.errors import MissingExtra, WenmaiError, mask_url
from wenmai.http.binding import check_binding
from wenmai.providers.embedders import open_embedder
from wenmai.providers.models import open_model
from wenmai.settings import Settings
from wenmai.stores.key_prefix import with_key_prefix
from wenmai.stores.registry import open_store, schema_at
from wenmai.stores.sqlite import path_of
from wenmai.stores.upgrades import Schema

State = Literal["ok", "warn", "fail"]

OLDEST_PYTHON = (3, 11)
LITTLE_SPACE, SCARCE_SPACE = 1_000_000_000, 100_000_000
"""Bytes: enough for a million messages, and what is too little to start with."""


class Finding(NamedTuple):
    """What a check found, in words that say what to do."""

    what: str
    state: State
    text: str


async def examine(settings: Settings) -> list[Finding]:
    """Run all checks; nothing is created or changed but a trial file that goes away again."""
    folder = _folder(settings.store)
    findings = [check_python(), check_sqlite(), check_profile(settings)]
    if folder is not None:
        findings += [await check_folder(folder), check_space(folder)]
    findings += [await check_store(settings), *([await check_cache(settings)] if settings.hot else [])]
    return [*findings, check_model(settings), check_embedder(settings), check_port(settings)]


def check_python() -> Finding:
    """Python is new enough."""
    found = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        return Finding("python", "fail", f"{found}; Wenmai needs 3.11 or later")
    return Finding("python", "ok", found)


def check_sqlite() -> Finding:
    """The embedded SQLite is there."""
    return Finding("sqlite", "ok", f"{apsw.sqlite_lib_version()} (apsw {apsw.apsw_version()})")


def check_profile(settings: Settings) -> Finding:
    """The profile and the evidence files that it names can be read."""
    path = profile_path(settings.profile)
    profile = load_profile(path)
    missing = [name for name in profile.evidence if not os.access(path.parent / name, os.R_OK)]
    if missing:
        return Finding("profile", "fail", f"{path}: cannot read its evidence {', '.join(missing)}")
    return Finding("profile", "ok", f"{profile.name}: {len(profile.personas)} personas")


async def check_folder(folder: Path) -> Finding:
    """Write-ahead logging works where the store is or will be."""
    if not _is_there(folder):
        return Finding("folder", "fail", f"{folder} is not there; create it: mkdir -p {folder}")
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".wenmai-doctor-") as trial:
            async with open_store(f"sqlite:///{trial}/trial.db") as store:
                await store.ping()
    except OSError as problem:
        return Finding("folder", "fail", f"{folder}: {problem.strerror}; the service must be able to write there")
    except WenmaiError as problem:
        return Finding("folder", "fail", f"{problem}; put the store on a local disk (--store)")
    return Finding("folder", "ok", f"{folder}: write-ahead logging works")


def check_space(folder: Path) -> Finding:
    """There is room on the disk."""
    if not folder.is_dir():
        return Finding("disk", "warn", f"{folder} is not there")
    free = shutil.disk_usage(folder).free
    shown = f"{free / 1e9:.1f} GB free"
    if free < SCARCE_SPACE:
        return Finding("disk", "fail", f"{shown}; make room")
    return Finding("disk", "warn" if free < LITTLE_SPACE else "ok", shown)


async def check_store(settings: Settings) -> Finding:
    """The store opens and is of a schema that this version knows."""
    url, shown = settings.store, mask_url(settings.store)
    try:
        if _is_sqlite(url) and not _is_there(path_of(url)):
            return Finding("store", "ok", f"{shown} is not there yet; the first use creates it")
        schema = await schema_at(url)
        if schema is not None and schema.found < schema.known:
            return _behind(shown, schema)
        async with open_store(with_key_prefix(url, settings.key_prefix)) as store:
            await store.ping()
    except WenmaiError as problem:
        return Finding("store", "fail", str(problem))
    return Finding("store", "ok", shown if schema is None else f"{shown} (schema {schema.found})")


def _behind(shown: str, schema: Schema) -> Finding:
    if not schema.found:
        return Finding("store", "ok", f"{shown} has no tables yet; the first use makes them")
    todo = f"the next start upgrades it to {schema.known}, or now: wenmai migrate"
    return Finding("store", "warn", f"{shown} (schema {schema.found}); {todo}")


async def check_cache(settings: Settings) -> Finding:
    """The Redis cache answers; without it the service runs all the same, but slower."""
    shown = mask_url(settings.hot)
    try:
        from wenmai.stores.redis.address import parse_address  # noqa: PLC0415 — its driver may be missing
        from wenmai.stores.redis.link import Link  # noqa: PLC0415

        link = Link(parse_address(with_key_prefix(settings.hot, settings.key_prefix), setting="hot"))
        try:
            await link.check()
        finally:
            await link.close()
    except ModuleNotFoundError:
        return Finding("cache", "fail", f"{shown}: {MissingExtra('redis', 'redis')}")
    except WenmaiError as problem:
        return Finding("cache", "fail", f"{problem}; start it, set another WENMAI_HOT, or leave it out")
    if settings.store.lower().startswith("redis"):
        return Finding(
            "cache", "fail", "there is no cache in front of a store that is Redis itself; leave WENMAI_HOT out"
        )
    return Finding("cache", "ok", shown)


def check_model(settings: Settings) -> Finding:
    """The model's package is there and takes the settings; it is not asked anything."""
    if settings.model in ("", "offline"):
        return Finding("model", "ok", "offline: answers quote the evidence")
    base_url, key = settings.model_base_url or None, settings.model_api_key or None
    return _opened("model", settings.model, lambda: open_model(settings.model, base_url=base_url, api_key=key))


def check_embedder(settings: Settings) -> Finding:
    """The embedder's package is there."""
    if settings.embedder == "none":
        return Finding("embedder", "ok", "none: evidence is found by words")
    return _opened("embedder", settings.embedder, lambda: open_embedder(settings.embedder))


def check_port(settings: Settings) -> Finding:
    """The service may and can listen where it is told to."""
    where = f"{settings.host}:{settings.port}"
    try:
        check_binding(settings.host)
        address = settings.host.strip("[]")
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        socket.create_server((address, settings.port), family=family).close()
    except WenmaiError as problem:
        return Finding("port", "fail", str(problem))
    except OSError as problem:
        why = os.strerror(problem.errno or 0)
        return Finding("port", "warn", f"{where}: {why}; is a service running? Else set another WENMAI_PORT")
    return Finding("port", "ok", f"{where} is free")


def _opened(what: str, name: str, opening: Callable[[], object]) -> Finding:
    try:
        opening()
    except MissingExtra as missing:
        return Finding(what, "fail", f"{name}: {missing}")
    except WenmaiError as problem:
        return Finding(what, "fail", str(problem))
    return Finding(what, "ok", name)


def _is_there(path: Path) -> bool:
    return path.exists()


def _is_sqlite(url: str) -> bool:
    return url.lower().startswith("sqlite://")


def _folder(url: str) -> Path | None:
    """The folder of an SQLite store; None for others, and for a URL that names no file."""
    try:
        return path_of(url).absolute().parent if _is_sqlite(url) else None
    except WenmaiError:
        return None
