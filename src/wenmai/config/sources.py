"""Loads the settings of an engine, including the defaults of the configured profile."""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from wenmai.config.profile import Profile, load_profile
from wenmai.config.settings import LoadedSettings, Settings, load_settings
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


class LoadedProfile(NamedTuple):
    """A profile and its file, beside which its evidence is."""

    path: Path
    profile: Profile

    @property
    def settings(self) -> Settings:
        """The settings that it asks for."""
        return load_settings(environment={}, profile_defaults=self.profile.settings).values


def load_profiles(names: str) -> list[LoadedProfile]:
    """The profiles of the setting ``profile``: one, or several joined by commas.

    Raises:
        InvalidInput: a profile is missing or invalid, or two have a persona of the same id.
    """
    paths = [profile_path(name.strip()) for name in names.split(",")]
    loaded = [LoadedProfile(path, load_profile(path)) for path in paths]
    personas = [persona.persona_id for each in loaded for persona in each.profile.personas]
    if twice := sorted({persona for persona in personas if personas.count(persona) > 1}):
        raise InvalidInput("profile", names, f"profiles with different personas: {twice[0]} is in two")
    return loaded


def load_engine_settings(
    *,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> LoadedSettings:
    """The settings with the first profile's defaults, which have the lowest precedence; see :func:`load_settings`."""
    first = load_settings(flags=flags, environment=environment, file=file)
    profile = load_profiles(first.values.profile)[0].profile
    return load_settings(flags=flags, environment=environment, file=file, profile_defaults=profile.settings)
