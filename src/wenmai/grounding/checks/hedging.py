"""Hedges and leading questions, where no passage has any."""

import re
from collections.abc import Collection, Iterator

from wenmai.grounding.checks.coverage import states_nothing
from wenmai.grounding.checks.statement import Objection, Reason, TestedStatement

_HEDGE = re.compile(
    r"据说|听说|传说|相传|据传|传闻|好像|似乎"
    r"|\b(?:reportedly|apparently|presumably|supposedly|allegedly|perhaps|seemingly|it seems|(?:is|are) said to"
    r"|it is said|(?:people|some) say|rumou?r has it)\b",
    re.IGNORECASE,
)
_ASKS = re.compile(r"[?？]")
_QUESTION = re.compile(r"[?？]\s*\Z")
_LEADING = re.compile(r"难道|岂|何必|[吗吧](?=\W*\Z)|\b\w+n['’]t\b", re.IGNORECASE)
_OPEN = re.compile(r"谁|什么|哪|几|多少|怎|何|\b(?:who|what|which|when|where|why|how)\b", re.IGNORECASE)


def find_hedging(statement: TestedStatement, verified: Collection[int]) -> Iterator[Objection]:
    """Hedges, and a question that suggests its answer; what an unverified passage says may be hedged.

    Args:
        statement: under test.
        verified: the numbers of the passages that were verified.
    """
    if not _HEDGE.search(statement.text) and not _QUESTION.search(statement.text):
        return
    if all(clause.is_attributed or states_nothing(statement, clause) for clause in statement.clauses):
        return
    texts = [statement.alignment.passages[number].folded for number in statement.numbers]
    if all(number in verified for number in statement.numbers) and not any(map(_HEDGE.search, texts)):
        for match in _HEDGE.finditer(statement.text):
            yield Objection(*match.span(), Reason.COVERAGE)
    if not _QUESTION.search(statement.text) or any(map(_ASKS.search, texts)):
        return
    if _LEADING.search(statement.text) or not _OPEN.search(statement.text):
        yield Objection(0, len(statement.text), Reason.COVERAGE)
