"""Loads the settings of an engine, including the defaults of the configured profile."""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from wenmai.config.profile import load_profile
from wenmai.config.settings import LoadedSettings, load_settings
from wenmai.errors import InvalidInput


def profile_path(name: str) -> Path:
    """The file of a shipped profile, or the given path.

    Raises:
        InvalidInput: there is no shipped profile of that name.
    """
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    installed = Path(str(resources.files("wenmai"))) / "profiles" / f"{name}.yaml"
    checkout = Path(__file__).parents[3] / "profiles" / f"{name}.yaml"
    for path in (installed, checkout):
        if path.is_file():
            return path
    raise InvalidInput("profile", name, "the name of a shipped profile or the path of a YAML file")


def load_engine_settings(
    *,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> LoadedSettings:
    """The settings with the profile's defaults, which have the lowest precedence; see :func:`load_settings`."""
    first = load_settings(flags=flags, environment=environment, file=file)
    profile = load_profile(profile_path(first.values.profile))
    return load_settings(flags=flags, environment=environment, file=file, profile_defaults=profile.settings)
