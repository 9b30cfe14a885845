"""The profile `npc`: its wording, its sample evidence and the scenario cases that lean on it."""

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from wenmai.config.profile import Profile, load_profile
from wenmai.stores.records import EvidenceRecord

ROOT = Path(__file__).resolve().parents[2]
PROFILE = ROOT / "profiles" / "npc.yaml"
CASES = ROOT / "tests" / "scenarios" / "cases"

FIRST_YEARS = {
    "洪武": 1368,
    "永乐": 1403,
    "嘉靖": 1522,
    "隆庆": 1567,
    "万历": 1573,
    "康熙": 1662,
    "雍正": 1723,
    "乾隆": 1736,
    "道光": 1821,
    "咸丰": 1851,
    "同治": 1862,
    "光绪": 1875,
}
ROMANISED = {
    "Hongwu": "洪武",
    "Yongle": "永乐",
    "Jiajing": "嘉靖",
    "Longqing": "隆庆",
    "Wanli": "万历",
    "Kangxi": "康熙",
    "Yongzheng": "雍正",
    "Qianlong": "乾隆",
    "Daoguang": "道光",
    "Xianfeng": "咸丰",
    "Tongzhi": "同治",
    "Guangxu": "光绪",
}
REIGN_YEAR = re.compile(f"({'|'.join(FIRST_YEARS)})([元一二三四五六七八九十]+)年(?:（(\\d{{4}})年）)?")
REIGN_YEAR_EN = re.compile(r"(\d+)(st|nd|rd|th) year of the (\w+) reign(?: \((\d{4})\))?")
PHRASES = (
    "greetings",
    "openings",
    "closings",
    "conservative",
    "refusals",
    "out_of_scope",
    "clarifications",
    "acknowledgements",
    "courtesies",
)
TURN_KEYS = {
    "npc",
    "ask",
    "intent",
    "mode",
    "cites_any",
    "cites_none",
    "says",
    "says_any",
    "never_says",
    "reason",
}


@cache
def profile() -> Profile:
    """The profile as shipped."""
    return load_profile(PROFILE)


@cache
def passages() -> tuple[EvidenceRecord, ...]:
    """All sample passages; each line has exactly the fields of the record, but for those of versions."""
    lines = [
        line for name in profile().evidence for line in (PROFILE.parent / name).read_text(encoding="utf-8").splitlines()
    ]
    allowed = set(EvidenceRecord.__struct_fields__) - {"effective_date", "supersedes"}
    assert all(set(json.loads(line)) == allowed for line in lines)
    return tuple(msgspec.json.decode(line, type=EvidenceRecord) for line in lines)


@cache
def cases() -> tuple[dict[str, Any], ...]:
    """All scenario cases, file by file."""
    files = sorted(CASES.glob("*.yaml"))
    return tuple(case for file in files for case in yaml.safe_load(file.read_text(encoding="utf-8")))


def in_chinese() -> dict[str, EvidenceRecord]:
    """The Chinese passages by id."""
    return {passage.evidence_id: passage for passage in passages() if passage.language == "zh"}


def in_english() -> dict[str, EvidenceRecord]:
    """The English passages by id."""
    return {passage.evidence_id: passage for passage in passages() if passage.language == "en"}


def chinese_number(numeral: str) -> int:
    """The value of a numeral of a reign's year, up to 九十九."""
    digits = {"元": 1} | {digit: value for value, digit in enumerate("一二三四五六七八九", 1)}
    tens, ten, ones = numeral.rpartition("十")
    return (digits.get(tens, 1) * 10 if ten else 0) + digits.get(ones, 0)


def all_text(passage: EvidenceRecord) -> str:
    """What a visitor may read of a passage."""
    return f"{passage.title}\n{passage.text}\n{passage.source_ref}"


def texts_in(value: object) -> list[str]:
    """All strings inside a nested value."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts_in(item)]
    if isinstance(value, list):
        return [text for item in value for text in texts_in(item)]
    return []


def test_two_personas_speak_both_languages() -> None:
    """Each persona has its name, and at least two phrases of each kind, in Chinese and in English."""
    assert [persona.persona_id for persona in profile().personas] == ["ancestor_yan", "village_elder"]
    for persona in profile().personas:
        assert set(persona.name) == set(persona.summary) == set(persona.system) == {"zh", "en"}
        for kind in PHRASES:
            phrases = getattr(persona, kind)
            assert {language: len(set(found)) >= 2 for language, found in phrases.items()} == {
                "zh": True,
                "en": True,
            }, (persona.persona_id, kind)


def test_conservative_phrases_name_the_topic() -> None:
    """What the records do not tell is said of a topic; no other phrase has a placeholder."""
    for persona in profile().personas:
        for kind in PHRASES:
            for phrase in texts_in(getattr(persona, kind)):
                assert phrase.count("{topic}") == (kind == "conservative"), phrase
                assert "{" not in phrase.replace("{topic}", "")


def test_every_domain_has_followups() -> None:
    """Three questions or more in each language for each domain of a persona, and for any domain."""
    for persona in profile().personas:
        assert set(persona.followups) == {"", *persona.domains}
        for followups in persona.followups.values():
            assert all(len(followups[language]) >= 3 for language in ("zh", "en"))


def test_persona_wording_states_no_facts() -> None:
    """No digit, no reign name and no named ancestor in what a persona says of itself."""
    facts = re.compile(rf"\d|{'|'.join(FIRST_YEARS)}|{'|'.join(ROMANISED)}|严[景伯守文惟世履培树]|Yan [A-Z]")
    for persona in profile().personas:
        for field in ("summary", "system", *PHRASES):
            for text in texts_in(getattr(persona, field)):
                assert not facts.search(text), text


def test_words_and_settings_are_complete() -> None:
    """Topic words and forbidden topics come in both languages; the settings are those documented."""
    assert profile().settings == {
        "session_lifetime_seconds": 86_400,
        "window_messages": 10,
        "window_characters": 4_000,
        "history_cap": 500,
        "key_prefix": "yantian",
        "sample_sites": ["default/default", "yantian/yantian-main"],
    }
    words = profile().lexicon.topics
    assert len(words) == len(set(words))
    for found in (words, *(topic.words for topic in profile().forbidden), *profile().intents.values()):
        latin = [word for word in found if word.isascii()]
        assert latin
        assert len(latin) < len(found)
    assert len([word for word in words if not word.isascii()]) >= 40


def test_evidence_ids_are_unique_and_correspond() -> None:
    """At least forty passages in Chinese, each once, and each again in English under the id with `-en`."""
    ids = [passage.evidence_id for passage in passages()]
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    assert len(in_chinese()) >= 40
    assert {f"{name}-en" for name in in_chinese()} == set(in_english())


def test_translations_agree() -> None:
    """A passage and its translation have the same years, domains, kind of source, confidence and standing."""
    for name, chinese in in_chinese().items():
        english = in_english()[f"{name}-en"]
        for field in ("domains", "source_type", "source_url", "confidence", "verified"):
            assert getattr(chinese, field) == getattr(english, field), (name, field)
        years = [set(re.findall(r"\d{4}", all_text(passage))) for passage in (chinese, english)]
        assert years[0] == years[1], name


def test_passages_can_be_quoted() -> None:
    """A passage has a title, a source, tags, a persona's domain and, in Chinese, 60 to 250 characters."""
    known = {domain for persona in profile().personas for domain in persona.domains}
    for passage in passages():
        assert passage.title
        assert passage.source_ref
        assert passage.tags
        assert set(passage.domains) <= known
        assert passage.domains
    assert [name for name, passage in in_chinese().items() if not 60 <= len(passage.text) <= 250] == []


def test_reign_years_have_their_western_year() -> None:
    """嘉靖二年 is 1523: every year of a reign is followed by the right western year, in both languages."""
    seen: set[str] = set()
    for passage in in_chinese().values():
        for reign, number, year in REIGN_YEAR.findall(all_text(passage)):
            assert FIRST_YEARS[reign] + chinese_number(number) - 1 == int(year or 0), passage.evidence_id
            seen.add(reign)
    assert seen == set(FIRST_YEARS)
    for passage in in_english().values():
        found = REIGN_YEAR_EN.findall(all_text(passage))
        assert len(found) == len(re.findall(r"\breign\b", all_text(passage))), passage.evidence_id
        for number, _, reign, year in found:
            assert FIRST_YEARS[ROMANISED[reign]] + int(number) - 1 == int(year or 0), passage.evidence_id


def test_every_precept_has_its_passage_and_most_a_story() -> None:
    """The list of ten, one passage for each under its ordinal, and at least six stories."""
    chinese = in_chinese()
    titles = re.findall("[一二三四五六七八九十]曰([^，。]+)", chinese["precepts-00"].text)
    assert len(titles) == 10
    for number, (ordinal, title) in enumerate(zip("一二三四五六七八九十", titles, strict=True), 1):
        passage = chinese[f"precepts-{number:02}"]
        assert passage.title == f"家训第{ordinal}条：{title}"
        assert passage.text.startswith(f"严氏家训第{ordinal}条「{title}」")
    stories = [passage.title for name, passage in chinese.items() if name.startswith("precepts-story-")]
    assert len([story for story in stories if any(f"{title}的故事" in story for title in titles)]) >= 6


def test_sources_disagree_once_and_some_are_hearsay() -> None:
    """The bridge has two years from two kinds of source; five passages or more are unverified hearsay."""
    gazetteer, stele = in_chinese()["village-03"], in_chinese()["village-04"]
    assert gazetteer.source_type != stele.source_type
    assert "1728" in gazetteer.text
    assert "1738" in stele.text
    hearsay = [passage for passage in in_chinese().values() if not passage.verified]
    assert len(hearsay) >= 5
    assert all(passage.confidence == 0.4 and passage.source_type == "oral" for passage in hearsay)


def test_evidence_keeps_the_open_questions_open() -> None:
    """No passage has a well or a count of today's villagers, and the earth god's temple has no year."""
    for passage in passages():
        assert not re.search(r"古井|水井|人口|\bwells?\b|population", all_text(passage)), passage.evidence_id
    for passage in (in_chinese()["village-07"], in_english()["village-07-en"]):
        assert not re.search(r"\d|建于|建成|\bbuilt\b|\bfounded\b", passage.text)


def test_scenario_cases_are_well_formed() -> None:
    """Seventy cases or more, with unique ids, a reason, known keys and personas, and texts as texts."""
    assert len(cases()) >= 70
    assert [name for name, count in Counter(case["id"] for case in cases()).items() if count > 1] == []
    assert len([case for case in cases() if case.get("language") == "en"]) >= 25
    personas = {persona.persona_id for persona in profile().personas}
    for case in cases():
        assert set(case) <= {"id", "say", "language", "evidence", "preferences", "turns"}, case["id"]
        assert case["say"]
        assert case["turns"]
        for turn in case["turns"]:
            assert set(turn) <= TURN_KEYS, case["id"]
            assert turn["npc"] in personas
            assert isinstance(turn["ask"], str)
            for key in ("cites_any", "says", "says_any", "never_says"):
                assert all(isinstance(text, str) and text for text in turn.get(key, ["-"])), (case["id"], key)


def test_scenario_cases_cite_passages_that_exist() -> None:
    """Every cited id is in the sample or in the case itself, and in a domain of the persona that is asked."""
    domains = {persona.persona_id: set(persona.domains) for persona in profile().personas}
    sample = {passage.evidence_id: passage for passage in passages()}
    for case in cases():
        extra = [msgspec.convert(item, EvidenceRecord) for item in case.get("evidence", [])]
        known = sample | {passage.evidence_id: passage for passage in extra}
        for turn in case["turns"]:
            for name in turn.get("cites_any", []):
                assert domains[turn["npc"]] & set(known[name].domains), (case["id"], name)


def test_expected_phrases_stand_in_the_cited_passages() -> None:
    """What an answer with citations must say can be quoted from one of the passages it may cite."""
    sample = {passage.evidence_id: passage for passage in passages()}
    for case in cases():
        for turn in case["turns"]:
            citable = "\n".join(sample[name].text for name in turn.get("cites_any", []))
            for phrase in turn.get("says", []) if citable else []:
                assert phrase in citable, (case["id"], phrase)
            possible = turn.get("says_any", []) if citable else []
            assert not possible or any(phrase in citable for phrase in possible), case["id"]


def test_conservative_answers_may_name_what_was_asked() -> None:
    """A case that expects a conservative answer forbids no text of its own question."""
    for case in cases():
        for turn in case["turns"]:
            if turn.get("mode") == "conservative":
                assert not [text for text in turn.get("never_says", []) if text in turn["ask"]], case["id"]
