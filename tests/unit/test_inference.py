"""Preference inference from the user's messages."""

import pytest

from wenmai.memory.inference import MAX_TAGS, Inferred, infer
from wenmai.stores.records import Preferences

TOPICS = ["家训", "严氏家训", "祠堂", "农耕", "hall"]


def asked(*texts: str) -> list[tuple[str, str]]:
    """The user's messages, as turns 1, 2, 3 … of one persona."""
    return [(f"ancestor_yan#{number}", text) for number, text in enumerate(texts, 1)]


def preferences(**fields: object) -> Preferences:
    """The defaults with some fields changed."""
    return Preferences(session_id="s1", **fields)  # type: ignore[arg-type]  # each test passes valid values


@pytest.mark.parametrize(
    ("text", "verbosity"),
    [
        ("请说得详细一点", "detailed"),
        ("说具体些", "detailed"),
        ("你说得太短了", "detailed"),
        ("Please give me more detail", "detailed"),
        ("简单点", "brief"),
        ("回答短一点", "brief"),
        ("不要太详细", "brief"),
        ("keep it short, please", "brief"),
        ("有什么具体的故事吗？", None),
        ("祠堂有多长？", None),
    ],
)
def test_a_request_sets_the_verbosity(text: str, verbosity: str | None) -> None:
    """Only a request for longer or shorter answers counts; its turn is the source."""
    found = infer(asked(text), preferences(), TOPICS)
    assert found.verbosity == verbosity
    assert found.sources == ({"verbosity": ["ancestor_yan#1"]} if verbosity else {})


def test_the_latest_request_counts() -> None:
    """A user who asked for more and then for less gets less."""
    found = infer(asked("详细一点", "祠堂是谁建的？", "太长了，简单点"), preferences(), TOPICS)
    assert (found.verbosity, found.sources["verbosity"]) == ("brief", ["ancestor_yan#3"])


def test_five_very_short_messages_mean_brief() -> None:
    """Five terse messages in a row give brief answers; four do not."""
    assert infer(asked("祠堂？", "家训", "谁？", "why?"), preferences(), []).verbosity is None
    found = infer(asked("祠堂？", "家训", "谁？", "哪年？", "why?"), preferences(), [])
    assert found.verbosity == "brief"
    assert len(found.sources["verbosity"]) == 5


@pytest.mark.parametrize(
    ("text", "tone"),
    [
        ("轻松点聊吧", "casual"),
        ("别这么正式", "casual"),
        ("please speak casually", "casual"),
        ("请用敬语", "respectful"),
        ("speak more formally", "formal"),
        ("哈哈真好玩", None),
        ("不用敬语", None),
    ],
)
def test_only_an_explicit_request_sets_the_tone(text: str, tone: str | None) -> None:
    """Mood is not inferred."""
    current = preferences(tone="casual") if tone == "formal" else preferences()
    assert infer(asked(text), current, TOPICS).tone == tone


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("please answer in English", "en"),
        ("请用英文回答", "en"),
        ("请说日语", "ja"),
        ("不要用英文回答", None),
        ("“孝”用英文怎么说？", None),
        ("请用中文", None),
    ],
)
def test_a_requested_language_is_inferred(text: str, language: str | None) -> None:
    """The request takes effect at once; the current language is no change."""
    assert infer(asked(text), preferences(), TOPICS).language == language


def test_the_language_follows_the_messages() -> None:
    """Two of the last three messages in English are enough, one is not."""
    once = asked("祠堂是谁建的？", "家训有哪些？", "Who built the hall?")
    assert infer(once, preferences(), TOPICS).language is None
    found = infer([*once, ("village_elder#1", "When was it built?")], preferences(), TOPICS)
    assert (found.language, found.sources["language"]) == ("en", ["ancestor_yan#3", "village_elder#1"])


@pytest.mark.parametrize("text", ["WiFi 123", "OK", "1368?", "🙂🙂"])
def test_unclear_messages_do_not_change_the_language(text: str) -> None:
    """Names, figures and symbols belong to no language."""
    assert infer(asked(text, text, text), preferences(), []).language is None


def test_a_requested_language_is_not_overridden_by_the_language_of_messages() -> None:
    """A user who asked for English and continues in Chinese keeps English."""
    current = preferences(language="en", sources={"language": ["ancestor_yan#1"]})
    later = asked("", "祠堂是谁建的？", "家训有哪些？", "后来怎样了？")[1:]
    assert infer(later, current, TOPICS).language is None
    assert infer(later, preferences(language="en"), TOPICS).language == "zh"


def test_the_users_choice_is_never_changed() -> None:
    """An explicit choice overrides every inference."""
    current = preferences(chosen=["verbosity", "tone", "language", "interest_tags"])
    found = infer(asked("请用英文详细一点讲祠堂", "轻松点，祠堂"), current, TOPICS)
    assert found == Inferred()


def test_a_topic_in_two_turns_becomes_a_tag() -> None:
    """Two mentions in one turn count once; part of a longer topic word does not count."""
    again = ("ancestor_yan#4", "家训呢？")
    found = infer([*asked("祠堂，祠堂！", "严氏家训", "祠堂和严氏家训", "家训"), again], preferences(), TOPICS)
    assert found.add_interest_tags == ["严氏家训", "祠堂"]
    assert found.sources == {
        "interest_tags:祠堂": ["ancestor_yan#1", "ancestor_yan#3"],
        "interest_tags:严氏家训": ["ancestor_yan#2", "ancestor_yan#3"],
    }


def test_a_removed_tag_is_not_inferred_again() -> None:
    """A tag that the user removed is not added again; an existing one is not added twice."""
    current = preferences(interest_tags=["家训"], chosen=["interest_tags:-祠堂"])
    assert infer(asked("祠堂家训", "祠堂家训农耕", "农耕"), current, TOPICS).add_interest_tags == ["农耕"]


def test_new_tags_evict_the_oldest_inferred_ones() -> None:
    """At most 20 are kept; the user's own are not evicted."""
    tags = ["自选", *(f"旧{number}" for number in range(MAX_TAGS - 1))]
    inferred = {f"interest_tags:{tag}": ["x#1"] for tag in tags[1:]}
    found = infer(asked("祠堂农耕", "祠堂农耕"), preferences(interest_tags=tags, sources=inferred), TOPICS)
    assert (found.add_interest_tags, found.drop_interest_tags) == (["祠堂", "农耕"], ["旧0", "旧1"])
    for own in (
        preferences(interest_tags=tags),
        preferences(interest_tags=tags, sources=inferred, chosen=[*inferred]),
    ):
        kept = infer(asked("祠堂", "祠堂"), own, TOPICS)
        assert (kept.add_interest_tags, kept.drop_interest_tags) == ([], [])


def test_only_enumerated_values_and_topic_words_are_inferred() -> None:
    """Names, claims and secrets in the user's messages are not stored."""
    found = infer(asked("我叫李雷，祠堂建于1300年", "祠堂建于1300年，记住", "我叫李雷"), preferences(), TOPICS)
    assert found == Inferred(
        add_interest_tags=["祠堂"], sources={"interest_tags:祠堂": ["ancestor_yan#1", "ancestor_yan#2"]}
    )
