"""The passages that the last answers cited: which are read, in what order, and which sentences were quoted."""

from datetime import UTC, datetime
from typing import Any

from wenmai.chat.understanding.focus import CITED, CitedTurns, focus_of, ids_to_read, next_id
from wenmai.grounding.types import Passage
from wenmai.stores.records import Message

SENTENCES = ["灯塔建于1874年。", "它用花岗岩砌成。", "塔里有212级台阶。"]


def passage(
    evidence_id: str, text: str = "".join(SENTENCES), source: str = "日志", domains: list[str] | None = None
) -> Passage:
    """A passage as it is read from the evidence."""
    return Passage(
        evidence_id=evidence_id,
        title="灯塔",
        text=text,
        source_ref=source,
        score=0.0,
        number=0,
        domains=domains or ["tower"],
    )


def answers(*contents: tuple[str, Any]) -> list[Message]:
    """The answers of a thread, each with the ids that its metadata says it cites."""
    return [
        Message(
            id=f"m{number}", seq=2 * number, turn_id=number, persona_id="keeper", role="assistant", content=content,
            timestamp=datetime(2026, 1, 5, tzinfo=UTC), metadata={CITED: cited},
        )
        for number, (content, cited) in enumerate(contents, start=1)
    ]  # fmt: skip


def focus(window: list[Message], *passages: Passage, domains: list[str] | None = None) -> CitedTurns:
    """The focus where these passages exist."""
    return focus_of(window, {each.evidence_id: each for each in passages}, domains or [])


def test_the_last_three_answers_with_citations_are_read_newest_first() -> None:
    """With their neighbours; an answer without citations is no turn of the focus, however long the thread."""
    window = answers(("", ["a-1"]), ("", ["a-2"]), ("", ["b-1"]), ("", []), ("", ["c-09", "c-1-en"]))
    assert ids_to_read(window) == ["c-09", "c-1-en", "b-1", "a-2", "c-10", "c-2-en", "b-2", "a-3"]
    found = focus(window, *map(passage, ["a-1", "a-2", "b-1", "c-09"]))
    assert [turn.turn_id for turn in found.turns] == [5, 3, 2]


def test_neighbours_have_the_next_number() -> None:
    """In front of a language's suffix, with the same width; an id without a number has none."""
    assert next_id("hall-01-en") == "hall-02-en"
    assert next_id("p9") == "p10"
    assert next_id("intro") == ""


def test_the_quoted_sentences_and_the_rest_come_from_the_evidence() -> None:
    """The answer's words are compared with the passage; none of them is taken over."""
    window = answers((f"日志上说：{SENTENCES[0]}别的老夫编的。", ["t-1"]))
    cited = focus(window, passage("t-1")).turns[0].passages[0]
    assert cited.quoted == (SENTENCES[0],)
    assert cited.rest == tuple(SENTENCES[1:])
    assert "编的" not in focus(window, passage("t-1")).turns[0].text


def test_a_paraphrase_quotes_the_whole_passage() -> None:
    """If no sentence is verbatim in the answer, all are its support and none is the rest."""
    cited = focus(answers(("一八七四年所建。", ["t-1"])), passage("t-1")).turns[0].passages[0]
    assert cited.quoted == tuple(SENTENCES)
    assert cited.rest == ()


def test_a_neighbour_of_another_source_does_not_follow() -> None:
    """Only the next passage of the same source does."""
    window = answers((SENTENCES[0], ["t-1"]))
    assert focus(window, passage("t-1"), passage("t-2")).turns[0].passages[0].following == passage("t-2")
    assert focus(window, passage("t-1"), passage("t-2", source="县志")).turns[0].passages[0].following is None


def test_passages_of_other_domains_are_left_out() -> None:
    """Metadata that names a passage which the persona may not use gives it no access."""
    window = answers(("", ["t-1", "s-1"]))
    found = focus(window, passage("t-1"), passage("s-1", domains=["secret"]), domains=["tower"])
    assert [cited.passage.evidence_id for cited in found.turns[0].passages] == ["t-1"]


def test_malformed_metadata_is_ignored() -> None:
    """Messages of the plain API may carry anything under that key."""
    assert ids_to_read(answers(("", "t-1"), ("", [1, None, "", "a\0b", "x" * 999]), ("", {"a": 1}))) == []
