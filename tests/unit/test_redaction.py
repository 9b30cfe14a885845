"""Redaction: the labelled cases, offsets, placeholders, rules given as data, and hostile texts."""

import logging
from typing import Any

import pytest
from benchmarks.redaction import HOSTILE, Scores, load_cases, score
from hypothesis import given, settings
from hypothesis import strategies as st

from growth import check_growth_throughout
from wenmai.errors import InvalidInput
from wenmai.text.redact import ExtraRule, Redactor, find, redact
from wenmai.text.redact.log_filter import PrivateLogFilter

HALVES = ("tuned", "aside")


@pytest.fixture(scope="module", params=HALVES)
def scores(request: pytest.FixtureRequest) -> Scores:
    """The scores of one half of the cases."""
    return score(request.param)


def test_the_cases_are_many_and_half_of_them_hard() -> None:
    """In both halves, with dates, versions, prices, order numbers, ids and code in which nothing is private."""
    cases = load_cases()
    assert len(cases) >= 400
    assert 0.4 < sum(not case.spans for case in cases) / len(cases) < 0.6
    assert 0.4 < sum(case.half == "aside" for case in cases) / len(cases) < 0.6


def test_private_values_are_found_with_their_kind(scores: Scores) -> None:
    """Recall and precision over all kinds."""
    found, right = sum(scores.found.values()), sum(scores.right.values())
    labelled = sum(scores.labelled.values())
    assert sum(scores.covered.values()) >= 0.97 * labelled, scores.wrong
    assert right >= 0.95 * found, scores.wrong
    assert sum(scores.typed.values()) >= 0.95 * labelled, scores.wrong


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("打13800138000给我", "打[REDACTED_PHONE]给我"),
        ("手机１３８００１３８０００。", "手机[REDACTED_PHONE]。"),
        ("138\u200b0013\u200b8000\u200b!", "[REDACTED_PHONE]\u200b!"),
        ("\U0001f469\u200d\U0001f680 a@b.co", "\U0001f469\u200d\U0001f680 [REDACTED_EMAIL]"),
        ("用户[REDACTED_EMAIL]的卡4111111111111111", "用户[REDACTED_EMAIL]的卡[REDACTED_CC]"),
        ("password=a@b.co#9", "password=[REDACTED_EMAIL][REDACTED_SECRET]"),
    ],
    ids=["between-characters", "full-width", "zero-width", "emoji", "beside-a-placeholder", "within-a-secret"],
)
def test_offsets_are_those_of_the_text_as_given(text: str, redacted: str) -> None:
    """Whatever was folded or skipped to find a value; what surrounds it stays."""
    assert redact(text) == redacted


@given(
    st.lists(
        st.sampled_from(
            [case.text for case in load_cases()]
            + [
                "",
                " ",
                "，",
                "-",
                ":",
                "1",
                "a",
                "=",
                "\u200b",
                "[REDACTED_PHONE]",
                "[REDACTED_",
                "密码",
                "tel ",
                "/",
                "\n",
            ]
        ),
        max_size=6,
    )
)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_redacting_again_changes_nothing(parts: list[str]) -> None:
    """Placeholders stay, and give rise to nothing beside them."""
    once = redact("".join(parts))
    assert redact(once) == once


def test_a_tenants_rules_are_data() -> None:
    """They take precedence, and have placeholders of their own."""
    redactor = Redactor([ExtraRule(kind="MEMBER", pattern=r"\bM-([0-9]{11})\b")])
    assert redactor.redact("member M-13800138000, call 13900139000") == (
        "member M-[REDACTED_MEMBER], call [REDACTED_PHONE]"
    )


@pytest.mark.parametrize(
    "rule",
    [
        {"kind": "member", "pattern": "M-[0-9]+"},
        {"kind": "MEMBER", "pattern": "(?=M)"},
        {"kind": "MEMBER", "pattern": "[0-9]*"},
        {"kind": "MEMBER", "pattern": "(?:(?:a{1000}){1000}){1000}"},
    ],
    ids=["kind", "look-ahead", "empty-match", "too-large"],
)
def test_rules_that_cannot_be_used_are_refused(rule: dict[str, Any]) -> None:
    """When they are read, not when a text comes."""
    with pytest.raises(InvalidInput):
        Redactor([ExtraRule(**rule)])


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_texts_take_linear_time(unit: str) -> None:
    """Up to what a message may have."""
    check_growth_throughout(redact, unit, 200_000)


def test_log_lines_and_tracebacks_have_no_private_values() -> None:
    """The filter rewrites them; addresses of this machine stay."""
    log = logging.Filterer()
    log.addFilter(PrivateLogFilter())
    with pytest.raises(ValueError, match="invalid literal") as raised:
        int("jane@example.com")
    problem = (raised.type, raised.value, raised.tb)
    record = logging.LogRecord("wenmai", 40, "", 1, "%s from %s", ("13800138000", "127.0.0.1"), problem)
    assert log.filter(record)
    written = logging.Formatter().format(record)
    assert written.startswith("[REDACTED_PHONE] from 127.0.0.1\n")
    assert written.endswith("invalid literal for int() with base 10: '[REDACTED_EMAIL]'")


def test_spans_are_ascending_and_apart() -> None:
    """So that a caller can replace them in one pass."""
    text = " ".join(case.text for case in load_cases())
    ends = [0]
    for span in find(text):
        assert ends[-1] <= span.start < span.end
        ends.append(span.end)
    assert len(ends) > 200
