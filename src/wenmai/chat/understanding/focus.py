"""The focus of a conversation: the passages that its last answers cited, and those that follow them.

Answers name their passages by id; the texts are read from the evidence again, so that nothing comes from an answer's
own words. An answer is only compared with them, to tell which of their sentences it quoted.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from wenmai.grounding.prompt_injection import safe_sentences
from wenmai.grounding.types import Passage
from wenmai.stores.records import Message

CITED = "evidence_ids"
"""Key in the metadata of an answer message: the ids of the passages that it cites, best first."""

TURNS = 3
"""Answers with citations that a question may refer to."""

PASSAGES = 3
"""Passages of an answer."""

_USABLE_ID = re.compile("[^\x00-\x1f\ud800-\udfff]{1,128}")
_NUMBERED = re.compile(r"(.*?)(\d{1,9})(\D*)")


class CitedPassage(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that an answer cited.

    Attributes:
        passage: as it is in the evidence now.
        quoted: its sentences that the answer quoted; all if it quoted none verbatim.
        rest: its sentences after the last quoted one.
        following: the next passage of the same source, if there is one.
    """

    passage: Passage
    quoted: tuple[str, ...]
    rest: tuple[str, ...]
    following: Passage | None = None


class CitedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """An answer's passages, best first."""

    turn_id: int
    passages: tuple[CitedPassage, ...]

    @property
    def text(self) -> str:
        """The quoted sentences, then the passages whole, with their titles."""
        quoted = [sentence for cited in self.passages for sentence in cited.quoted]
        whole = [f"{cited.passage.title}\n{cited.passage.text}" for cited in self.passages]
        return "\n".join([*quoted, *whole])

    @property
    def related(self) -> list[Passage]:
        """The passages, then those that follow them."""
        following = [cited.following for cited in self.passages if cited.following]
        return list(
            {each.evidence_id: each for each in [cited.passage for cited in self.passages] + following}.values()
        )


class CitedTurns(msgspec.Struct, frozen=True):
    """The turns whose answers cited passages that still exist, newest first."""

    turns: tuple[CitedTurn, ...] = ()

    @property
    def latest(self) -> CitedTurn | None:
        """The newest answer with citations."""
        return self.turns[0] if self.turns else None

    def text_of(self, turn_id: int) -> str:
        """The cited text of a turn; ``""`` if it cited nothing."""
        return next((turn.text for turn in self.turns if turn.turn_id == turn_id), "")


def ids_to_read(window: Sequence[Message]) -> list[str]:
    """The ids of the passages that the last answers cite, and of their neighbours, which may not exist."""
    cited = [id_ for message in _answers(window) for id_ in _cited_ids(message.metadata)]
    wanted = [*cited, *(next_ for id_ in cited if (next_ := next_id(id_)))]
    return list(dict.fromkeys(wanted))


def focus_of(window: Sequence[Message], passages: Mapping[str, Passage], domains: Sequence[str]) -> CitedTurns:
    """The focus, from the passages that exist of those to read.

    Args:
        window: earlier completed turns of the thread, ascending.
        passages: by id.
        domains: of the persona; passages of others are left out.
    """
    allowed = {id_: each for id_, each in passages.items() if not domains or set(domains) & set(each.domains)}
    turns = []
    for message in _answers(window):
        cited = tuple(
            _cited(allowed[id_], message.content, allowed.get(next_id(id_)))
            for id_ in _cited_ids(message.metadata)
            if id_ in allowed
        )
        if cited:
            turns.append(CitedTurn(turn_id=message.turn_id, passages=cited))
    return CitedTurns(tuple(turns))


def next_id(evidence_id: str) -> str:
    """The id with its last number increased by one: ``gate-02-en`` after ``gate-01-en``; ``""`` without a number."""
    found = _NUMBERED.fullmatch(evidence_id)
    if not found:
        return ""
    head, number, tail = found.groups()
    return f"{head}{int(number) + 1:0{len(number)}d}{tail}"


def _answers(window: Sequence[Message]) -> list[Message]:
    """The last answers that cite something, newest first."""
    return [message for message in reversed(window) if message.role == "assistant" and _cited_ids(message.metadata)][
        :TURNS
    ]


def _cited_ids(metadata: Mapping[str, Any]) -> list[str]:
    """The ids in a message's metadata; others than this service may have written it."""
    given = metadata.get(CITED)
    if not isinstance(given, list):
        return []
    return [id_ for id_ in given[:PASSAGES] if isinstance(id_, str) and _USABLE_ID.fullmatch(id_)]


def _cited(passage: Passage, answer: str, following: Passage | None) -> CitedPassage:
    sentences = safe_sentences(passage.text)
    found = [index for index, sentence in enumerate(sentences) if sentence in answer]
    same_source = following is not None and following.source_ref == passage.source_ref
    return CitedPassage(
        passage=passage,
        quoted=tuple(sentences[index] for index in found) or tuple(sentences),
        rest=tuple(sentences[found[-1] + 1 :]) if found else (),
        following=following if same_source else None,
    )
