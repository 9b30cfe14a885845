"""Quotations: quoted words stand in a passage as they are written, or they are the user's."""

import re
from collections.abc import Iterator

from wenmai.grounding.checks.statement import Objection, Reason, TestedStatement
from wenmai.grounding.content import fold_text
from wenmai.text.cjk import has_cjk

_QUOTED = re.compile(r"「([^「」\n]+)」|『([^『』\n]+)』|“([^“”\n]+)”|\"([^\"\n]+)\"|(?<!\w)‘([^‘’\n]{2,})’(?!\w)")
_GAP = re.compile(r"…+|\.{3,}")
_MARKS = re.compile(r"[\W_]+")


def find_invented_quotations(statement: TestedStatement) -> Iterator[Objection]:
    """Quotations that stand in no passage; one in another script is a translation and judged by its content."""
    if not _QUOTED.search(statement.text):
        return
    texts = {number: _bare(statement.alignment.passages[number].folded) for number in statement.numbers}
    question = _bare(statement.question.folded)
    for match in _QUOTED.finditer(statement.text):
        quoted = next(filter(None, match.groups()))
        parts = [part for part in map(_bare, map(fold_text, _GAP.split(quoted))) if part]
        if any(all(part in text for part in parts) for text in texts.values()):
            continue
        if all(part in question for part in parts) and statement.attribution.is_attributed(match.start(1), match.end()):
            continue
        if all(part in question for part in parts) and statement.attribution.is_attributed(
            match.start() + 1, match.end() - 1
        ):
            continue
        language = "zh" if has_cjk(quoted) else "en"
        if texts and all(statement.alignment.languages[number] != language for number in texts):
            continue
        yield Objection(*match.span(), Reason.QUOTATION)


def _bare(text: str) -> str:
    return _MARKS.sub("", text)
