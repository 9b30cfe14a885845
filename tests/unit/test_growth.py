"""Hostile text: every function that reads questions, passages or answers takes linear time up to the largest sizes."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, date, datetime

import msgspec
import pytest

import growth
from growth import check_growth, check_growth_throughout
from sample_lexicon import LEXICON
from wenmai.chat.context_verdicts import confirmation, continuation, is_about
from wenmai.chat.extractive import topic_of
from wenmai.chat.title_wording import extract_title
from wenmai.chat.understanding.clauses import clauses
from wenmai.chat.understanding.dialogue_acts import classify
from wenmai.chat.understanding.focus import CITED, CitedTurns, focus_of
from wenmai.chat.understanding.plan import Plan, plan_answer
from wenmai.chat.understanding.questions import questions_of
from wenmai.grounding.answerability import check_answerability
from wenmai.grounding.attribution import Attribution
from wenmai.grounding.citations import citations
from wenmai.grounding.claims.counts import expected_units, ordinals
from wenmai.grounding.evidence.chunking import chunk
from wenmai.grounding.evidence.fields import TEXT_CHARACTERS, detect_language, stable_id
from wenmai.grounding.policy import GroundingPolicy
from wenmai.grounding.prompt_injection import safe_sentences
from wenmai.grounding.segments import Segment
from wenmai.grounding.statements import Statement, StatementSplitter
from wenmai.grounding.types import DialogueAct, Passage
from wenmai.grounding.verification import verify_answer
from wenmai.memory.episode_entries import entries_of
from wenmai.memory.extractive_summary import extract
from wenmai.memory.sessions import title_from_question
from wenmai.retrieval.time_expressions import find_spans
from wenmai.scope import ThreadKey
from wenmai.stores.records import Message
from wenmai.text.cjk import find_words, load_dictionaries, normalise, query_terms, sentences, terms
from wenmai.text.tokens import estimate_tokens


def statements_of(text: str) -> list[Statement]:
    """The statements of an answer that is streamed in fragments of seven characters."""
    splitter = StatementSplitter(LEXICON)
    found = [unit for start in range(0, len(text), 7) for unit in splitter.add(text[start : start + 7])]
    return [*found, *splitter.end()]


QUESTION = "祠堂是哪年建的？"
EVIDENCE = "祠堂建于1523年。"

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
    *(
        "我听说",
        "A和B哪个",
        "谢谢",
        "要走了",
        "什么时候，",
        "哈",
        "但是",
        "and what ",
        "is the a or ",
        "really i heard ",
        "、乙",
    ),
]


def message(role: str, content: str) -> Message:
    """A message of an earlier turn."""
    moment = datetime(2026, 1, 5, tzinfo=UTC)
    given = {"id": role, "npc_id": "a", "turn_id": 1, "seq": 1, "role": role, "content": content, "timestamp": moment}
    return msgspec.convert(given | {"tokens": 1, "completed": True, "metadata": {CITED: ["p"]}}, Message)


def passage(text: str) -> Passage:
    """A retrieved passage."""
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


def answerability(question: str, text: str) -> object:
    """The answerability check, for any score."""
    return check_answerability(
        question,
        DialogueAct.FACT_SEEKING,
        [passage(text)],
        GroundingPolicy(min_score=0),
        [],
        lexicon=LEXICON,
    )


def verified(answer: str, question: str, text: str) -> object:
    """The verification of an answer."""
    return verify_answer(
        answer, question=question, passages=[passage(text)], language="zh", persona_names=["严氏先祖"], lexicon=LEXICON
    )


def cited(window: list[Message], text: str) -> CitedTurns:
    """The focus of a window whose answers cite one passage."""
    return focus_of(window, {"p": passage(text)}, [])


def planned(question: str, window: list[Message], text: str = EVIDENCE) -> Plan:
    """The plan of an answer in a conversation."""
    return plan_answer(question, window, LEXICON, cited(window, text))


def confirmed(doubt: str, text: str) -> object:
    """The verdict on a doubt about an answer."""
    turn = cited([message("assistant", text)], text).turns[0]
    return (
        confirmation(doubt, turn, [passage(text)], QUESTION, LEXICON),
        continuation(turn, []),
        is_about(doubt, turn, LEXICON),
    )


def segment(text: str) -> object:
    """A fully analysed sentence: claims, terms, list positions."""
    analysed = Segment(text, lexicon=LEXICON)
    return analysed.claims, analysed.terms, analysed.ordinals


LONG, MIDDLE, SHORT = TEXT_CHARACTERS, 8_000, 4_000
"""Characters: the longest passage, what takes more time for each character, and the longest question."""

FUNCTIONS: dict[str, tuple[int, Callable[[str], object]]] = {
    "normalise": (LONG, normalise),
    "terms": (LONG, terms),
    "query terms": (LONG, query_terms),
    "sentences": (LONG, sentences),
    "has words": (LONG, lambda text: find_words(text, LEXICON.topics)),
    "tokens": (LONG, estimate_tokens),
    "chunks": (LONG, chunk),
    "id": (LONG, lambda text: stable_id("a", text, text)),
    "language": (LONG, detect_language),
    "ordinals": (LONG, ordinals),
    "expected units": (LONG, lambda text: expected_units(text, LEXICON)),
    "safe sentences": (LONG, safe_sentences),
    "statements of an answer": (LONG, statements_of),
    "segment": (MIDDLE, segment),
    "attribution": (LONG, lambda text: Attribution(text, LEXICON).is_attributed(len(text) // 2, len(text) // 2 + 1)),
    "answerability, question": (SHORT, lambda text: answerability(text, EVIDENCE)),
    "answerability, passage": (SHORT, lambda text: answerability(QUESTION, text)),
    "answerability, both": (SHORT, lambda text: answerability(text, text)),
    "verification, answer": (SHORT, lambda text: verified(text, QUESTION, EVIDENCE)),
    "verification, all": (SHORT, lambda text: verified(text, text, text)),
    "verification, values of the answer and the passage": (
        MIDDLE,
        lambda text: verified("，".join(str(1600 + index) for index in range(len(text) // 8)), QUESTION, text),
    ),
    "citations": (MIDDLE, lambda text: citations([passage(text)], [1], answer=text, limit=3)),
    "clauses": (MIDDLE, clauses.__wrapped__),
    "questions": (SHORT, questions_of),
    "plan": (MIDDLE, lambda text: planned(text, [message("user", "谁建了祠堂"), message("assistant", EVIDENCE)])),
    "plan, question before": (MIDDLE, lambda text: planned("他倒数第一条呢", [message("user", text)])),
    "plan, passage before": (
        MIDDLE,
        lambda text: planned("他第一条呢", [message("user", "谁建了祠堂"), message("assistant", text)], text),
    ),
    "plan, doubt": (
        MIDDLE,
        lambda text: planned(f"你确定吗，{text}", [message("user", text), message("assistant", text)]),
    ),
    "confirmation": (SHORT, lambda text: confirmed(f"我听说{text}", text)),
    "dialogue act": (MIDDLE, lambda text: classify(text, words={}, in_conversation=True, lexicon=LEXICON)),
    "extractive summary": (LONG, lambda text: extract([], [message("user", text)], 500, estimate_tokens)),
    "title by rule": (LONG, title_from_question),
    "title by model": (MIDDLE, lambda text: extract_title(text, text)),
    "times of a message": (LONG, lambda text: find_spans(text, date(2023, 5, 10))),
    "entry of a message": (LONG, lambda text: list(entries_of(ThreadKey("s", "p", "i"), [message("user", text)], 1))),
    "topic": (MIDDLE, lambda text: topic_of(text, "zh", LEXICON)),
}
"""Functions under test, with the size of their input."""


@pytest.mark.parametrize("check", [check_growth, pytest.param(check_growth_throughout, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_reading_text_takes_linear_time(name: str, check: Callable[[Callable[[str], object], str, int], None]) -> None:
    """For any repeated unit."""
    size, work = FUNCTIONS[name]
    load_dictionaries()
    for unit in UNITS:
        check(work, unit, size)


@pytest.mark.parametrize(
    ("linear", "quadratic", "expectation"),
    [
        (1e-4, 0, nullcontext()),
        (1e-9, 1e-9, nullcontext()),
        (0, 1e-8, pytest.raises(AssertionError)),
        (1e-5, 8e-9, pytest.raises(AssertionError)),
    ],
)
def test_only_quadratic_time_is_refused(
    linear: float, quadratic: float, expectation: AbstractContextManager[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of functions that take so many seconds for each character and each pair of characters."""
    monkeypatch.setattr(growth, "processor_seconds", lambda work: work())
    with expectation:
        check_growth(lambda text: linear * len(text) + quadratic * len(text) ** 2, "a", MIDDLE)
