"""Statements about the records: what they are said not to mention must not be in them."""

import re
from collections.abc import Iterator

from wenmai.grounding.checks.statement import Clause, Objection, Reason, TestedStatement

_SOURCE = (
    r"记载|史料|资料|文献|记录|材料|书中|典籍|办法|指引|章程|守则|条例|公告|手册|"
    r"说明书?|指南|文件|规定|制度|规则|条款|原文|文中|内容|证据"
)
_SILENT = r"没有|并无|未见|未载|未有|不见|没|未|从未|并未|未曾|不曾|并没有|无"
_MENTION = (
    r"提到|提及|提过|提|说明|说|写明|写到|写|记载|记录|规定|涉及|列出|载明|交代|介绍|给出|标明|注明|谈到|指出|要求"
    r"|限制|关于|有关|任何|相关"
)
_DENIAL = re.compile(
    rf"(?:{_SOURCE})[^，。；！？]{{0,12}}?(?:{_SILENT})[^，。；！？]{{0,4}}?(?:{_MENTION})"
    rf"|(?:{_SILENT})(?:任何)?(?:提到|提及|关于|有关)"
    r"|\b(?:manual|guide|handbook|records?|documents?|passages?|sources?|evidence|text|rules?|policy|policies|it|they|there)\b"
    r"[^.;!?]{0,40}?\b(?:not|no|never|nothing|silent)\b[^.;!?]{0,30}?"
    r"\b(?:mention\w*|say|state|specif\w+|cover\w*|record\w*|describe\w*|give|list|address\w*|contain\w*|about|information)\b"
    r"|\b(?:not|never|nowhere)\b[^.;!?]{0,12}\b(?:mentioned|specified|stated|recorded|covered|described|listed|addressed|given)\b",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"谁|何|哪|多少|几|怎么|如何|多久|多长|多大|多高|是否|\b(?:who|when|where|why|how|which|what|whether)\b",
    re.IGNORECASE,
)
_NOTHING = frozenset({"silent", "unabl"})
_HELD = 0.5
_LEAST = 2
_LEAST_ASKED = 3


def is_denial(statement: TestedStatement, clause: Clause) -> bool:
    """Whether a clause says that the records do not mention something."""
    if not clause.tokens.negates and clause.tokens.forms.isdisjoint(_NOTHING):
        return False
    return statement.attribution.denies_between(clause.start, clause.end) or (
        _DENIAL.search(statement.text, clause.start, clause.end) is not None
    )


def find_false_denials(statement: TestedStatement) -> Iterator[Objection]:
    """Clauses that deny what a sentence of a passage mentions."""
    topic: Clause | None = None
    for clause in statement.clauses:
        if is_denial(statement, clause) and not clause.is_verbatim:
            denied = clause if clause.weight or topic is None else topic
            least = (
                _LEAST_ASKED if denied is topic or _ASKS.search(statement.text, denied.start, denied.end) else _LEAST
            )
            if denied.weight >= least and any(window.share >= _HELD for window in denied.windows):
                yield Objection(clause.start, clause.end, Reason.RECORDS)
        topic = clause


def is_topic(statement: TestedStatement, clause: Clause) -> bool:
    """Whether a clause only names what was asked, for another one to deny it: 关于此事，没有记载."""
    return all(token.form in statement.asked for token in clause.tokens if token.weight) and any(
        is_denial(statement, each) for each in statement.clauses if each.start > clause.start
    )
