"""Entries of the recall index: which messages have one, and what they hold."""

from datetime import UTC, datetime
from typing import Any

from wenmai.memory.episode_entries import (
    EMBEDDED_CHARACTERS,
    INDEXED_CHARACTERS,
    MessageEntry,
    decoded_span,
    entries_of,
    entry_id,
    neighbour_ids,
    parsed_id,
)
from wenmai.scope import ThreadKey
from wenmai.stores.records import Message

THREAD = ThreadKey("my-session", "guide", "0123456789abcdef")
WRITTEN = datetime(2023, 5, 10, 9, 30, tzinfo=UTC)


def conversation(*contents: str | dict[str, Any]) -> list[Message]:
    """Messages of user and assistant in turn; a dict has further fields."""
    messages = []
    for seq, given in enumerate(contents, start=1):
        fields: dict[str, Any] = {"content": given} if isinstance(given, str) else given
        role = ("assistant", "user")[seq % 2]
        same = {"id": f"m{seq}", "seq": seq, "turn_id": (seq + 1) // 2, "persona_id": "guide", "role": role}
        messages.append(Message(**{**same, "timestamp": WRITTEN, **fields}))
    return messages


def entries(messages: list[Message], first: int = 1) -> list[MessageEntry]:
    """The entries from the number ``first`` on."""
    return list(entries_of(THREAD, messages, first))


def test_an_entry_has_the_words_of_the_previous_message_and_its_own() -> None:
    """With the names of the speakers; the vector is of the message alone."""
    messages = conversation("Where?", {"content": "In Lyon.", "name": "Bob"}, "Thanks")
    assert [each.entry.text for each in entries(messages)] == [
        "Where?",
        "Where?\nBob: In Lyon.",
        "Bob: In Lyon.\nThanks",
    ]
    assert [each.embedded for each in entries(messages)] == ["Where?", "In Lyon.", "Thanks"]
    assert entries(messages)[1:] == entries(messages, 2)


def test_captions_of_pictures_are_found() -> None:
    """By words and by meaning; the text stays as it is."""
    messages = conversation({"content": "Look!", "metadata": {"caption": "a red kite"}}, "Nice")
    assert [each.entry.text for each in entries(messages)] == ["Look!\n[a red kite]", "Look!\n[a red kite]\nNice"]
    assert entries(messages)[0].embedded == "Look!\n[a red kite]"
    assert entries(conversation({"content": "Look!", "metadata": {"caption": 7}}))[0].entry.text == "Look!"


def test_an_incognito_turn_leaves_no_words() -> None:
    """Neither its messages have entries, nor do the next ones have its words."""
    messages = conversation(
        "open", "answer", {"content": "secret", "metadata": {"incognito": True}}, "secret answer", "next"
    )
    assert [each.entry.text for each in entries(messages)] == ["open", "open\nanswer", "answer\nnext"]
    assert entries(messages, 4) == entries(messages)[2:]


def test_only_completed_texts_of_user_and_assistant_have_entries() -> None:
    """Not unfinished answers, tool results, instructions, or blank ones; and they are no previous message either."""
    messages = conversation(
        "question",
        {"content": "half an ans", "completed": False},
        {"content": "tool output", "role": "tool"},
        {"content": "instruction", "role": "system"},
        " \n",
        "answer",
    )
    assert [each.entry.text for each in entries(messages)] == ["question", "question\nanswer"]


def test_a_long_message_is_shortened_to_its_beginning_and_end() -> None:
    """Its entry has at most twice the limit, its vector's text the smaller limit."""
    text = "beginning " + "x " * 500_000 + "end"
    [first, second] = entries(conversation(text, text))
    assert first.entry.text.startswith("beginning")
    assert first.entry.text.endswith("end")
    assert len(second.entry.text) <= 2 * INDEXED_CHARACTERS + 10
    assert len(second.embedded) <= EMBEDDED_CHARACTERS + 10


def test_relative_times_are_resolved_against_the_messages_own_time() -> None:
    """And a date without a year in the year nearest to it."""
    [entry] = entries(conversation("昨天看了展览，5月4日订的票。你呢？"))
    assert [str(decoded_span(str(span)).first) for span in entry.entry.fields["spans"]] == ["2023-05-09", "2023-05-04"]  # type: ignore[union-attr]
    assert entry.entry.fields["question"] == 1
    assert entry.entry.fields["day"] == "2023-05-10"


def test_ids_are_in_the_order_of_the_messages() -> None:
    """So that what has no vector is read in ranges; they name the thread, and their neighbours."""
    ids = [entry_id(THREAD, seq) for seq in (1, 2, 9, 10, 11, 100_000)]
    assert ids == sorted(ids)
    assert parsed_id(ids[3]) == (THREAD, 10)
    assert neighbour_ids(ids[3]) == (ids[2], ids[4])
