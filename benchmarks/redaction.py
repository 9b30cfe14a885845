"""Redaction: recall and precision on the labelled cases, time, and false redactions in ordinary conversations.

::

    python -m benchmarks.redaction [--half tuned|aside] [--wrong] [--turns] [--ordinary FILE]…

A labelled value is covered if all of it is redacted; a redaction has the right kind if it is that of a labelled value
with which it shares more than half of what both have. The cases are divided by a hash of their texts: rules are tuned
on one half, the other one only judges. ``--ordinary`` counts redactions in files of messages without private values.
"""

import argparse
import asyncio
import hashlib
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.token_estimate import read_messages
from wenmai.chat.turn import TurnRequest
from wenmai.engine import load_engine_settings, open_engine
from wenmai.scope import Scope
from wenmai.stores.encryption.settings import new_master_key
from wenmai.text.redact import Span, find, redact

CASES = Path(__file__).parents[1] / "tests" / "redaction" / "cases.jsonl"
CHARACTERS = 500
HOSTILE_CHARACTERS = 32_768
REPEATS = 300
ROUNDS, WARM_TURNS, TURNS = 5, 5, 40
MASTER_KEY = new_master_key("k1")
QUESTIONS = (
    "祠堂是什么时候建的？",
    "我的手机是13800138000，请问严氏家训有哪些？",
    "When was the ancestral hall built?",
    "族谱有多少卷？",
)

HOSTILE = {
    **{
        unit: unit
        for unit in (
            "1",
            "1 ",
            "1-",
            "12 34-",
            "a@",
            "a.",
            "@",
            "+1(",
            "(1) ",
            ":",
            "a:",
            "::1 ",
            "=",
            "密码",
            "密码是 ",
        )
    },
    "cards": "4111 1111 1111 1112 ",
    "cards in one": "4111111111111111",
    "phones": "13800138000 ",
    "e-mails": "a@b.co,",
    "hosts": "a@b.",
    "assignments": "password=",
    "assignments with values": 'password="a1b2c3" ',
    "statements": "my password is ",
    "keys": "sk-a1",
    "private keys": "-----BEGIN PRIVATE KEY-----",
    "URLs": "a://b:c",
    "IBANs": "DE89 ",
    "placeholders": "[REDACTED_PHONE]",
    "zero-width": "1\u200b",
    "full-width": "１",
    "labels": "tel tel: ",
    "quotes": "token='",
}


class Case(NamedTuple):
    """A labelled text."""

    text: str
    spans: list[Span]

    @property
    def half(self) -> str:
        """Whether rules may be tuned on it."""
        return "aside" if hashlib.sha256(self.text.encode()).digest()[0] % 2 else "tuned"


class Scores:
    """Counts by kind."""

    def __init__(self) -> None:
        self.labelled, self.covered, self.typed = Counter[str](), Counter[str](), Counter[str]()
        self.found, self.right = Counter[str](), Counter[str]()
        self.wrong: list[str] = []

    def add(self, case: Case) -> None:
        """Judge the redactions of one text."""
        found = find(case.text)
        for span in case.spans:
            covered = _is_covered(span, found)
            self.labelled[span.kind] += 1
            self.covered[span.kind] += covered
            self.typed[span.kind] += any(_is_same(span, each) for each in found)
            if not covered:
                self.wrong.append(f"missed {span.kind}: {case.text[span.start : span.end]!r} in {case.text!r}")
        for each in found:
            right = any(_is_same(each, span) for span in case.spans)
            self.found[each.kind] += 1
            self.right[each.kind] += right
            if not right:
                self.wrong.append(f"wrong {each.kind}: {case.text[each.start : each.end]!r} in {case.text!r}")

    def rows(self) -> Iterator[str]:
        """Figures of each kind and of all."""
        yield f"  {'kind':10} {'values':>6} {'covered':>8} {'recall':>7} {'precision':>9} {'F1':>6}"
        for kind in [*sorted(self.labelled | self.found), "all"]:
            counts = [
                sum(each.values()) if kind == "all" else each[kind]
                for each in (self.labelled, self.covered, self.typed, self.found, self.right)
            ]
            labelled, covered, typed, found, right = counts
            recall, precision = typed / max(labelled, 1), right / max(found, 1)
            f1 = 2 * recall * precision / max(recall + precision, 1e-9)
            yield f"  {kind:10} {labelled:6} {covered / max(labelled, 1):8.3f} {recall:7.3f} {precision:9.3f} {f1:6.3f}"


def _is_covered(span: Span, found: list[Span]) -> bool:
    at = span.start
    for each in found:
        if each.start <= at < each.end:
            at = each.end
    return at >= span.end


def _is_same(one: Span, other: Span) -> bool:
    shared = min(one.end, other.end) - max(one.start, other.start)
    return one.kind == other.kind and 2 * shared > max(one.end, other.end) - min(one.start, other.start)


def load_cases() -> list[Case]:
    """The labelled cases of the repository."""
    rows = map(json.loads, CASES.read_text(encoding="utf-8").splitlines())
    return [Case(row["text"], [Span(*span) for span in row["spans"]]) for row in rows]


def score(half: str) -> Scores:
    """The scores of one half of the cases."""
    scores = Scores()
    for case in load_cases():
        if case.half == half:
            scores.add(case)
    return scores


def milliseconds(text: str, repeats: int) -> float:
    """Median CPU time of a redaction."""
    taken = []
    for _ in range(repeats):
        begun = time.process_time()
        redact(text)
        taken.append(1000 * (time.process_time() - begun))
    return statistics.median(taken)


def _print_times() -> None:
    texts = [case.text for case in load_cases()]
    mixed = " ".join(texts)
    plain = "We walked along the river and talked about books until it was dark. " * 8
    chinese = "今天下午三点我们在河边散步，聊了很久的书，回家的时候天已经黑了。" * 20
    print(f"\n{CHARACTERS} characters, median CPU ms")
    samples = {"English without private values": plain, "Chinese without private values": chinese}
    for label, text in samples.items():
        print(f"  {label:32} {milliseconds(text[:CHARACTERS], REPEATS):.3f}")
    slices = [mixed[start : start + CHARACTERS] for start in range(0, len(mixed) - CHARACTERS, CHARACTERS)]
    print(f"  {'the cases, joined':32} {statistics.median(milliseconds(each, 20) for each in slices):.3f}")
    print(f"\n{HOSTILE_CHARACTERS} characters of a repeated text, CPU ms")
    for label, unit in HOSTILE.items():
        text = (unit * (HOSTILE_CHARACTERS // len(unit) + 1))[:HOSTILE_CHARACTERS]
        print(f"  {label!r:32} {milliseconds(text, 3):.1f}")


async def _turns(store: str, policy: str, questions: Sequence[str]) -> list[float]:
    """CPU milliseconds of each turn of a conversation, the first ones left out."""
    flags = {"store": store, "store_policy": policy, "master_keys": MASTER_KEY, "embedder": "none"}
    loaded = load_engine_settings(flags=flags, environment={})
    taken = []
    async with open_engine(loaded.values) as engine:
        for question in questions:
            begun = time.process_time()
            await engine.chat.ask(
                TurnRequest(scope=Scope(), persona_id="ancestor_yan", query=question, session_id="s1")
            )
            taken.append(1000 * (time.process_time() - begun))
    return taken[WARM_TURNS:]


def _print_turns() -> None:
    """Turns under each policy, in alternating conversations; some questions have private values."""
    questions = [f"{QUESTIONS[turn % len(QUESTIONS)]} ({turn})" for turn in range(WARM_TURNS + TURNS)]
    taken: dict[str, list[float]] = {"off": [], "redact": [], "encrypt": []}
    for _ in range(ROUNDS):
        for policy in taken:
            with tempfile.TemporaryDirectory() as folder:
                taken[policy] += asyncio.run(_turns(f"sqlite:///{folder}/wenmai.db", policy, questions))
    off = statistics.median(taken["off"])
    print("\na turn, median CPU ms")
    for policy, each in taken.items():
        print(f"  {policy:8} {statistics.median(each):6.2f}, {statistics.median(each) / off:.3f} times")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("tuned", "aside"), action="append")
    parser.add_argument("--wrong", action="store_true", help="print what was missed and what was redacted wrongly")
    parser.add_argument("--turns", action="store_true", help="measure whole turns under each store_policy")
    parser.add_argument("--ordinary", type=Path, nargs="+", default=[])
    arguments = parser.parse_args()
    for half in arguments.half or ("tuned", "aside"):
        scores = score(half)
        print(f"{half}: {sum(scores.labelled.values())} values", *scores.rows(), sep="\n")
        print(*scores.wrong if arguments.wrong else (), sep="\n")
    for path in arguments.ordinary:
        messages = read_messages(path)
        redacted = [message for message in messages if find(message)]
        print(f"{path.name}: {1000 * len(redacted) / len(messages):.2f} of 1 000 redacted ({len(messages)} messages)")
        print(*redacted if arguments.wrong else (), sep="\n")
    _print_times()
    if arguments.turns:
        _print_turns()


if __name__ == "__main__":
    main()
