"""Parsing of files into passages: formats, bad lines, and stable ids."""

import json

import pytest

from wenmai.errors import InvalidInput
from wenmai.grounding.evidence import BadLine, check_record, parse, record_from
from wenmai.grounding.evidence.chunking import TARGET, chunk, size
from wenmai.stores.records import EvidenceRecord

MARKDOWN = """---
title: 砚田村志
source_ref: 《砚田村志》
source_type: gazetteer
domains: [village, hall]
verified: false
confidence: 0.6
tags: 村志; 旧事
---
# 砚田村志

村前有溪，名为砚溪。

## 祠堂

祠堂在村中，**三进**，见[旧图](old.png)。

```
# 不是标题
```

### 戏台

戏台正对享堂。

## 桥

桥有三孔。
"""


def records_of(text: str | bytes, name: str) -> list[EvidenceRecord]:
    """The passages of a file that has no bad lines."""
    parsed = list(parse(text if isinstance(text, bytes) else text.encode(), name))
    assert not [item for item in parsed if isinstance(item, BadLine)]
    return [item for item in parsed if isinstance(item, EvidenceRecord)]


def split(text: str | bytes, name: str) -> tuple[list[EvidenceRecord], list[BadLine]]:
    """The passages and the bad lines of a file."""
    parsed = list(parse(text if isinstance(text, bytes) else text.encode(), name))
    return (
        [item for item in parsed if isinstance(item, EvidenceRecord)],
        [item for item in parsed if isinstance(item, BadLine)],
    )


TABLES = """## Torque

Tighten with a torque wrench (`Nm`).

| part | torque |
|------|:------:|
| crank bolt | 40 Nm |
| `stem` \\| bolt | **5 Nm** |
| saddle | - |

套餐如下：
项目 | 价格
--- | ---
全车保养 | 480元
换内胎 | 35元。

```
| not | a table |
|-----|---------|
| `a` | b |
```

a | b is no table.
"""


def test_a_row_of_a_table_is_a_sentence_that_names_its_columns() -> None:
    """An answer quotes sentences, and vertical bars, delimiters and backticks are not what a user should read."""
    [record] = records_of(TABLES, "torque.md")
    assert (
        record.text
        == """Tighten with a torque wrench (Nm).

part: crank bolt; torque: 40 Nm.
part: stem | bolt; torque: 5 Nm.
part: saddle.

套餐如下：
项目：全车保养；价格：480元。
项目：换内胎；价格：35元。

```
| not | a table |
|-----|---------|
| `a` | b |
```

a | b is no table."""
    )


def test_markdown_headings_become_titles_and_front_matter_fills_every_passage() -> None:
    """The title is the path of headings without repeats; each passage has the front matter's fields."""
    records = records_of(MARKDOWN, "village.md")
    assert [record.title for record in records] == [
        "砚田村志",
        "砚田村志 · 祠堂",
        "砚田村志 · 祠堂 · 戏台",
        "砚田村志 · 桥",
    ]
    for record in records:
        assert record.source_ref == "《砚田村志》"
        assert record.source_type == "gazetteer"
        assert record.domains == ["village", "hall"]
        assert record.tags == ["村志", "旧事"]
        assert (record.verified, record.confidence, record.language) == (False, 0.6, "zh")


def test_markdown_markup_is_reduced_to_its_text_and_fences_hold_no_headings() -> None:
    """Bold and links are reduced to their text; a hash inside a code block is text."""
    hall = records_of(MARKDOWN, "village.md")[1]
    assert "三进，见旧图。" in hall.text
    assert "# 不是标题" in hall.text


def test_without_front_matter_the_file_names_the_source() -> None:
    """Front matter is optional; a lone rule at the top does not start one."""
    (record,) = records_of("---\n\nThe bridge has three arches.", "notes/bridge.md")
    assert (record.title, record.source_ref, record.language) == ("bridge", "notes/bridge.md", "en")


@pytest.mark.parametrize("front", ["colour: red", "confidence: 2", "- a\n- b", "title: [", "verified: maybe"])
def test_bad_front_matter_rejects_the_file_and_names_the_lines(front: str) -> None:
    """It applies to the whole file, so an error in it is not skipped."""
    with pytest.raises(InvalidInput, match=r"village\.md:1-"):
        list(parse(f"---\n{front}\n---\ntext".encode(), "village.md"))


def test_jsonl_lines_become_passages_and_bad_ones_are_reported() -> None:
    """Broken JSON, an unknown field, no text, a bad value: each is reported with its line, the rest is read."""
    lines = [
        json.dumps({"evidence_id": "a", "title": "A", "text": "甲", "domains": ["d"], "language": "zh"}),
        "",
        "{broken",
        json.dumps({"text": "乙", "colour": "red"}),
        json.dumps({"title": "no text"}),
        json.dumps({"text": "丙", "confidence": 1.5}),
        json.dumps(["a list"]),
        json.dumps({"text": "   "}),
        json.dumps({"evidence_id": "b", "text": "丁"}),
    ]
    records, bad = split("\n".join(lines), "a.jsonl")
    assert [record.evidence_id for record in records] == ["a", "b"]
    assert [(line.file, line.line) for line in bad] == [("a.jsonl", number) for number in (3, 4, 5, 6, 7, 8)]
    assert "colour" in bad[1].reason
    assert "text" in bad[2].reason
    assert "confidence" in bad[3].reason
    assert str(bad[0]).startswith("a.jsonl:3: ")


def test_a_repeated_id_with_another_text_is_reported() -> None:
    """Nothing is silently overwritten; an identical passage is skipped."""
    first, other = (
        json.dumps({"evidence_id": "a", "text": "甲"}),
        json.dumps({"evidence_id": "a", "text": "乙"}),
    )
    records, bad = split(f"{first}\n{first}\n{other}", "a.jsonl")
    assert [record.text for record in records] == ["甲"]
    assert [line.line for line in bad] == [3]


def test_csv_quotes_line_breaks_and_lists() -> None:
    """Quoted commas, quotes and line breaks are kept; a semicolon separates domains; empty cells are missing."""
    text = 'text,title,domains,verified,confidence\n"a ""b"", c\nd",T,x;y,false,0.5\nplain,,,,\n'
    first, second = records_of(text, "a.csv")
    assert first.text == 'a "b", c\nd'
    assert (first.title, first.domains, first.verified, first.confidence) == ("T", ["x", "y"], False, 0.5)
    assert (second.title, second.domains, second.verified, second.confidence) == ("plain", [], True, 1.0)


def test_bad_csv_rows_are_reported_with_their_first_line() -> None:
    """A row of the wrong width, a stray quote and an unclosed quote; the good rows are read."""
    text = 'text,title\n"two\nlines",A\nonly one\n"x"y,B\nfine,C\n"never closed,D\nlost,E\n'
    records, bad = split(text, "a.csv")
    assert [record.title for record in records] == ["A", "C"]
    assert [line.line for line in bad] == [4, 5, 7]
    assert "never closed" in bad[2].reason


@pytest.mark.parametrize("header", ["title,source_ref", "text,colour", "text,text", ""])
def test_a_bad_csv_header_rejects_the_file(header: str) -> None:
    """Without known columns no row can be read."""
    with pytest.raises(InvalidInput, match="header"):
        list(parse(f"{header}\nx,y\n".encode(), "a.csv"))


def test_a_byte_order_mark_and_windows_line_ends_make_no_difference() -> None:
    """The same passages and ids, and correct line numbers."""
    plain = '{"text": "甲"}\n{\n{"text": "乙"}\n'
    windows = b"\xef\xbb\xbf" + plain.replace("\n", "\r\n").encode()
    assert list(parse(plain.encode(), "a.jsonl")) == list(parse(windows, "a.jsonl"))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("严氏家训共十则，孝悌为本。".encode("gbk"), "GBK"),
        ("严氏家训".encode("utf-16"), "UTF-16"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "binary"),
        (bytes(range(1, 32)) * 20, "binary"),
    ],
)
def test_a_file_that_is_not_utf8_is_rejected_with_its_encoding(data: bytes, reason: str) -> None:
    """The error says what to do, in every format."""
    for name in ("a.md", "a.txt", "a.jsonl", "a.csv"):
        with pytest.raises(InvalidInput, match=reason):
            list(parse(data, name))


def test_single_lines_that_are_not_utf8_are_reported_and_the_rest_is_read() -> None:
    """One damaged line does not reject the file."""
    good = "祠堂重修于光绪年间，碑文尚在。"
    records, bad = split(f"{good}\n".encode() + b"\xff\xfe damaged\n" + good.encode(), "a.txt")
    assert [record.text for record in records] == [f"{good}\n{good}"]
    assert [(line.line, line.reason) for line in bad] == [(2, "not UTF-8")]


def test_sizes_are_bounded() -> None:
    """A passage of more than 20 000 characters and a line of more than a megabyte are reported."""
    long_text, long_line = json.dumps({"text": "长" * 20_001}), json.dumps({"text": "x" * 1_000_001})
    records, bad = split(f'{long_text}\n{long_line}\n{{"text": "甲"}}', "a.jsonl")
    assert [record.text for record in records] == ["甲"]
    assert [line.line for line in bad] == [1, 2]
    assert "20000" in bad[0].reason
    assert "longer than" in bad[1].reason


@pytest.mark.parametrize("name", ["a.md", "a.txt", "a.jsonl", "a.csv"])
def test_a_file_without_text_is_reported(name: str) -> None:
    """It is never silently empty."""
    records, bad = split("text\n" if name.endswith("csv") else "\n", name)
    assert not records
    assert len(bad) == 1


def test_an_unknown_extension_names_the_known_ones() -> None:
    """The extension gives the format."""
    with pytest.raises(InvalidInput, match=r"\.jsonl"):
        parse(b"x", "a.pdf")


def test_an_edited_paragraph_changes_its_own_passage_only() -> None:
    """All other ids are unchanged, before it and after it; they depend on the wording, not on blanks or width."""
    paragraphs = [f"第{number}段。" + "祠堂的旧事一件件都记在族谱里。" * 8 for number in range(6)]
    before = records_of("\n\n".join(paragraphs), "a.txt")
    paragraphs[2] = paragraphs[2].replace("旧事", "往事", 1)
    after = records_of("\n\n".join(paragraphs), "a.txt")
    changed = {record.evidence_id for record in before} ^ {record.evidence_id for record in after}
    assert len(before) == len(after) == 6
    assert len(changed) == 2
    respaced = records_of("\n\n\n".join(f"  {paragraph} " for paragraph in paragraphs), "a.txt")
    assert [record.evidence_id for record in respaced] == [record.evidence_id for record in after]
    (narrow,), (wide,) = records_of("Three  arches, 3.", "a.txt"), records_of("three arches, ３.", "a.txt")
    assert narrow.evidence_id == wide.evidence_id


def test_long_paragraphs_are_cut_between_sentences_and_nothing_is_lost() -> None:
    """Passages have about the target size, each ends with a sentence, and joined they are the text."""
    sentence = "祠堂的旧事一件件都记在族谱里，后来的人翻开来看。"
    passages = chunk(sentence * 60)
    assert "".join(passages) == sentence * 60
    assert all(passage.endswith("。") for passage in passages)
    assert all(TARGET * 2 // 3 <= size(passage) <= TARGET * 4 // 3 for passage in passages)


def test_english_counts_words() -> None:
    """About 150 words make a passage."""
    passages = chunk("The old bridge has three arches of stone and it still stands. " * 40)
    assert all(100 <= len(passage.split()) <= 200 for passage in passages)


def test_a_text_without_sentences_is_cut_too() -> None:
    """A run of characters gives passages of bounded size, without loss."""
    wall = "祠" * 5000
    passages = chunk(wall)
    assert "".join(passages) == wall
    assert all(size(passage) <= TARGET * 4 // 3 for passage in passages)


def test_short_paragraphs_join_their_neighbour() -> None:
    """Neither a short introductory line nor a short last one is a passage of its own."""
    body = "祠堂的旧事一件件都记在族谱里。" * 8
    assert chunk(f"祠堂：\n\n{body}\n\n完。") == [f"祠堂：\n\n{body}\n\n完。"]


def test_missing_fields_have_defaults() -> None:
    """Only the text is required; the title is its beginning, the language is detected."""
    record = record_from({"text": "祠堂建于明代。\n后来重修。", "domains": "hall，village"}, source_ref="s")
    assert (record.title, record.language, record.source_ref) == ("祠堂建于明代。", "zh", "s")
    assert record.domains == ["hall", "village"]
    assert record.evidence_id.startswith("ev-")


def test_records_of_library_callers_are_validated() -> None:
    """They have the same bounds."""
    with pytest.raises(InvalidInput, match=r"evidence\.text"):
        check_record(EvidenceRecord(evidence_id="a", title="", text="长" * 20_001))
    with pytest.raises(InvalidInput, match="`text`"):
        check_record(EvidenceRecord(evidence_id="a", title="", text=""))
    with pytest.raises(InvalidInput, match=r"evidence\.evidence_id"):
        check_record(EvidenceRecord(evidence_id="a\nb", title="", text="x"))
