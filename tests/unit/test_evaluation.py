"""Evaluation: scores of answers and of verified statements, loading of labelled cases, reading sets, the commands."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from wenmai.cli.app import app
from wenmai.config.profile import load_profile
from wenmai.config.settings import Settings
from wenmai.engine import load_engine_settings
from wenmai.errors import InvalidInput
from wenmai.evaluation.answers import ask_set
from wenmai.evaluation.cases import Statement, Turn, dialogues_in, in_half
from wenmai.evaluation.comparison import occurs
from wenmai.evaluation.loading import load_answer_set, load_statement_set
from wenmai.evaluation.reading import ReadingLimits, load_reading_set
from wenmai.evaluation.report import AnswerReport, StatementReport, table
from wenmai.evaluation.scoring import AskedTurn, answer_figures, percentile, score_turn
from wenmai.evaluation.statement_scoring import is_kept
from wenmai.evaluation.statements import verify_set

PROFILE = Path(__file__).parents[1] / "grounding" / "profile.yaml"

PASSAGES = [
    {
        "evidence_id": "bridge",
        "title": "The bridge",
        "text": "The bridge was built in 1728 by Lin Wen.",
        "language": "en",
    },
    {
        "evidence_id": "mill",
        "title": "The mill",
        "text": "The mill was built in 1802 beside the river.",
        "language": "en",
    },
]
ANSWER = """
evidence: [evidence.jsonl]
profile: profile.yaml
dialogues:
- id: village-1
  language: en
  turns:
  - ask: When was the bridge built?
    category: number
    expect: answer
    cite: [bridge]
    show: [["1728"]]
    never: [mill]
  - {ask: "When was the mill built?", category: number, expect: answer, cite: [bridge], show: [["1900"]]}
- id: village-2
  language: en
  turns:
  - {ask: "Who is the mayor of Paris?", category: unanswerable, expect: hold_back}
  - {ask: "Thank you!", category: courtesy, expect: courtesy}
"""
STATEMENTS = """
evidence: [evidence.jsonl]
profile: profile.yaml
answers:
- id: v-1
  language: en
  question: When was the bridge built?
  passages: [bridge, mill]
  statements:
  - {text: "The bridge was built in 1728 by Lin Wen [1].", true: true, kind: verbatim}
  - {text: "The mill was built in 1999 [2].", true: false, kind: value, lie: "1999"}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Evidence, profile and both kinds of cases."""
    lines = [json.dumps(each) for each in PASSAGES]
    (tmp_path / "evidence.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "profile.yaml").write_text(PROFILE.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "answers.yaml").write_text(ANSWER, encoding="utf-8")
    (tmp_path / "verification.yaml").write_text(STATEMENTS, encoding="utf-8")
    return tmp_path


def settings_with(profile: str | None) -> Settings:
    """Settings of a profile, without an embedder."""
    return load_engine_settings(flags={"profile": profile, "embedder": "none"}, environment={}).values


def asked(turn: Turn, **observed: Any) -> AskedTurn:
    """A turn with its answer; a normal one without citations, unless told."""
    given: dict[str, Any] = {"mode": "normal", "answer": "", "citations": [], "intent": "fact_seeking", "ms": 1.0}
    given |= observed
    return AskedTurn(
        set_name="s", id="d", number=1, language="en", turn=turn, reason="", searched="", found=[], **given
    )


def answerable(**fields: Any) -> Turn:
    """A turn that expects the passage ``a``."""
    given: dict[str, Any] = {"cite": ["a"], **fields}
    return Turn(ask="?", category="c", expect="answer", **given)


HOLD = Turn(ask="?", category="c", expect="hold_back", never=["secret"])
COURTESY = Turn(ask="?", category="c", expect="courtesy")


@pytest.mark.parametrize(
    ("turn", "observed", "problems"),
    [
        (answerable(), {"citations": ["b", "a"]}, []),
        (answerable(), {"citations": ["b"]}, ["cites b"]),
        (answerable(), {}, ["not answered"]),
        (answerable(), {"citations": ["a"], "mode": "conservative"}, ["not answered"]),
        (answerable(cite=["a", "b"]), {"citations": ["b"]}, []),
        (answerable(cite=["a", "b"], cite_all=True), {"citations": ["b"]}, ["cites b"]),
        (answerable(cite=["a", "b"], cite_all=True), {"citations": ["b", "a"]}, []),
        (answerable(show=[["x", "y"], ["z"]]), {"citations": ["a"], "answer": "y z"}, []),
        (answerable(show=[["x", "y"], ["z"]]), {"citations": ["a"], "answer": "y"}, ["does not show z"]),
        (answerable(never=["wrong"]), {"citations": ["a"], "answer": "It is Wrong."}, ["says wrong"]),
        (HOLD, {"mode": "conservative"}, []),
        (HOLD, {"mode": "refuse"}, []),
        (HOLD, {}, ["not held back"]),
        (HOLD, {"intent": "out_of_scope"}, []),
        (HOLD, {"citations": ["a"]}, ["cites a"]),
        (HOLD, {"mode": "conservative", "answer": "the secret"}, ["says secret"]),
        (COURTESY, {"intent": "greeting"}, []),
        (COURTESY, {"mode": "conservative"}, ["no courtesy"]),
        (COURTESY, {"intent": "out_of_scope"}, ["no courtesy"]),
        (COURTESY, {"citations": ["a"]}, ["cites a"]),
    ],
)
def test_a_turn_is_right_if_all_conditions_of_its_case_hold(
    turn: Turn, observed: dict[str, Any], problems: list[str]
) -> None:
    """Each violated condition is named."""
    score = score_turn(asked(turn, **observed))
    assert (score.problems, score.right) == (problems, not problems)


def test_figures_count_wrong_answers_among_all_normal_answers_with_a_citation() -> None:
    """Wrong ones are those with another citation, without the answer, and to what is unanswerable or courtesy."""
    turns = [
        asked(answerable(show=[["x"]]), citations=["a"], answer="x", ms=9.0),
        asked(answerable(show=[["x"]]), citations=["a"], answer="y"),
        asked(answerable(show=[["x"]]), citations=["b"], answer="x"),
        asked(answerable(), mode="conservative"),
        asked(HOLD, citations=["a"]),
        asked(HOLD, mode="conservative"),
        asked(COURTESY),
        asked(COURTESY, citations=["a"]),
    ]
    figures = msgspec.to_builtins(answer_figures([(each, score_turn(each)) for each in turns]))
    assert figures == {
        "asked": 8,
        "answerable": 4,
        "answered": 3,
        "right_citation": 2,
        "shown": 2,
        "right": 1,
        "held_back_wrongly": 1,
        "normal_cited": 5,
        "wrong": 4,
        "unanswerable": 2,
        "held_back": 1,
        "answered_wrongly": 1,
        "courtesies": 2,
        "courtesy_right": 1,
        "median_ms": 1.0,
        "p95_ms": 9.0,
    }


@pytest.mark.parametrize(
    ("part", "text", "expected"),
    [
        ("Lin Wen", "by lin wen.", True),
        ("１７２８", "in 1728", True),
        ("漢語", "汉语", True),
        ("登记入库", "登记 入库", True),
        ("登记B", "登记 b", True),
        ("two words", "two\n words", True),
        ("two words", "twowords", False),
        ("12", "2012", False),
        ("12", "12.5", False),
        ("12", "12元。", True),
        ("12", "It is 12.", True),
        ("3", "1,3", False),
    ],
)
def test_texts_are_compared_without_case_width_and_script(part: str, text: str, expected: bool) -> None:  # noqa: FBT001
    """White space does not matter next to Chinese; a number is found as a whole only."""
    assert occurs(part, text) is expected


@pytest.mark.parametrize(
    ("statement", "verified", "kept"),
    [
        ({"text": "Built in 1728 [1].", "true": True}, "It was. Built in 1728.", True),
        ({"text": "Built in 1728 [1].", "true": True}, "It was.", False),
        ({"text": "Built in 1728 [1].", "true": False}, "Built in 1728", True),
        ({"text": "Built in 1728 by Lin.", "true": False, "lie": "by Lin"}, "Built in 1728 BY LIN!", True),
        ({"text": "Built in 1728 by Lin.", "true": False, "lie": "by Lin"}, "Built in 1728.", False),
        ({"text": "It comes charged.", "true": False, "lie": "charged"}, "It never comes charged.", False),
        (
            {"text": "No, it never comes charged.", "true": False, "lie": "comes charged"},
            "No, it never comes charged.",
            True,
        ),
        (
            {"text": "So it comes charged.", "true": False, "lie": "charged"},
            "So charged. It never comes charged.",
            True,
        ),
    ],
)
def test_a_statement_is_kept_if_the_verified_text_has_it_or_its_lie(
    statement: dict[str, Any],
    verified: str,
    kept: bool,  # noqa: FBT001
) -> None:
    """Citation marks do not matter, nor do words of a lie in a sentence of the evidence."""
    assert is_kept(Statement(kind="k", **statement), verified, ["It never comes charged."]) is kept


def test_percentiles_are_of_the_nearest_rank() -> None:
    """The median of an even number is the lower one; there is none of nothing."""
    values = [float(each) for each in range(20, 0, -1)]
    assert (percentile(values, 0.5), percentile(values, 0.95), percentile([], 0.5)) == (10.0, 19.0, 0.0)


def test_halves_are_disjoint_and_complete() -> None:
    """The halves follow from the ids alone: SHA-256 even is tuned."""
    ids = [f"case-{number}" for number in range(200)]
    tuned, aside = ({each for each in ids if in_half(each, half)} for half in ("tuned", "aside"))
    assert tuned | aside == set(ids)
    assert not tuned & aside
    assert 70 < len(tuned) < 130
    assert {each for each in ids if in_half(each, "all")} == set(ids)
    assert [in_half(each, "tuned") for each in "abc"] == [False, False, True]


async def test_dialogues_are_asked_in_sessions_with_the_evidence_of_the_set_alone(folder: Path) -> None:
    """A right answer, a wrong one, a question that is held back, and a courtesy."""
    given = load_answer_set(folder / "answers.yaml", "village")
    settings = settings_with(given.profile)
    heard: list[str] = []
    turns = await ask_set(settings, given, on_dialogue=lambda dialogue: heard.append(dialogue.id))
    assert heard == ["village-1", "village-2"]
    assert [(each.id, each.number, each.citations) for each in turns] == [
        ("village-1", 1, ["bridge"]),
        ("village-1", 2, ["mill"]),
        ("village-2", 1, []),
        ("village-2", 2, []),
    ]
    assert turns[0].found[0] == "bridge"
    report = AnswerReport(turns)
    assert [score.problems for _, score in report.scored] == [[], ["cites mill", "does not show 1900"], [], []]
    assert [failure["turn"]["ask"] for failure in report.failures()] == ["When was the mill built?"]


async def test_the_turns_of_a_dialogue_share_a_session_and_dialogues_do_not(folder: Path) -> None:
    """A follow-up is searched with the words of the question before it, unless it begins a dialogue."""
    given = load_answer_set(folder / "answers.yaml", "village")
    follow_up = Turn(ask="And who built it?", category="follow_up", expect="answer", cite=["bridge"])
    first = msgspec.structs.replace(given.dialogues[0], turns=[given.dialogues[0].turns[0], follow_up])
    second = msgspec.structs.replace(given.dialogues[1], turns=[follow_up])
    settings = settings_with(given.profile)
    turns = await ask_set(settings, msgspec.structs.replace(given, dialogues=[first, second]))
    assert ["bridge" in each.searched for each in turns] == [True, True, False]


async def test_a_shipped_profile_answers_from_the_set_and_not_from_its_sample(folder: Path) -> None:
    """Its personas have domains; passages without one are found nevertheless, and nothing else is."""
    sample = Turn(ask="祠堂是哪一年建的？", category="c", expect="hold_back")
    given = load_answer_set(folder / "answers.yaml", "village")
    dialogue = msgspec.structs.replace(given.dialogues[0], turns=[given.dialogues[0].turns[0], sample])
    settings = settings_with("npc")
    turns = await ask_set(settings, msgspec.structs.replace(given, dialogues=[dialogue]))
    assert turns[0].citations == ["bridge"]
    assert set(turns[1].found) <= {"bridge", "mill"}


async def test_a_dialogue_is_put_to_a_persona_that_may_use_its_passages(folder: Path) -> None:
    """Of the personas of the profile `npc` only the second may use passages on farming."""
    records = [dict(PASSAGES[0], domains=["farming"]), dict(PASSAGES[1], domains=["precepts"])]
    (folder / "evidence.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    settings = settings_with("npc")
    given = load_answer_set(folder / "answers.yaml", "village")
    turns = await ask_set(settings, given)
    assert turns[0].citations == ["bridge"]
    with pytest.raises(InvalidInput, match="village: persona: 'nobody' is not a persona of the profile: ancestor_yan"):
        await ask_set(settings, msgspec.structs.replace(given, persona="nobody"))
    only = [msgspec.structs.replace(each, domains=["bank"]) for each in given.evidence]
    with pytest.raises(InvalidInput, match=r"village: evidence\.domains"):
        await ask_set(settings, msgspec.structs.replace(given, evidence=only))


def test_statements_are_verified_and_counted_by_kind(folder: Path) -> None:
    """The value is removed, the quotation is kept; the cost is that of one answer."""
    given = load_statement_set(folder / "verification.yaml", "village")
    report = StatementReport([verify_set(given, load_profile(PROFILE))])
    assert [(each.statement.kind, each.kept) for each in report.statements] == [("verbatim", True), ("value", False)]
    assert report.failures() == []
    assert report.cost()["answers"] == 1
    assert report.cost()["median_characters"] == len(" ".join(each.text for each in given.answers[0].statements))


def test_leaks_and_overblocking_are_reported(folder: Path) -> None:
    """With labels exchanged they are a leak and an over-blocking; a replaced statement leaves the answer normal."""
    text = STATEMENTS.replace(', lie: "1999"', "").replace("true: true", "true: x").replace("true: false", "true: true")
    (folder / "verification.yaml").write_text(text.replace("true: x", "true: false"), encoding="utf-8")
    given = load_statement_set(folder / "verification.yaml", "village")
    report = StatementReport([verify_set(given, load_profile(PROFILE))])
    assert msgspec.to_builtins(report.groups["all"]["all"]) == {
        "false": 1,
        "leaked": 1,
        "leaked_as_normal": 1,
        "true": 1,
        "overblocked": 1,
    }
    assert [each["problems"] for each in report.failures()] == [["leaked"], ["removed"]]


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (
            "answers.yaml",
            "expect: hold_back",
            "expect: silence",
            r"answers\.yaml: dialogues\[1\]\.turns\[0\]\.expect: 'silence'",
        ),
        ("answers.yaml", "category: courtesy", "categorie: courtesy", r"dialogues\[1\]\.turns\[1\]: .*categorie"),
        ("answers.yaml", "  language: en\n", "", r"dialogues\[0\]: .*`language`"),
        ("answers.yaml", "id: village-2", "id: village-1", r"dialogues\[1\]\.id: 'village-1' is not unique"),
        ("answers.yaml", 'cite: [bridge], show: [["1900"]]', "show: []", r"turns\[1\]: .*`cite` is missing"),
        (
            "answers.yaml",
            "expect: hold_back",
            "expect: hold_back, cite: [mill]",
            r"turns\[0\]: .*are for `expect: answer`",
        ),
        (
            "answers.yaml",
            'cite: [bridge], show: [["1900',
            'cite: [brigde], show: [["1900',
            r"turns\[1\]\.cite: 'brigde' is not an id",
        ),
        ("answers.yaml", '[["1728"]]', "[[1728]]", r"turns\[0\]\.show\[0\]\[0\]: 1728"),
        ("answers.yaml", "[evidence.jsonl]", "[absent.jsonl]", r"answers\.yaml: evidence: 'absent\.jsonl'"),
        (
            "answers.yaml",
            "[evidence.jsonl]",
            "[evidence.jsonl, evidence.jsonl]",
            r"evidence_id: 'bridge' is not unique",
        ),
        ("answers.yaml", "dialogues:", "dialogues: [", "is not a readable file"),
        ("verification.yaml", "true: false", "false: true", r"answers\[0\]\.statements\[1\]: "),
        (
            "verification.yaml",
            "passages: [bridge, mill]",
            "passages: [dam]",
            r"answers\[0\]\.passages: 'dam' is not an id",
        ),
        ("verification.yaml", 'lie: "1999"', 'lie: "1888"', r"statements\[1\]: .*`lie` is not a part of `text`"),
        (
            "verification.yaml",
            "kind: verbatim",
            'kind: verbatim, lie: "1728"',
            r"statements\[0\]: .*for false statements",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_field(
    folder: Path, file: str, old: str, new: str, message: str
) -> None:
    """Unknown keys are refused; so are values of another type, ids that are not in the evidence, and repeated ids."""
    path = folder / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    load = load_answer_set if file == "answers.yaml" else load_statement_set
    with pytest.raises(InvalidInput, match=message):
        load(path, "village")


def test_a_line_of_evidence_that_cannot_be_used_is_named(folder: Path) -> None:
    """With its file and number."""
    (folder / "evidence.jsonl").write_text('{"text": ""}', encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"answers\.yaml: evidence: 'evidence\.jsonl:1'"):
        load_answer_set(folder / "answers.yaml", "village")


def squad(passages: int, questions: int) -> dict[str, Any]:
    """A set in the shape of SQuAD; the last question of each passage is impossible."""
    paragraphs = [
        {
            "id": f"p{number}",
            "context": f"Tower {number} was built in {1700 + number}.",
            "qas": [
                {
                    "id": f"p{number}-q{at}",
                    "question": f"When was tower {number} built? ({at})",
                    "answers": [{"text": str(1700 + number), "answer_start": 22}, {"text": f"in {1700 + number}"}],
                    "is_impossible": at == questions - 1,
                }
                for at in range(questions)
            ],
        }
        for number in range(passages)
    ]
    return {"version": "1", "data": [{"title": "Towers", "paragraphs": paragraphs}]}


def test_questions_of_a_reading_set_are_of_ingested_passages_and_of_others(tmp_path: Path) -> None:
    """Answerable ones expect their passage and an accepted answer; impossible and absent ones are to be held back."""
    path = tmp_path / "squad.json"
    path.write_text(json.dumps(squad(passages=10, questions=3)), encoding="utf-8")
    given = load_reading_set(path, "squad", ReadingLimits(documents=6, questions=18, unanswerable=5), "all")
    ingested = {record.evidence_id for record in given.evidence}
    assert len(ingested) == 6
    turns = {each.id: each.turns[0] for each in given.dialogues}
    categories = [turn.category for turn in turns.values()]
    assert {name: categories.count(name) for name in categories} == {"reading": 12, "impossible": 6, "absent": 5}
    for id_, turn in turns.items():
        passage = id_.partition("-")[0]
        assert (passage in ingested) is (turn.category != "absent")
        assert turn.expect == ("answer" if turn.category == "reading" else "hold_back")
        if turn.category == "reading":
            year = str(1700 + int(passage[1:]))
            assert (turn.cite, turn.show) == ([passage], [[year, f"in {year}"]])
    assert len({id_.partition("-")[0] for id_ in turns if turns[id_].category == "absent"}) == 4


def test_a_half_of_a_reading_set_keeps_the_documents(tmp_path: Path) -> None:
    """The same passages are ingested for each half; the questions are of the passages of the half."""
    path = tmp_path / "squad.json"
    path.write_text(json.dumps(squad(passages=40, questions=1)), encoding="utf-8")
    limits = ReadingLimits(documents=30, unanswerable=100)
    whole, tuned, aside = (load_reading_set(path, "squad", limits, half) for half in ("all", "tuned", "aside"))
    assert whole.evidence == tuned.evidence == aside.evidence
    ids = [{dialogue.id for dialogue in each.dialogues} for each in (whole, tuned, aside)]
    assert len(ids[0]) == 40
    assert ids[1] | ids[2] == ids[0]
    assert not ids[1] & ids[2]
    assert all(in_half(id_.partition("-")[0], "tuned") for id_ in ids[1])


def test_cmrc_and_passages_without_ids_are_read(tmp_path: Path) -> None:
    """CMRC has lists of texts; in SQuAD a passage without an id gets one of its text, and equal passages are one."""
    cmrc = [
        {
            "context_id": "T1",
            "context_text": "塔建于1874年。",
            "title": "塔",
            "qas": [{"query_id": "T1-1", "query_text": "塔建于哪一年？", "answers": ["1874年"]}],
        }
    ]
    path = tmp_path / "cmrc.json"
    path.write_text(json.dumps(cmrc), encoding="utf-8")
    given = load_reading_set(path, "cmrc", ReadingLimits(), "all")
    assert [(each.id, each.language, each.turns[0].cite) for each in given.dialogues] == [("T1-1", "zh", ["T1"])]
    plain = squad(passages=1, questions=2)
    paragraph = plain["data"][0]["paragraphs"][0]
    del paragraph["id"]
    plain["data"][0]["paragraphs"] = [paragraph, paragraph]
    path.write_text(json.dumps(plain), encoding="utf-8")
    [record] = load_reading_set(path, "plain", ReadingLimits(), "all").evidence
    assert record.evidence_id.startswith("ev-")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", r"set\.json: .*`data`"),
        (
            '{"data": [{"paragraphs": [{"context": 1, "qas": []}]}]}',
            r"set\.json: data\[0\]\.paragraphs\[0\]\.context: 1",
        ),
        ('[{"context_id": "a"}]', r"set\.json: \[0\]: .*`context_text`"),
        ('[{"context_id": "a", "context_text": " ", "qas": []}]', r"set\.json: a: "),
        ("3", "not a reading set"),
        ("{", "not a readable file"),
    ],
)
def test_a_reading_set_of_another_shape_is_refused(tmp_path: Path, content: str, message: str) -> None:
    """The error names the file and the field."""
    path = tmp_path / "set.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InvalidInput, match=message):
        load_reading_set(path, "set", ReadingLimits(), "all")


WORDS = "--embedder", "none"


def run(*arguments: str | Path) -> Result:
    """Run ``wenmai eval`` in this process."""
    return CliRunner().invoke(app, ["eval", *map(str, arguments)])


def test_the_command_prints_a_table_failures_and_json(folder: Path) -> None:
    """A folder is searched for files; failures follow the table, or go to a file."""
    shown = run("answers", folder, *WORDS, "--failures", "1", "--failures-json", folder / "failed.json")
    lines = shown.stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:6]] == [
        ["all", "4"], ["courtesy", "1"], ["number", "2"], ["unanswerable", "1"], ["en", "4"]
    ]  # fmt: skip
    assert "village-1.2 number: cites mill; does not show 1900" in lines
    assert [each["id"] for each in json.loads((folder / "failed.json").read_text(encoding="utf-8"))] == ["village-1"]
    figures = json.loads(run("answers", folder / "answers.yaml", *WORDS, "--json").stdout)
    assert figures["all"]["all"]["right"] == 1
    assert figures["category"]["unanswerable"]["held_back"] == 1
    verified = json.loads(run("verification", folder, "--json").stdout)
    assert verified["kind"]["value"] == {"false": 1, "leaked": 0, "leaked_as_normal": 0, "true": 0, "overblocked": 0}
    assert "answers: 1 · median ms: " in run("verification", folder).stdout


def test_a_half_is_asked_by_the_command(folder: Path) -> None:
    """The dialogues of both halves are those of the file."""
    given = load_answer_set(folder / "answers.yaml", "village")
    for half in ("tuned", "aside"):
        expected = sum(len(each.turns) for each in dialogues_in(given, half).dialogues)
        figures = json.loads(run("answers", folder, *WORDS, "--half", half, "--json").stdout)
        assert figures["all"]["all"]["asked"] == expected


def test_bad_input_of_the_command_is_one_line(folder: Path) -> None:
    """A folder without cases, and a file that cannot be used, end with status 2."""
    (folder / "empty").mkdir()
    shown = run("answers", folder / "empty")
    assert (shown.exit_code, shown.stderr.count("\n")) == (2, 1)
    assert "a folder with a file answers.yaml" in shown.stderr
    (folder / "verification.yaml").write_text("answers: []", encoding="utf-8")
    shown = run("verification", folder)
    assert shown.exit_code == 2
    assert "verification.yaml: " in shown.stderr


def test_a_table_is_aligned() -> None:
    """Names to the left, figures to the right."""
    assert list(table([["", "asked"], ["all", "1"]])) == ["     asked", "all      1"]


RECALL_SET = """
{"session_id": "trip", "id": "m1", "role": "user", "content": "I went to Lyon.", "timestamp": "2026-03-10T09:00:00Z"}
{"session_id": "trip", "id": "m2", "role": "assistant", "content": "And the food?", "timestamp": "2026-03-10T09:00:05Z"}
{"session_id": "trip", "id": "m3", "role": "user", "content": "Excellent bread.", "timestamp": "2026-03-10T09:00:09Z"}
{"type": "question", "question": "Was I in Lyon?", "evidence": ["m1"], "category": "place"}
{"type": "question", "question": "Lyon or xyzzy?", "evidence": ["m1", "nowhere"], "category": "place"}
{"type": "question", "question": "Lyon or xyzzy?", "evidence": ["m1", "nowhere"], "category": "any", "any": true}
"""


def test_recall_is_measured_on_conversations_of_ones_own(tmp_path: Path) -> None:
    """By category: the share of the evidence, or whether there is any; the failures name what was missed."""
    file = tmp_path / "trip.jsonl"
    file.write_text(RECALL_SET, encoding="utf-8")
    failures = tmp_path / "failures.json"
    options = ["eval", "recall", str(file), "--embedder", "none", "--json", "--failures-json", str(failures)]
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 0, result.output
    groups = json.loads(result.stdout)["groups"]
    assert {name: (each["asked"], each["R@10"], each["all@10"]) for name, each in groups.items()} == {
        "all": (3, pytest.approx(2.5 / 3), pytest.approx(2 / 3)),
        "any": (1, 1.0, 1.0),
        "place": (2, 0.75, 0.5),
    }
    assert [each["evidence"] for each in json.loads(failures.read_text(encoding="utf-8"))] == [[["m1"], ["nowhere"]]]


def recall_eval(path: Path) -> Result:
    """The outcome of the command, by words alone."""
    return CliRunner().invoke(app, ["eval", "recall", str(path), "--embedder", "none", "--json"])


MESSAGES = [json.loads(line) for line in RECALL_SET.splitlines()[1:4]]
ASKED = {"type": "question", "question": "Was I in Lyon?", "evidence": ["m1"]}
DATED = {"session_1_date_time": "1:56 pm on 8 May, 2023", "speaker_a": "Ann", "speaker_b": "Ben"}
SAID = {"speaker": "Ann", "dia_id": "D1:1", "text": "I went to Lyon"}
LOCOMO = {
    "conversation": {**DATED, "session_1": [SAID]},
    "qa": [{"question": "Who was in Lyon?", "evidence": ["D1:1"], "category": 1}],
}
BANK = {"Ann": {"history": {"2023-05-01": [{"query": "I like cats", "response": "Fine"}]}}}
BANK_ASKED = {
    "user": "Ann",
    "question": "Cats?",
    "evidence": [["2023-05-01", 0]],
    "alternatives": False,
    "kind": "single",
}


@pytest.mark.parametrize("wrong", [None, [], "m1", [5], [["m1"]]])
def test_evidence_that_is_no_list_of_ids_is_named(wrong: Any, tmp_path: Path) -> None:
    """With the line of the question."""
    file = tmp_path / "trip.jsonl"
    file.write_text("\n".join(map(json.dumps, [*MESSAGES, {**ASKED, "evidence": wrong}])), encoding="utf-8")
    result = recall_eval(file)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.output
    assert "trip.jsonl:4: evidence" in result.stderr


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([{**ASKED, "question": 5}], ":1: question"),
        ([{**ASKED, "question": " "}], ":1: question"),
        ([{**ASKED, "question": "x" * 4001}], ":1: question"),
        ([{"type": "question", "evidence": ["m1"]}], ":1"),
        ([*MESSAGES, {**ASKED, "category": ["a"]}], ":4: category"),
        ([*MESSAGES, {**ASKED, "any": "yes"}], ":4: any"),
        (MESSAGES, "with questions"),
        ([], "with questions"),
    ],
)
def test_a_line_that_is_no_question_is_named(lines: list[Any], expected: str, tmp_path: Path) -> None:
    """Instead of an error within the program, or of figures of nothing."""
    file = tmp_path / "trip.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    result = recall_eval(file)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.output
    assert expected in result.stderr


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({**LOCOMO, "qa": ["x"]}, "qa[0]"),
        ({**LOCOMO, "qa": [{"evidence": ["D1:1"]}]}, "qa[0]"),
        ({**LOCOMO, "qa": [{"question": None, "evidence": ["D1:1"]}]}, "qa[0].question"),
        ({**LOCOMO, "qa": [{"question": "Who?", "evidence": None}]}, "qa[0].evidence"),
        ({**LOCOMO, "qa": [{"question": "Who?", "evidence": [5]}]}, "qa[0].evidence[0]"),
        ({**LOCOMO, "qa": [{"question": "Who?", "evidence": ["D1:1"], "category": [1]}]}, "qa[0].category"),
        ([LOCOMO, {"conversation": {}}], "[1]"),
        ({**LOCOMO, "qa": []}, "with questions"),
        (5, "talk.json"),
    ],
)
def test_a_locomo_file_of_another_shape_is_refused(given: Any, expected: str, tmp_path: Path) -> None:
    """The error names the place."""
    file = tmp_path / "talk.json"
    file.write_text(json.dumps(given), encoding="utf-8")
    result = recall_eval(file)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.output
    assert expected in result.stderr


@pytest.mark.parametrize(
    ("history", "asked", "expected"),
    [
        ([], [BANK_ASKED], "history.json"),
        ({"Ann": {}}, [BANK_ASKED], "history.json"),
        ({"Ann": {"history": {"May": []}}}, [BANK_ASKED], "history.json"),
        ({"Ann": {"history": {"2023-05-01": ["x"]}}}, [BANK_ASKED], "history.json"),
        ({"Ann": {"history": {"2023-05-01": [{"query": "I like cats"}]}}}, [BANK_ASKED], "history.json"),
        (BANK, {}, "questions.json"),
        (BANK, [{**BANK_ASKED, "evidence": [5]}], "questions.json: [0].evidence[0]"),
        (BANK, [{"user": "Ann", "question": "Cats?", "evidence": []}], "questions.json: [0]"),
        (BANK, [{**BANK_ASKED, "user": "Ben"}], "with questions"),
    ],
)
def test_a_memorybank_of_another_shape_is_refused(history: Any, asked: Any, expected: str, tmp_path: Path) -> None:
    """The error names the file."""
    for name, given in (("history", history), ("questions", asked)):
        (tmp_path / f"{name}.json").write_text(json.dumps(given), encoding="utf-8")
    result = recall_eval(tmp_path)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.output
    assert expected in result.stderr


def test_what_an_import_takes_is_evaluated_too(tmp_path: Path) -> None:
    """Line separators within a text, a mark at the beginning, and a list of LoCoMo conversations."""
    lines = [{**MESSAGES[0], "content": "I went\u2028to Lyon\x85by train"}, *MESSAGES[1:], ASKED]
    text = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    (tmp_path / "trip.jsonl").write_text(f"\ufeff{text}", encoding="utf-8")
    (tmp_path / "talks.json").write_text(json.dumps([LOCOMO, LOCOMO]), encoding="utf-8")
    result = recall_eval(tmp_path)
    assert result.exit_code == 0, result.output
    everything = json.loads(result.stdout)["groups"]["all"]
    assert (everything["asked"], everything["R@1"]) == (3, 1.0)


def test_messages_that_cannot_be_imported_are_reported(tmp_path: Path) -> None:
    """Else a low figure has no visible reason."""
    lines = [*MESSAGES, {**MESSAGES[0], "id": "m4", "role": "king"}, "[1]", ASKED]
    (tmp_path / "trip.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    result = recall_eval(tmp_path)
    assert result.exit_code == 0, result.output
    assert "king" in result.stderr
    assert "skipped: 2" in result.stderr
