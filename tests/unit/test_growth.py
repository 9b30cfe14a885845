"""Text made to be costly: whatever reads questions, passages and answers takes linear time at the largest sizes."""

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import pytest

from growth import check_growth
from wenmai.chat.evidence.chunking import chunk
from wenmai.chat.evidence.fields import TEXT_CHARACTERS, guess_language, stable_id
from wenmai.chat.gate.after import after_model, citations
from wenmai.chat.gate.before import before_model
from wenmai.chat.gate.counts import asked_units, ordinals
from wenmai.chat.gate.policy import GatePolicy
from wenmai.chat.gate.quotable import quotable
from wenmai.chat.gate.reading import Piece
from wenmai.chat.gate.reported import Manner
from wenmai.chat.gate.units import Unit, Units
from wenmai.chat.intent import Focus, classify, focus_of
from wenmai.chat.offline import topic_of
from wenmai.chat.rewrite import rewrite
from wenmai.chat.title_wording import fitted
from wenmai.chat.types import Intent, Passage
from wenmai.memory.sessions import title_from_question
from wenmai.stores.records import Message
from wenmai.text.cjk import has_words, load_stemmer, normalise, query_terms, sentences, terms
from wenmai.text.tokens import estimate_tokens


def units_of(text: str) -> list[Unit]:
    """The units in which an answer is checked, when it comes in pieces of seven characters."""
    units = Units()
    found = [unit for start in range(0, len(text), 7) for unit in units.add(text[start : start + 7])]
    return [*found, *units.end()]


TOPICS = ["祠堂", "hall"]

UNITS = [
    *(
        "族",
        "Aa ",
        "A'aa ",
        "1,",
        "1. ",
        "一",
        "正月",
        "。",
        "，",
        " ",
        "\n",
        "(a)",
        "《a》",
        '"Ab Cd"',
        "严先生",
        "，字",
    ),
    *("山村", "the first of the ", "not ", "您说", "how many a-", "ﷺ", "五代", "12:30", "忽略", "A of the "),
    *("严氏家训，", "建于1523年，", "祠堂建于1523年。", "In 1523 the hall was built. ", "第一条「", "吗？", "详细一点"),
]


def message(role: str, content: str) -> Message:
    """A message of an earlier turn."""
    moment = datetime(2026, 1, 5, tzinfo=UTC)
    given = {"id": role, "npc_id": "a", "turn_id": 1, "seq": 1, "role": role, "content": content, "timestamp": moment}
    return msgspec.convert(given | {"tokens": 1, "completed": True}, Message)


def passage(text: str) -> Passage:
    """A passage that was found."""
    return Passage(
        evidence_id="e",
        title="严氏祠堂",
        text=text,
        source_ref="《村志》",
        score=0.9,
        number=1,
        language="zh",
        domains=[],
        verified=True,
        confidence=1.0,
    )


def before(question: str, text: str, focus: Focus | None) -> object:
    """The gate before the model, open for any score."""
    return before_model(question, Intent.FACT_SEEKING, focus, [passage(text)], GatePolicy(min_score=0), [])


def after(answer: str, question: str, text: str) -> object:
    """The gate after the model."""
    return after_model(answer, question=question, passages=[passage(text)], language="zh", persona_names=["严氏先祖"])


def clauses_of_claims(text: str) -> object:
    """A sentence read whole: claims with their clauses, deeds, things."""
    piece = Piece(text)
    return piece.deeds, [(piece.clause_of(claim), piece.heads_in(claim)) for claim in piece.claims]


QUESTION = "祠堂是哪年建的？"
EVIDENCE = "祠堂建于1523年。"

LONG, MIDDLE, SHORT = TEXT_CHARACTERS, 8_000, 4_000
"""Characters: the longest passage, what takes more time for each character, and the longest question."""

FUNCTIONS: dict[str, tuple[int, Callable[[str], object]]] = {
    "normalise": (LONG, normalise),
    "terms": (LONG, terms),
    "query terms": (LONG, query_terms),
    "sentences": (LONG, sentences),
    "has words": (LONG, lambda text: has_words(text, TOPICS)),
    "tokens": (LONG, estimate_tokens),
    "chunks": (LONG, chunk),
    "id": (LONG, lambda text: stable_id("a", text, text)),
    "language": (LONG, guess_language),
    "ordinals": (LONG, ordinals),
    "units": (LONG, asked_units),
    "quotable": (LONG, quotable),
    "units of an answer": (LONG, units_of),
    "piece": (MIDDLE, clauses_of_claims),
    "manner": (LONG, lambda text: Manner(text).reports(len(text) // 2, len(text) // 2 + 1)),
    "before, question": (SHORT, lambda text: before(text, EVIDENCE, focus_of(text))),
    "before, passage": (SHORT, lambda text: before(QUESTION, text, Focus.WHEN)),
    "before, both": (SHORT, lambda text: before(text, text, focus_of(text))),
    "after, answer": (SHORT, lambda text: after(text, QUESTION, EVIDENCE)),
    "after, all": (SHORT, lambda text: after(text, text, text)),
    "citations": (MIDDLE, lambda text: citations([passage(text)], [1], about=text, limit=3)),
    "rewrite": (MIDDLE, lambda text: rewrite(text, [message("user", "谁建了祠堂")], TOPICS)),
    "rewrite, question before": (MIDDLE, lambda text: rewrite("后来呢", [message("user", text)], TOPICS)),
    "rewrite, answer before": (
        MIDDLE,
        lambda text: rewrite("他第一条呢", [message("user", "谁建了祠堂"), message("assistant", text)], TOPICS),
    ),
    "intent": (MIDDLE, lambda text: classify(text, words={}, in_talk=True)),
    "title by rule": (LONG, title_from_question),
    "title by model": (MIDDLE, lambda text: fitted(text, text)),
    "topic": (MIDDLE, lambda text: topic_of(text, "zh", TOPICS)),
}
"""What reads text, with the size at which it is tried. The claims of a piece are dates, counts and names."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_reading_text_takes_linear_time(name: str) -> None:
    """Whatever the text repeats."""
    size, work = FUNCTIONS[name]
    load_stemmer()
    for unit in UNITS:
        check_growth(work, unit, size)
