"""The settings of an engine: the profile that they name has defaults of its own, below everything else."""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from wenmai.chat.profile import load_profile
from wenmai.errors import InvalidInput
from wenmai.settings import LoadedSettings, load_settings


def profile_path(name: str) -> Path:
    """The file of a shipped profile's name, or the path itself.

    Raises:
        InvalidInput: there is no such file.
    """
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    installed = Path(str(resources.files("wenmai"))) / "profiles" / f"{name}.yaml"
    checkout = Path(__file__).parents[2] / "profiles" / f"{name}.yaml"
    for path in (installed, checkout):
        if path.is_file():
            return path
    raise InvalidInput("profile", name, "a shipped profile or the path of a YAML file")


def load_engine_settings(
    *,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> LoadedSettings:
    """The settings with the profile's own defaults below everything else; see :func:`load_settings`."""
    first = load_settings(flags=flags, environment=environment, file=file)
    profile = load_profile(profile_path(first.values.profile))
    return load_settings(flags=flags, environment=environment, file=file, profile_defaults=profile.settings)
