"""Answerability check before the model, question by question."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec

from wenmai.chat.context_verdicts import confirmation, continuation, contradiction, is_about
from wenmai.chat.nearest_passage import QuestionTopic, nearest, of_stage_first, question_topic, without_answer
from wenmai.chat.steps.retrieve import PASSAGES, SEARCH
from wenmai.chat.turn import LARGE, AnswerPart, TurnRun, TurnState
from wenmai.chat.understanding.clauses import asks
from wenmai.chat.understanding.focus import CitedTurn
from wenmai.chat.understanding.plan import JudgedOn, Query, QueryKind, Wording
from wenmai.grounding.answerability import Verdict, check_answerability
from wenmai.grounding.answers.finder import AnswerSpan
from wenmai.grounding.policy import GroundingPolicy, merge_policies
from wenmai.grounding.types import SEARCHING, DialogueAct, Passage, PolicyMode, count_characters
from wenmai.resilience.offload import run_by_size
from wenmai.text.cjk import find_words, query_terms, terms

NOT_SEARCHED = "search_failed"
"""The reason of a verdict if the evidence could not be searched."""

INSTRUCTION = "instruction"
"""The reason of a verdict if a message only instructs the model."""

_CLEARLY = 0.5
"""The share of a terse question's words from which another passage shows that it stands alone."""

_IN_FOCUS = 0.5
"""The least score of a passage that is searched first because an answer cited it."""


async def judge_answerability(state: TurnState, run: TurnRun) -> TurnState:
    """Whether and how each question may be answered; history names the cited passages and is no evidence itself.

    Reasons are those of :func:`check_answerability`, of :mod:`wenmai.chat.context_verdicts`, :data:`NOT_SEARCHED` and
    :data:`INSTRUCTION`.
    """
    query, passages = state["request"].query, state["retrieved"].passages
    parts = await run_by_size(len(query) + count_characters(passages), LARGE, _judge, state, run)
    verdict = _combined([part.verdict for part in parts])
    if SEARCH in state["retrieved"].degraded and verdict.mode is not PolicyMode.REFUSE:
        verdict = msgspec.structs.replace(verdict, mode=PolicyMode.CONSERVATIVE, reason=NOT_SEARCHED)
        parts = [AnswerPart(asked=query, verdict=verdict)]
    return {"verdict": verdict, "parts": parts}


def _judge(state: TurnState, run: TurnRun) -> list[AnswerPart]:
    query, dialogue_act = state["request"].query, state["understanding"].dialogue_act
    refused = any(find_words(query, topic.words) for topic in run.services.profile.forbidden)
    if refused or dialogue_act not in SEARCHING:
        return [AnswerPart(asked=query, verdict=_Judge(state, run).verdict(query, query, [], dialogue_act))]
    queries = state["plan"].queries
    if not queries:
        return [AnswerPart(asked=query, verdict=Verdict(mode=PolicyMode.CONSERVATIVE, reason=INSTRUCTION))]
    judge = _Judge(state, run)
    parts = [AnswerPart(asked=each.asked, verdict=judge.judged(each)) for each in queries]
    return list(_renumbered(parts)) if len(parts) > 1 else parts


class _Judge:
    """Judges the questions of one message."""

    def __init__(self, state: TurnState, run: TurnRun) -> None:
        self._state = state
        self._profile = run.services.profile
        self._lexicon = run.services.lexicon

    def judged(self, query: Query) -> Verdict:
        """The verdict on the first wording that is answered, else on the last."""
        turn = self._state["focus"].latest
        found = [each for wording in query.wordings for each in self._found(wording)]
        if query.kind is QueryKind.CONTINUE and turn:
            return continuation(turn, found)
        message = self._state["request"].query
        if query.kind is QueryKind.CHALLENGE and turn and self._answered_last():
            if is_about(message, turn, self._lexicon):
                return confirmation(message, turn, found, query.wordings[0].text, self._lexicon)
            own = query.wordings[-1]
            return contradiction(message, self.verdict(own.text, own.text, self._found(own)[:PASSAGES]))
        limited, tried = self._state["retrieved"].limited, []
        for wording in self._ordered(query):
            asked = wording.text if query.kind is QueryKind.CHALLENGE else query.asked
            verdict = self.verdict(asked, wording.text, self._passages(query, wording))
            if verdict.mode is PolicyMode.NORMAL:
                about = self._about(query) if wording.search in limited else None
                return of_stage_first(verdict, about.stage) if about else verdict
            tried.append((wording, verdict))
        return self._with_nearest(query, tried)

    def _with_nearest(self, query: Query, tried: Sequence[tuple[Wording, Verdict]]) -> Verdict:
        """The last verdict, with the passage nearest to the question, if the business state limits what it is about."""
        last, about = tried[-1][1], self._about(query)
        refused = any(verdict.mode is not PolicyMode.CONSERVATIVE for _, verdict in tried)
        if about is None or refused or not self._state["persona"].persona.nearest:
            return last
        if self._asks_on() and not asks(self._state["request"].query):
            return last
        within = [
            (wording.text, self._found(wording)[:PASSAGES])
            for wording, _ in tried
            if wording.search in self._state["retrieved"].limited
        ]
        return without_answer(last, nearest(within or [(query.asked, [])], about, self._lexicon))

    def _about(self, query: Query) -> QuestionTopic | None:
        """What a question is about in the terms of the business rules; None without rules or an operation."""
        update, rules, turn = self._state.get("business"), self._profile.business, self._state["focus"].latest
        if update is None or rules is None or update.state.current is None:
            return None
        cited = [each.passage for each in turn.passages] if turn else []
        return question_topic(query.asked, self._state["request"].query, update, rules, cited)

    def _asks_on(self) -> bool:
        """Whether the message continues the current operation without a word of the rules."""
        update = self._state.get("business")
        return update is not None and update.state.current is not None and not update.changes

    def _ordered(self, query: Query) -> Sequence[Wording]:
        """The wordings of a question that may continue the topic: by the passages that hold more of its own words."""
        turn = self._state["focus"].latest
        *alone, in_context = query.wordings
        judged_on = [wording.judged_on for wording in query.wordings]
        if turn is None or judged_on[0] is not JudgedOn.FOUND or judged_on[-1] is not JudgedOn.FOCUS:
            return query.wordings
        asked = set(query_terms(query.asked))
        related = {passage.evidence_id for passage in turn.related}
        elsewhere = [
            _coverage(each, asked) for each in self._found(alone[0])[:PASSAGES] if each.evidence_id not in related
        ]
        here, there = max(_coverage(each, asked) for each in turn.related), max(elsewhere, default=0.0)
        if (here and here >= there) or (query.terse and there < _CLEARLY):
            return [in_context, *alone]
        return alone

    def verdict(
        self,
        asked: str,
        standalone: str,
        passages: Sequence[Passage],
        dialogue_act: DialogueAct = DialogueAct.FACT_SEEKING,
    ) -> Verdict:
        """The verdict on a question as asked, in one standalone wording."""
        return check_answerability(
            asked,
            dialogue_act,
            passages,
            self._policy(),
            self._profile.forbidden,
            standalone_question=standalone,
            known=list(self._state["persona"].persona.name.values()),
            lexicon=self._lexicon,
        )

    def _policy(self) -> GroundingPolicy:
        act = self._state["understanding"].dialogue_act
        persona = self._state["persona"].persona
        return merge_policies(self._profile.policy, persona.policy, self._profile.intent_policy.get(act, {}))

    def _answered_last(self) -> bool:
        """Whether the last answer is the one in focus, and no later one that cited nothing."""
        window, turn = self._state["opened"].window, self._state["focus"].latest
        return bool(window) and turn is not None and turn.turn_id == window[-1].turn_id

    def _found(self, wording: Wording) -> list[Passage]:
        return self._state["retrieved"].found_for.get(wording.search, [])

    def _passages(self, query: Query, wording: Wording) -> list[Passage]:
        """The passages to judge a wording on; those in focus have the scores with which they were found."""
        found, turn = self._found(wording), self._state["focus"].latest
        if wording.judged_on is JudgedOn.FOUND or turn is None:
            return found[:PASSAGES]
        as_found = {each.evidence_id: each for each in found}
        terms_asked = set(query_terms(wording.text))
        limited = wording.search in self._state["retrieved"].limited
        anywhere = not limited or self._asks_on()
        related = [each for each in turn.related if anywhere or each.evidence_id in as_found]
        focused = [_in_focus(as_found.get(each.evidence_id, each), terms_asked) for each in related]
        others = found[:PASSAGES] if wording.judged_on is JudgedOn.BOTH else []
        chosen = [*others, *focused] if self._leads_elsewhere(query, turn, others) else [*focused, *others]
        unique: dict[str, Passage] = {}
        for passage in chosen:
            unique.setdefault(passage.evidence_id, passage)
        return [msgspec.structs.replace(each, number=number) for number, each in enumerate(unique.values(), start=1)]

    def _leads_elsewhere(self, query: Query, turn: CitedTurn, found: Sequence[Passage]) -> bool:
        """Whether a question has words of its own that a passage found holds as well as the cited ones do."""
        own = set(query_terms(query.asked))
        related = {each.evidence_id for each in turn.related}
        there = max((_coverage(each, own) for each in found if each.evidence_id not in related), default=0.0)
        here = max(_coverage(each, own) for each in turn.related)
        return there > here or (there == here > 0 and not self._asks_on())


def _in_focus(passage: Passage, asked: set[str]) -> Passage:
    return msgspec.structs.replace(passage, score=round(max(passage.score, _coverage(passage, asked), _IN_FOCUS), 4))


def _coverage(passage: Passage, asked: set[str]) -> float:
    """The share of index terms that a passage holds."""
    return len(asked & _terms_of(passage.title, passage.text)) / max(1, len(asked))


@lru_cache(maxsize=512)
def _terms_of(title: str, text: str) -> frozenset[str]:
    return frozenset(terms(f"{title} {text}"))


def _renumbered(parts: Sequence[AnswerPart]) -> Iterator[AnswerPart]:
    """The parts with their passages numbered through, so that each number means one passage."""
    numbers: dict[tuple[str, str], int] = {}
    for part in parts:
        verdict = part.verdict
        renumbered = {
            each.number: numbers.setdefault((each.evidence_id, each.text), len(numbers) + 1)
            for each in verdict.passages
        }
        passages = tuple(msgspec.structs.replace(each, number=renumbered[each.number]) for each in verdict.passages)
        answers = tuple(msgspec.structs.replace(each, number=renumbered[each.number]) for each in verdict.answers)
        nearest = tuple(msgspec.structs.replace(each, number=renumbered[each.number]) for each in verdict.nearest)
        verdict = msgspec.structs.replace(verdict, passages=passages, answers=answers, nearest=nearest)
        yield msgspec.structs.replace(part, verdict=verdict)


def _combined(verdicts: Sequence[Verdict]) -> Verdict:
    """One verdict over all questions, for the model and the trace: normal if one of them is answered."""
    if len(verdicts) == 1:
        return verdicts[0]
    answered = [verdict for verdict in verdicts if verdict.mode is PolicyMode.NORMAL]
    readable = [verdict for verdict in verdicts if verdict.mode is PolicyMode.NORMAL or verdict.undecided]
    cited = [verdict for verdict in verdicts if verdict in readable or verdict.nearest]
    reasons = [verdict.reason for verdict in verdicts if verdict.reason]
    return Verdict(
        mode=PolicyMode.NORMAL if answered else verdicts[0].mode,
        reason="; ".join(dict.fromkeys(reasons)),
        passages=tuple({each.number: each for verdict in cited or verdicts for each in verdict.passages}.values()),
        standalone_question=" ".join(verdict.standalone_question for verdict in verdicts),
        answers=tuple(answer for verdict in answered for answer in verdict.answers),
        nearest=() if answered else _each_once([near for verdict in verdicts for near in verdict.nearest]),
        unsupported_premises=tuple(
            dict.fromkeys(each for verdict in verdicts for each in verdict.unsupported_premises)
        ),
        undecided=not answered and bool(readable),
    )


def _each_once(spans: Sequence[AnswerSpan]) -> tuple[AnswerSpan, ...]:
    return tuple({span.number: span for span in reversed(spans)}.values())[::-1]
