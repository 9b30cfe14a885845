"""Excerpts of recalled turns for a prompt."""

from collections.abc import Sequence
from datetime import UTC, datetime

from wenmai.memory.episode_excerpts import excerpts
from wenmai.stores.records import Message, Role
from wenmai.text.tokens import estimate_tokens

AT = datetime(2026, 1, 5, tzinfo=UTC)
CHAT = "The weather was nice and the park was full. " * 12
ADVICE = "It always helps to walk a little. Never sit for more than two hours. " * 6


def turn(question: str, answer: str = ADVICE) -> list[Message]:
    """A question with its answer."""
    roles: tuple[Role, Role] = ("user", "assistant")
    return [
        Message("m", 1, 1, "assistant", role, text, AT) for role, text in zip(roles, (question, answer), strict=True)
    ]


def shown(turns: Sequence[Sequence[Message]], question: str, known: Sequence[str] = (), tokens: int = 150) -> list[str]:
    """The excerpts."""
    return excerpts(turns, question, tokens, estimate_tokens, frozenset(known))


def test_the_sentence_that_was_asked_for_is_shown_from_a_turn_of_many() -> None:
    """By its words, and in a turn that is far from the first by its salience; within the tokens."""
    turns = [turn(CHAT) for _ in range(20)]
    turns[1] = turn(f"{CHAT}The bridge belongs to the old mill. {CHAT}")
    turns[15] = turn(f"{CHAT}I am allergic to peanuts and must avoid them. {CHAT}")
    texts = shown(turns, "Whose is the bridge?")
    assert any("The bridge belongs to the old mill." in text for text in texts)
    assert any("I am allergic to peanuts" in text for text in texts)
    assert all(text.startswith("2026-01-05 User: ") for text in texts)
    assert sum(map(estimate_tokens, texts)) <= 150


def test_answers_are_shown_of_the_most_related_turns_alone() -> None:
    """What an assistant says is no news of the user; to the question's own turn it may be the answer."""
    turns = [turn(f"We walked {number} miles.", f"The mill was sold in {number}.") for number in range(1, 6)]
    texts = shown(turns, "When was the mill sold?", tokens=400)
    assert ["mill" in text for text in texts] == [True, True, True, False, False]


def test_what_the_prompt_has_already_is_not_repeated() -> None:
    """The room is for other statements; a turn of which nothing is left has no entry."""
    turns = [turn("My cat is called Mimi.", ""), turn("My dog is called Rex.", "")]
    assert shown(turns, "my pets", known=["User: My cat is called Mimi."]) == ["2026-01-05 User: My dog is called Rex."]


def test_left_out_statements_leave_a_mark() -> None:
    """So that two sentences do not look like one after the other."""
    [text] = shown([turn(f"My cat is called Mimi. {CHAT}My dog is called Rex.", "")], "cat and dog", tokens=33)
    assert text == "2026-01-05 User: My cat is called Mimi. … User: My dog is called Rex."
