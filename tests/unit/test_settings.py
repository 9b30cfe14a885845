"""Settings: precedence of sources, validation, masking."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from wenmai.config.allowed import allowed_values
from wenmai.config.settings import ALIASES, LoadedSettings, Settings, display_rows, load_settings
from wenmai.config.sources import load_engine_settings
from wenmai.errors import ConfigError, InvalidInput, mask_url


def load(
    environment: Mapping[str, str] | None = None, *, flags: Mapping[str, Any] | None = None, file: Path | None = None
) -> LoadedSettings:
    """Settings from these sources only."""
    return load_settings(flags=flags, environment=environment or {}, file=file)


def test_nothing_given_means_defaults() -> None:
    """Without any source every value is the default, with that origin."""
    loaded = load()
    assert loaded.values == Settings()
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.origins.keys() == set(Settings.__struct_fields__)


def test_precedence_of_sources(tmp_path: Path) -> None:
    """Flags, environment, file, profile; each value has its origin."""
    file = tmp_path / "own.toml"
    file.write_text("port = 2\nhistory_cap = 2\nwindow_messages = 2\n")
    profile = {"port": 1, "history_cap": 1, "window_messages": 1, "window_tokens": 1}
    environment = {"WENMAI_PORT": "3", "WENMAI_HISTORY_CAP": "3", "PATH": "/bin"}
    loaded = load_settings(flags={"port": 4}, environment=environment, file=file, profile_defaults=profile)
    values, origins = loaded.values, loaded.origins
    assert (values.port, origins["port"]) == (4, "flag --port")
    assert (values.history_cap, origins["history_cap"]) == (3, "environment WENMAI_HISTORY_CAP")
    assert (values.window_messages, origins["window_messages"]) == (2, "file own.toml")
    assert (values.window_tokens, origins["window_tokens"]) == (1, "profile")


def test_flag_that_is_none_counts_as_not_given() -> None:
    """None falls back to the next source; 0 and empty text are values."""
    environment = {"WENMAI_WINDOW_MESSAGES": "7", "WENMAI_MODEL": "openai:x", "WENMAI_PORT": "9"}
    values = load(environment, flags={"window_messages": None, "port": 0, "model": ""}).values
    assert (values.window_messages, values.port, values.model) == (7, 0, "")


def test_zero_is_possible_in_the_environment() -> None:
    """0 and false are values, under the legacy names too."""
    environment = {"MEMORY_MAX_MESSAGES": "0", "MEMORY_MAX_CHARS": "0", "MEMORY_ENABLED": "false", "WENMAI_PORT": "0"}
    values = load(environment).values
    assert (values.window_messages, values.window_characters, values.port) == (0, 0, 0)
    assert values.memory_enabled is False


def test_legacy_variables_have_lower_precedence() -> None:
    """Each alias sets its key; the same key as WENMAI_… wins."""
    assert set(ALIASES.values()) <= set(Settings.__struct_fields__)
    both = load({"MEMORY_TTL_SECONDS": "60", "WENMAI_SESSION_LIFETIME_SECONDS": "90", "REDIS_URL": "redis://r"})
    assert (both.values.session_lifetime_seconds, both.values.hot) == (90, "redis://r")
    assert both.origins["hot"] == "environment REDIS_URL"


@pytest.mark.parametrize(("text", "value"), [("true", True), ("1", True), ("False", False), ("0", False)])
def test_booleans_in_the_environment(text: str, *, value: bool) -> None:
    """Words and digits for true and false."""
    assert load({"WENMAI_MEMORY_ENABLED": text}).values.memory_enabled is value


def test_sites_are_a_list_or_text_with_commas(tmp_path: Path) -> None:
    """A list in a file, comma-separated text in the environment; empty text means none."""
    file = tmp_path / "own.yaml"
    file.write_text("sample_sites: [a/b, c/d]\n")
    assert load(file=file).values.sample_sites == ("a/b", "c/d")
    assert load({"WENMAI_SAMPLE_SITES": "a/b,c/d"}).values.sample_sites == ("a/b", "c/d")
    assert load({"WENMAI_SAMPLE_SITES": ""}).values.sample_sites == ()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("WENMAI_PORT", "70000"),
        ("WENMAI_PORT", "many"),
        ("WENMAI_PORT", "8.5"),
        ("WENMAI_WINDOW_MESSAGES", "-1"),
        ("WENMAI_WINDOW_MESSAGES", "501"),
        ("WENMAI_MODEL_TIMEOUT_SECONDS", "0"),
        ("WENMAI_MODEL_TIMEOUT_SECONDS", "nan"),
        ("WENMAI_MEMORY_ENABLED", "perhaps"),
        ("WENMAI_LANGUAGE", "Chinese, please"),
        ("WENMAI_LOG_LEVEL", "loud"),
        ("WENMAI_SAMPLE_SITES", "nowhere"),
        ("WENMAI_PROMPT_BUDGET_TOKENS", "10"),
        ("MEMORY_MAX_CHARS", "lots"),
        ("WENMAI_STORE", "sqlite:///\udcff.db"),
        ("WENMAI_KEY_PEPPER", "\udcff"),
    ],
)
def test_bad_value_names_key_and_origin(name: str, text: str) -> None:
    """A bad value is rejected with the key, the value and its origin."""
    with pytest.raises(ConfigError) as refused:
        load({name: text})
    key = ALIASES.get(name, name.removeprefix("WENMAI_").lower())
    assert refused.value.field == key
    assert refused.value.origin == f"environment {name}"
    assert str(refused.value).startswith(f"{key}: ")
    assert name in str(refused.value)


def test_unknown_keys_are_rejected_with_the_known_ones(tmp_path: Path) -> None:
    """A misspelt key is an error in the environment, in a file and among flags."""
    file = tmp_path / "own.toml"
    file.write_text("prot = 1\n")
    for given in ({"environment": {"WENMAI_PROT": "1"}}, {"file": file}, {"flags": {"prot": 1}}):
        with pytest.raises(ConfigError, match=r"prot: .*known settings: .*port"):
            load_settings(**({"environment": {}} | given))


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.toml", "port ="), ("a.yaml", "a: [b"), ("a.yaml", "- port"), ("a.toml", b"\xff"), ("none.toml", None)],
)
def test_unreadable_file_is_named(tmp_path: Path, name: str, content: str | bytes | None) -> None:
    """A file that is missing, broken, of another shape or not UTF-8 is an error that names it."""
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError, match=name) as refused:
        load(file=file)
    assert refused.value.field == "config"


def test_empty_file_changes_nothing(tmp_path: Path) -> None:
    """A file without keys is valid."""
    file = tmp_path / "own.yaml"
    file.write_text("# nothing yet\n")
    assert load(file=file).values == Settings()


def test_secrets_are_masked_wherever_they_are_shown() -> None:
    """API keys and passwords in URLs appear neither in the listing nor in an error."""
    loaded = load({"WENMAI_MODEL_API_KEY": "sk-secret", "REDIS_URL": "redis://me:secret@cache:6379/0"})
    listed = {key: text for key, text, _ in display_rows(loaded)}
    assert (listed["model_api_key"], listed["hot"]) == ("***", "redis://me:***@cache:6379/0")
    assert "secret" not in str(listed)
    with pytest.raises(ConfigError) as refused:
        load(flags={"model_api_key": ["sk-secret"]})
    assert "secret" not in str(refused.value)
    assert {key: text for key, text, _ in display_rows(load())}["model_api_key"] == ""


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("redis://:pw@h/0", "redis://:***@h/0"),
        ("postgresql://u:p@ss@h/db", "postgresql://u:***@h/db"),
        ("redis://u@h/0", "redis://u@h/0"),
        ("postgresql:/u:pw@h/db", "postgresql:/u:***@h/db"),
        (
            "postgresql://h/db?user=u&password=pw&sslmode=require",
            "postgresql://h/db?user=u&password=***&sslmode=require",
        ),
        ("sqlite:///wenmai.db", "sqlite:///wenmai.db"),
        ("memory://", "memory://"),
    ],
)
def test_only_passwords_of_urls_are_masked(url: str, masked: str) -> None:
    """The rest of the URL stays readable."""
    assert mask_url(url) == masked


def test_engine_settings_include_the_profile() -> None:
    """The profile's defaults have the lowest precedence; an unknown profile is an error that names it."""
    loaded = load_engine_settings(flags={"profile": "npc"}, environment={"WENMAI_WINDOW_MESSAGES": "4"})
    assert (loaded.values.key_prefix, loaded.origins["key_prefix"]) == ("yantian", "profile")
    assert loaded.origins["window_messages"] == "environment WENMAI_WINDOW_MESSAGES"
    with pytest.raises(InvalidInput, match="profile: 'nope'"):
        load_engine_settings(flags={"profile": "nope"}, environment={})


@pytest.mark.parametrize(
    ("key", "wrong", "allowed"),
    [
        ("store_policy", "plain", "encrypt or off or redact"),
        ("auth", "key", "none or keys or jwt or keys,jwt"),
        ("port", "http", "an integer from 0 to 65535"),
        ("workers", "0", "an integer from 1 to 64"),
        ("max_turns", "0", "an integer of at least 1"),
        ("pages", "", "true or false"),
        ("request_seconds", "0", "a number above 0 and at most 3600"),
        ("price_prompt", "-1", "a number of at least 0"),
        ("rate_limit", "5/day", "a rate such as 600/minute, or empty"),
        ("sample_sites", "town", "a list, of each a tenant and a site: tenant/site"),
    ],
)
def test_the_error_of_a_wrong_setting_says_what_is_allowed(key: str, wrong: str, allowed: str) -> None:
    """In words: neither a regular expression nor the name of a type."""
    variable = f"WENMAI_{key.upper()}"
    with pytest.raises(ConfigError) as caught:
        load_settings(environment={variable: wrong})
    assert str(caught.value) == f"{key}: {wrong!r} is not {allowed} (from environment {variable})"


def test_each_pattern_of_a_setting_is_described() -> None:
    """Else its error would say that it is no text."""
    hints = get_type_hints(Settings, include_extras=True)
    described = {key: allowed_values(hint) for key, hint in hints.items() if "pattern" in repr(hint)}
    assert len(described) > 10
    assert not [key for key, words in described.items() if words.endswith("text")]
