"""Labelled cases: questions of dialogues, and statements of models' answers, over a set of evidence."""

import hashlib
from typing import Annotated, Literal

import msgspec

from wenmai.stores.records import EvidenceRecord

Half = Literal["tuned", "aside", "all"]
Expectation = Literal["answer", "hold_back", "courtesy"]
Text = Annotated[str, msgspec.Meta(min_length=1, pattern=r"\S")]
Texts = Annotated[list[Text], msgspec.Meta(min_length=1)]


class Turn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question and what its answer must be.

    Attributes:
        category: any name; figures are given for each.
        expect: ``answer`` from the evidence, ``hold_back`` because the evidence does not have it, ``courtesy``.
        cite: evidence ids, one of which must be cited; with ``cite_all`` all of them.
        show: groups of alternatives; one of each group must occur in the answer.
        never: texts that must not occur in the answer.
    """

    ask: Text
    category: Text
    expect: Expectation
    cite: list[Text] = []
    cite_all: bool = False
    show: list[Texts] = []
    never: list[Text] = []

    def __post_init__(self) -> None:
        if self.expect == "answer" and not self.cite:
            raise ValueError("`cite` is missing: an answer cites a passage")
        if self.expect != "answer" and (self.cite or self.cite_all or self.show):
            raise ValueError(f"`cite`, `cite_all` and `show` are for `expect: answer`, not {self.expect}")


class Dialogue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Turns of one session.

    Attributes:
        id: unique in its set; its hash decides the half.
        persona: who is asked, instead of the persona of the set.
    """

    id: Text
    language: Text
    turns: Annotated[list[Turn], msgspec.Meta(min_length=1)]
    persona: str | None = None


class Statement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a model's answer.

    Attributes:
        lie: the false part; default: the whole text without its citation marks.
    """

    text: Text
    true: bool
    kind: Text
    lie: Text | None = None

    def __post_init__(self) -> None:
        if self.true and self.lie is not None:
            raise ValueError("`lie` is for false statements")
        if self.lie is not None and self.lie not in self.text:
            raise ValueError("`lie` is not a part of `text`")


class ModelAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer as a model would write it: its statements, joined.

    Attributes:
        passages: evidence ids of the passages that the model was given, numbered from 1.
    """

    id: Text
    language: Text
    question: Text
    passages: Texts
    statements: Annotated[list[Statement], msgspec.Meta(min_length=1)]


class AnswerSet(msgspec.Struct, frozen=True, kw_only=True):
    """Dialogues over one set of evidence; ``profile`` is a path or None for the configured one."""

    name: str
    evidence: list[EvidenceRecord]
    dialogues: list[Dialogue]
    profile: str | None = None
    persona: str | None = None


class StatementSet(msgspec.Struct, frozen=True, kw_only=True):
    """Models' answers over one set of evidence; see :class:`AnswerSet`."""

    name: str
    evidence: list[EvidenceRecord]
    answers: list[ModelAnswer]
    profile: str | None = None
    persona: str | None = None


def in_half(id_: str, half: Half) -> bool:
    """Whether the case belongs to the half: SHA-256 of the id even (``tuned``) or odd (``aside``)."""
    odd = hashlib.sha256(id_.encode()).digest()[-1] % 2
    return half == "all" or odd == (half == "aside")


def dialogues_in(given: AnswerSet, half: Half) -> AnswerSet:
    """The set with the dialogues of the half only."""
    kept = [each for each in given.dialogues if in_half(each.id, half)]
    return msgspec.structs.replace(given, dialogues=kept)


def answers_in(given: StatementSet, half: Half) -> StatementSet:
    """The set with the answers of the half only."""
    return msgspec.structs.replace(given, answers=[each for each in given.answers if in_half(each.id, half)])
