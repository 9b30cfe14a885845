"""Hostile files: every reader takes linear time, and malformed lines are reported."""

import json
from pathlib import Path

import msgspec
import pytest

from growth import check_growth
from wenmai.errors import InvalidInput
from wenmai.grounding.evidence import BadLine, check_record, parse, record_from
from wenmai.grounding.evidence.front_matter import CHARACTERS
from wenmai.interchange.reading import read_items
from wenmai.stores.records import EvidenceRecord

SIZE = 120_000

MARKDOWN = [
    "<!--",
    "<!-- ",
    "-->",
    "# a",
    "#",
    "# ",
    " ",
    "\n# a\n",
    "[a",
    "[a](b",
    "![a](b",
    "**a\n",
    "__a",
    "`",
    ">",
    "*",
]
PLAIN = ["!\n\n", "。", "。\n\n", "a. ", "1. ", "\n", "\n \n", "a", "一", "\u0301", "ﷺ", "a\n\n", "Mr. ", "…"]
JSON_LINES = ['{"text":"a"}\n', "{", "[", '"', "\n", '{"text":"a","x":1}\n', "1\n"]
CSV = ["a\n", '"a\n', '"', ",", "a,b\n", '""', "a;"]
CHATS = [
    '{"messages":[]}\n',
    '{"session_id":"s","role":"user","content":"a"}\n',
    "[",
    "{",
    "\n",
    "1\n",
    '{"speaker_a":1}\n',
]


def items(data: bytes, name: str) -> tuple[list[EvidenceRecord], list[BadLine]]:
    """The passages and the bad lines of a file."""
    parsed = list(parse(data, name))
    return (
        [item for item in parsed if isinstance(item, EvidenceRecord)],
        [item for item in parsed if isinstance(item, BadLine)],
    )


@pytest.mark.parametrize(
    ("name", "begin", "unit"),
    [
        *(("a.md", "", unit) for unit in MARKDOWN + PLAIN),
        ("a.md", "# a", " "),
        ("a.md", "# a", " #"),
        pytest.param("a.md", f"# {'h' * 50_000}\n", "###### b\nc\n", id="long heading"),
        *(("a.txt", "", unit) for unit in PLAIN),
        *(("a.jsonl", "", unit) for unit in JSON_LINES),
        ("a.jsonl", '{"text":"a","tags":', "["),
        *(("a.csv", "text\n", unit) for unit in CSV),
    ],
)
def test_reading_a_file_takes_linear_time(name: str, begin: str, unit: str) -> None:
    """For any repeated unit, up to hundreds of kilobytes."""

    def read(text: str) -> None:
        try:
            list(parse((begin + text + "b").encode(), name))
        except InvalidInput:
            return

    check_growth(read, unit, SIZE)


@pytest.mark.parametrize("unit", CHATS)
def test_reading_conversations_takes_linear_time(unit: str, tmp_path: Path) -> None:
    """JSON lines and documents of every shape."""
    path = tmp_path / "a.json"

    def read(text: str) -> None:
        path.write_text(text, encoding="utf-8")
        list(read_items(path, persona_id="a"))

    check_growth(read, unit, SIZE)


@pytest.mark.parametrize(
    "front",
    [
        "title: [" + ", ".join(["&a0 [x,x]", *(f"&a{n} [*a{n - 1},*a{n - 1}]" for n in range(1, 20))]) + "]",
        "title: &a x\ntags: [*a]",
        "title: &a [*a]",
        "title: !!binary aGk=",
        "tags: !!set {a, b}",
        "title: {a: b}",
        "tags: [[a]]",
        "? [a]\n: b",
        "title: a\ntitle: b",
        "title: a\n...\ntitle: b",
        pytest.param("tags: " + "[" * 3_000, id="deep"),
        'title: "\\UFFFFFFFF"',
        "title: 'a\x1bb'",
        "confidence: 0b_",
        "confidence: .nan",
        pytest.param(f"confidence: {'9' * 3_000}", id="digits"),
        pytest.param(f"title: {'a' * CHARACTERS}", id="long"),
    ],
)
def test_front_matter_is_flat_and_short(front: str) -> None:
    """Nothing that expands, and nothing that makes the parser fail."""
    with pytest.raises(InvalidInput, match=r"a\.md:1-") as refused:
        list(parse(f"---\n{front}\n---\ntext".encode(), "a.md"))
    assert len(str(refused.value)) < 1_000


def test_front_matter_is_read_as_text() -> None:
    """A date, a number or a YAML word is text in a title; flags and numbers are converted by their field."""
    front = "title: 2020-13-45\nsource_ref: 1984\ntags: [1990, yes, 'no']\nverified: No\nconfidence: 0.5\nsource_url: ~"
    ((record,), _) = items(f"---\n{front}\n---\ntext".encode(), "a.md")
    assert (record.title, record.source_ref, record.tags) == ("2020-13-45", "1984", ["1990", "true", "no"])
    assert (record.verified, record.confidence, record.source_url) == (False, 0.5, "")


def test_lines_that_cannot_be_decoded_are_reported_and_the_others_read() -> None:
    """Too deep, too many digits, a lone surrogate."""
    bad = ["[" * 5_000, '{"text":"a","tags":' + "[" * 5_000, '{"text":' + "1" * 5_000 + "}", '{"text":"\\ud800"}']
    records, named = items("\n".join(['{"text":"one"}', *bad, '{"text":"two"}']).encode(), "a.jsonl")
    assert [record.text for record in records] == ["one", "two"]
    assert [line.line for line in named] == [2, 3, 4, 5]


def test_reasons_are_bounded() -> None:
    """A field name of a megabyte is not repeated."""
    _, (bad,) = items(json.dumps({"text": "a", "x" * 900_000: 1}).encode(), "a.jsonl")
    assert len(bad.reason) <= 500


@pytest.mark.parametrize("character", ["\0", "\x1b", "\x07", "\x7f", "\x9b", "\ud800"])
@pytest.mark.parametrize("field", ["text", "title", "source_ref", "domains", "evidence_id"])
def test_control_characters_are_rejected_in_every_field(field: str, character: str) -> None:
    """They control terminals and break stores; records of library callers are validated too."""
    value = f"a{character}b"
    with pytest.raises(InvalidInput, match=f"evidence.{field}"):
        record_from({"text": "a", field: value})
    given = record_from({"text": "a"})
    record = msgspec.structs.replace(given, **{field: [value] if field == "domains" else value})
    with pytest.raises(InvalidInput, match="evidence"):
        check_record(record)


def test_white_space_in_texts_is_kept_and_titles_are_one_line() -> None:
    """Line breaks, tabs and form feeds are harmless."""
    record = record_from({"text": "one\ttwo\n\fthree", "title": "a\r\nb"})
    assert (record.text, record.title) == ("one\ttwo\n\fthree", "a b")
    check_record(record_from({"text": "one\ttwo\nthree"}))


def test_lines_with_control_characters_are_reported_and_the_rest_read() -> None:
    """As with bytes that are not UTF-8."""
    filling = "x" * 200
    records, bad = items(f"good {filling}\n\nba\x1b[31md\n\nalso good".encode(), "a.txt")
    assert [line.line for line in bad] == [3]
    assert "U+001B" in bad[0].reason
    assert "also good" in records[0].text


def test_comments_are_removed_and_an_unclosed_one_is_text() -> None:
    """A comment ends at ``-->``, not at the first angle bracket."""
    ((record,), _) = items(b"a <!-- b > c -->d <!-- e", "a.md")
    assert record.text == "a d <!-- e"


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("# a", "a"),
        ("   ## a b ##  ", "a b"),
        ("#\ta", "a"),
        ("# a#", "a#"),
        ("# a # b #", "a # b"),
        ("#a", None),
        ("    # a", None),
        ("####### a", None),
        (f"# {'h' * 5_000}", "h" * 200),
    ],
)
def test_headings_are_recognised(line: str, title: str | None) -> None:
    """One to six hashes and a blank; closing hashes are dropped, and titles are bounded."""
    records, _ = items(f"{line}\nbody".encode(), "file.md")
    assert [record.title for record in records] == [title or "file"]
