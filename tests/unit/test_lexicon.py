"""Lexicons: the words of a field are data of its profile, and no part of the engine."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from sample_lexicon import LEXICON
from wenmai.config.lexicon import LexiconWords
from wenmai.config.profile import Profile, load_profile
from wenmai.config.sources import profile_path
from wenmai.errors import InvalidInput
from wenmai.grounding.answers.passages import analyse
from wenmai.grounding.answers.question import parse_question
from wenmai.grounding.answers.relevance import holds_value
from wenmai.grounding.claims.extraction import find_claims
from wenmai.grounding.lexicon import Lexicon

SOURCE = Path(__file__).parents[2] / "src" / "wenmai"

SAMPLE_TEXTS = SOURCE / "stores" / "conformance"
"""Texts that a store must keep, of whatever field; nothing is matched by them."""

GENERAL = {
    "kinds of settlements, streets and waters, which are in names of any field": "village street 堰 圳",
    "the calendar": "冬至 节日 festival festivals lantern_festival winter_solstice",
    "questions, in an expression": "是谁 由谁 什么时候 何时 哪一",
    "everyday words with other meanings": "和睦 ancestor deep old stage stages stone tree well",
}
"""Words of the sample's lexicon that any text in Chinese or English has, and why; ``_`` is a blank."""


def literals(word: str) -> Iterator[str]:
    """The words in an entry of a lexicon; of an expression those of two characters or more."""
    if not word.startswith("/"):
        yield word.rstrip("*").lower()
        return
    matched = re.sub(r"\(\?<?[=!](?:[^()]|\([^()]*\))*\)", " ", word)
    plain = re.sub(r"\\b|\[[^]]*\]|\{[^}]*\}|s\?|.\?", " ", matched)
    yield from (literal for literal in re.findall(r"[a-z]{2,}|[\u4e00-\u9fff]{2,}", plain))


def domain_words() -> list[str]:
    """The words of the sample's field."""
    general = {word.replace("_", " ") for words in GENERAL.values() for word in words.split()}
    return sorted({word for entry in LEXICON.words.all_words() for word in literals(entry)} - general)


def strings_in(path: Path) -> Iterator[tuple[int, str]]:
    """The string literals of a module, docstrings too, in lower case, and their lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, re.sub(r"\\b|_|frame-ancestors", " ", node.value.lower())


def names(word: str) -> re.Pattern[str]:
    """Where a text has the word: a Latin word or a single character only where it stands alone."""
    if word.isascii():
        return re.compile(rf"(?<![a-z]){re.escape(word)}(?![a-z])")
    return re.compile(rf"(?<![\u4e00-\u9fff\]]){word}(?![\u4e00-\u9fff\[])" if len(word) == 1 else re.escape(word))


def test_the_engine_has_no_domain_words() -> None:
    """No string of the source has a word of the sample's lexicon, but for the few that are general language."""
    words = domain_words()
    assert {"祠堂", "桥", "塔", "hall", "bridge", "genealogy", "严守正", "修谱", "后生", "precept"} <= set(words)
    assert len(words) > 280
    patterns = [(word, names(word)) for word in words]
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {word}"
        for path in sorted(SOURCE.rglob("*.py"))
        if not path.is_relative_to(SAMPLE_TEXTS)
        for line, text in strings_in(path)
        for word, pattern in patterns
        if word in text and pattern.search(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("word", "text", "found"),
    [
        ("lamp", "The Lamp burns.", "lamp"),
        ("lamp", "The lamps burn.", ""),
        ("lamp*", "The lamps burn.", "lamp"),
        ("oil lamp", "An oil lamp.", "lamp"),
        ("灯", "灯塔", "lamp"),
        ("/灯(?!塔)/", "灯塔", ""),
        ("/灯(?!塔)/", "油灯", "lamp"),
        ("c.", "abc", ""),
    ],
)
def test_a_word_matches_as_its_form_says(word: str, text: str, found: str) -> None:
    """Latin words whole, with a star any ending; Chinese ones anywhere; between slashes an expression."""
    lexicon = Lexicon(LexiconWords(entities={"lamp": [word]}))
    match = lexicon.entities.search(text)
    assert (match.lastgroup if match else "") == found


def test_synonyms_of_a_lexicon_match_one_another() -> None:
    """A question with one word of a group is matched by another; one of events must be in the clause of a date."""
    lexicon = Lexicon(LexiconWords(events={"launch": ["下水", "出坞"]}))
    assert [each.word for each in parse_question("这艘船哪年出坞？", lexicon).synonyms if each.is_event] == ["出坞"]
    assert parse_question("这艘船哪年出坞？").synonyms == ()
    text = analyse("", "这艘船1874年下水，1901年拆解。")
    assert holds_value(parse_question("这艘船哪年出坞？", lexicon), text, 0)
    assert not holds_value(parse_question("这艘船哪年出坞？", lexicon), analyse("", "这艘船1901年拆解。"), 0)


def test_words_of_a_lexicon_reach_the_claims() -> None:
    """Kinds of places, titles, measure words and words that are no names."""
    words = LexiconWords(
        place_kinds=["灯塔", "lighthouse"], titles=["塔长"], measure_words=["灯"], not_names=["老灯塔"]
    )
    lexicon = Lexicon(words)
    text = "阿恩灯塔有三灯，由王塔长看守。"
    assert [claim.value for claim in find_claims(text, lexicon)] == ["阿恩灯塔", "3 个", "王"]
    assert find_claims(text) == []
    assert find_claims("那座老灯塔。", lexicon) == []
    (place,) = find_claims("The Arn Lighthouse stands.", lexicon)
    assert place.kind == "place"


@pytest.mark.parametrize("word", ["/灯(/", "/(灯)/", " ", ""])
def test_a_word_that_cannot_be_matched_is_refused(word: str) -> None:
    """An expression that does not compile or has a group, and an empty word."""
    with pytest.raises(msgspec.ValidationError, match=r"no word and no regular expression.*\$\.lexicon"):
        msgspec.convert({"name": "p", "personas": [], "lexicon": {"topics": [word]}}, Profile)


def test_a_profile_has_its_lexicon_inside_or_beside_it(tmp_path: Path) -> None:
    """The same value from both; a file that cannot be read or has a wrong key is an error that names it."""
    inside, beside, words = tmp_path / "a.yaml", tmp_path / "b.yaml", tmp_path / "words.yaml"
    inside.write_text("name: a\npersonas: []\nlexicon: {topics: [lamp]}\n", encoding="utf-8")
    beside.write_text("name: a\npersonas: []\nlexicon: words.yaml\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"words\.yaml"):
        load_profile(beside)
    words.write_text("topics: [lamp]\n", encoding="utf-8")
    assert load_profile(inside) == load_profile(beside)
    words.write_text("subjects: [lamp]\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match="subjects"):
        load_profile(beside)


def test_the_words_of_a_lexicon_are_plain_data() -> None:
    """They can be stored and read again, as a record that is found from evidence will be."""
    words = load_profile(profile_path("npc")).lexicon
    assert msgspec.json.decode(msgspec.json.encode(words), type=LexiconWords) == words
