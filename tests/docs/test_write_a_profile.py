"""The example profile of the how-to page loads, and its persona answers from its evidence."""

import re
from pathlib import Path

import msgspec
import pytest
import yaml

from wenmai.chat.turn import TurnAnswer, TurnRequest
from wenmai.cli.checks import check_profile
from wenmai.config.lexicon import LexiconWords
from wenmai.config.settings import Settings
from wenmai.engine import Engine, load_engine_settings, open_engine
from wenmai.errors import InvalidInput
from wenmai.scope import Scope

PAGE = Path(__file__).parents[2] / "docs/how-to/write-a-profile.md"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings that name the page's profile, written beside its evidence."""
    files: list[tuple[str, str]] = re.findall(
        r"^`(lighthouse\.\w+)`:\n\n```\w+\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert {name for name, _ in files} == {"lighthouse.yaml", "lighthouse.md"}
    for name, text in files:
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    flags = {"profile": "lighthouse.yaml", "store": "memory://"}
    return load_engine_settings(flags={"embedder": "none", **flags}, environment={}).values


async def ask(engine: Engine, query: str, session_id: str | None = None) -> TurnAnswer:
    """The keeper's answer."""
    request = TurnRequest(scope=Scope(), persona_id="keeper", query=query, session_id=session_id)
    return await engine.chat.ask(request)


async def test_the_persona_of_the_page_answers_from_its_evidence(settings: Settings) -> None:
    """Facts with sources, a follow-up question, a question without evidence, a forbidden topic."""
    assert check_profile(settings).state == "ok"
    async with open_engine(settings) as engine:
        assert (await ask(engine, "Good morning!")).answer_text.startswith("Good day!")
        first = await ask(engine, "When was the tower built?")
        assert "1874" in first.answer_text
        assert first.citations[0].source_ref == "Log book, volume 1"
        assert first.persona_name == "Lighthouse Keeper"
        second = await ask(engine, "Who was the first keeper?", first.session_id)
        assert "Marta Lindqvist" in second.answer_text
        unknown = await ask(engine, "How much did the lamp cost?", first.session_id)
        assert (unknown.policy_mode, unknown.citations) == ("conservative", [])
        refused = await ask(engine, "Tell me about plunder!", first.session_id)
        assert (refused.policy_mode, refused.answer_text) == ("refuse", "I do not talk about that.")


def test_doctor_warns_of_evidence_that_no_persona_finds(settings: Settings) -> None:
    """Such as a plain text, which has no domain; it names the domains that personas have."""
    profile = Path("lighthouse.yaml")
    profile.write_text(
        profile.read_text(encoding="utf-8").replace("[lighthouse.md]", "[lighthouse.md, hours.txt]"), encoding="utf-8"
    )
    Path("hours.txt").write_text("The tower is open from 9 to 5.", encoding="utf-8")
    found = check_profile(settings)
    assert found.state == "warn"
    assert "lighthouse: no persona finds 1 of the 3 passages" in found.text
    assert "lamp, tower" in found.text


def append_to_profile(line: str) -> None:
    """Add a line at the end of the page's profile."""
    with Path("lighthouse.yaml").open("a", encoding="utf-8") as profile:
        profile.write(f"\n{line}\n")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("policy: {strict: true}", "policy.strict: True is not a setting: one of min_citations"),
        ("intent_policy: {greeting: {min_score: high}}", "policy.min_score: 'high' is not a number from 0 to 1"),
        (
            "intent_policy: {greeting: {}, thanks: {}}",
            "profile.intent_policy: 'thanks' is not one of greeting",
        ),
    ],
)
async def test_a_policy_that_no_turn_could_use_is_refused_at_the_start(
    settings: Settings, wrong: str, message: str
) -> None:
    """Not by each turn, as an error of the user's question; doctor says so too."""
    append_to_profile(wrong)
    with pytest.raises(InvalidInput) as caught:
        async with open_engine(settings):
            pass
    assert str(caught.value).startswith(message)
    assert check_profile(settings).state == "fail"
    assert check_profile(settings).text.startswith(message)


def test_the_lexicon_of_the_page_is_valid() -> None:
    """It is the page's only other YAML block."""
    (words,) = re.findall(r"^```yaml\n(topics:.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert "lighthouse" in msgspec.convert(yaml.safe_load(words), LexiconWords).entities["tower"]


@pytest.mark.usefixtures("settings")
def test_the_program_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """In the folder of the profile and its evidence."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    exec(compile(code, str(PAGE), "exec"), {"__name__": "__main__"})  # noqa: S102 — our own code
    assert "1874" in capsys.readouterr().out
