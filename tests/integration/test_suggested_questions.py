"""Suggested questions: those of the sample are answered rightly, and only such are suggested."""

from collections.abc import Iterator

import pytest

from support import engine_at
from wenmai.chat.turn import TurnRequest
from wenmai.config.profile import load_profile
from wenmai.config.sources import profile_path
from wenmai.engine import Engine
from wenmai.grounding.evidence import record_from
from wenmai.memory.preferences import PreferenceChange
from wenmai.scope import Scope

USER = Scope("default", "default", "visitor")

CITES = {
    "严氏家训有哪些？": "precepts-00",
    "严氏祠堂是什么时候建的？": "hall-01",
    "严氏的始迁祖是谁？": "people-01",
    "族谱修过几次？": "people-11",
    "家训第一条是什么意思？": "precepts-01",
    "孝悌为本有什么故事？": "precepts-story-01",
    "家训是谁订立的？": "precepts-11 people-03",
    "诵读家训有什么规矩？": "precepts-12",
    "严守正是什么样的人？": "people-03",
    "严文炳做过什么官？": "people-04 precepts-story-08",
    "严氏的字辈是怎么排的？": "people-10",
    "谁主持重建了祠堂？": "hall-04 people-08",
    "祠堂的堂号有什么来历？": "hall-02",
    "祠堂大门的对联写的是什么？": "hall-06",
    "祠堂遭过火灾吗？": "hall-04",
    "祠堂的布局是怎样的？": "hall-03",
    "What are the ten precepts of the Yan clan?": "precepts-00",
    "When was the ancestral hall built?": "hall-01",
    "Who was the first settler of the Yan clan?": "people-01",
    "How many times was the genealogy compiled?": "people-11",
    "What does the first of the ten precepts mean?": "precepts-01",
    "Is there a story of filial piety?": "precepts-story-01",
    "Who wrote the precepts?": "precepts-11 people-03",
    "How are the precepts read aloud?": "precepts-12",
    "What kind of man was Yan Shouzheng?": "people-03",
    "What office did Yan Wenbing hold?": "people-04 precepts-story-08",
    "What are the generation names of the clan?": "people-10",
    "Who led the rebuilding of the hall?": "hall-04 people-08",
    "Why is the hall called Dunben?": "hall-02",
    "What does the couplet at the gate say?": "hall-06",
    "Did the hall ever burn?": "hall-04",
    "How is the hall laid out?": "hall-03",
    "祠堂是什么时候建的？": "hall-01",
    "长丰渠是谁开的？": "farming-01 people-05",
    "村里的灯会在哪一天？": "village-08",
    "砚田村的村名是怎么来的？": "village-01",
    "冬至祭祖有哪些程序？": "hall-10",
    "祠堂的戏台什么时候演戏？": "hall-11",
    "水牌是怎么用的？": "farming-03",
    "砚田红米有什么特别？": "farming-04",
    "开秧门有什么规矩？": "farming-10",
    "义仓是做什么的？": "farming-08",
    "通济桥是哪一年建的？": "village-03 village-04",
    "正月十三的灯会怎么过？": "village-08",
    "六月初六为什么晒谱？": "village-09",
    "义学是谁办的？": "village-05 people-07",
    "严惟勤是怎么修渠的？": "people-05 farming-01",
    "村里第一位女教师是谁？": "people-14",
    "严氏的始迁祖从哪里来？": "people-01",
    "严世臣是怎么调解纠纷的？": "people-06",
    "Who dug the Changfeng Canal?": "farming-01 people-05",
    "What festivals does the village have?": "village-08 village-10 village-09 hall-10",
    "How did Yantian get its name?": "village-01",
    "What happens at the winter solstice rites?": "hall-10",
    "When were plays given on the stage?": "hall-11",
    "How did the water tallies work?": "farming-03",
    "What is special about the red rice?": "farming-04",
    "What are the customs of opening the seedling gate?": "farming-10",
    "What was the charity granary for?": "farming-08",
    "When was the Tongji Bridge built?": "village-03 village-04",
    "What happens at the lantern festival?": "village-08",
    "Why is the genealogy sunned?": "village-09",
    "Who founded the free school?": "village-05 people-07",
    "How did Yan Weiqin plan the canal?": "people-05 farming-01",
    "Who was the first woman teacher of the village?": "people-14",
    "Where did the first settler come from?": "people-01",
    "How did Yan Shichen settle quarrels?": "people-06",
}
"""Each suggested question with the passages that answer it; English ones end in ``-en``."""


def suggested() -> Iterator[tuple[str, str, str]]:
    """Persona, language and question of every suggestion of the profile."""
    for persona in load_profile(profile_path("npc")).personas:
        for phrases in persona.followups.values():
            for language, questions in phrases.items():
                yield from ((persona.persona_id, language, question) for question in questions)


async def test_every_suggested_question_is_answered_rightly() -> None:
    """All 72, each at the start of a conversation, with a citation of a passage that holds the answer."""
    wrong = []
    async with engine_at("memory://") as engine:
        for persona_id, language, question in suggested():
            answer = await engine.chat.ask(TurnRequest(scope=USER, persona_id=persona_id, query=question))
            suffix = "-en" if language == "en" else ""
            right = {f"{id_}{suffix}" for id_ in CITES[question].split()}
            cited = [citation.evidence_id for citation in answer.citations]
            if answer.policy_mode != "normal" or not set(cited[:1]) & right:
                wrong.append((persona_id, question, answer.policy_mode.value, cited))
    assert len(list(suggested())) == 72
    assert wrong == []


async def followups(engine: Engine, scope: Scope) -> list[str]:
    """What is suggested after a greeting."""
    answer = await engine.chat.ask(TurnRequest(scope=scope, persona_id="ancestor_yan", query="你好"))
    return answer.followup_questions


async def test_only_questions_that_the_persona_answers_are_suggested() -> None:
    """A site without evidence suggests nothing; with a passage about one question, that question alone."""
    empty = Scope("other", "site", "visitor")
    async with engine_at("memory://") as engine:
        assert await followups(engine, empty) == []
        passage = {
            "text": "严氏祠堂始建于明嘉靖二年（1523年）。",
            "title": "祠堂的始建年代",
            "domains": ["hall"],
            "evidence_id": "h-1",
        }
        await engine.evidence.ingest(empty, [record_from(passage)])
        assert await followups(engine, empty) == ["严氏祠堂是什么时候建的？"]
        await engine.evidence.delete(empty, "h-1")
        assert await followups(engine, empty) == []


async def test_a_question_asked_beside_a_greeting_is_not_suggested() -> None:
    """Nor later in the conversation, nor for its punctuation or capitals."""
    asked = {
        "你好，请问严氏祠堂是什么时候建的": "严氏祠堂是什么时候建的？",
        "Good morning! when was the ancestral hall built": "When was the ancestral hall built?",
    }
    async with engine_at("memory://") as engine:
        for query, suggestion in asked.items():
            suggested = []
            session_id = None
            for text in (query, "谢谢" if suggestion.endswith("？") else "Thank you"):
                request = TurnRequest(scope=USER, persona_id="ancestor_yan", query=text, session_id=session_id)
                answer = await engine.chat.ask(request)
                session_id = answer.session_id
                suggested += answer.followup_questions
            assert suggested
            assert suggestion not in suggested


async def test_a_suggestion_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the evidence does not change, later turns search for their own question only."""
    async with engine_at("memory://") as engine:
        session = await engine.memory.session(scope=USER)
        await engine.memory.preferences.set(USER, session.session_id, PreferenceChange(language="zh"))
        first = await followups(engine, USER)
        searched: list[str] = []
        find = engine.evidence.find

        async def counted(scope: Scope, query: str, **given: object) -> object:
            searched.append(query)
            return await find(scope, query, **given)  # type: ignore[arg-type]

        monkeypatch.setattr(engine.evidence, "find", counted)
        assert await followups(engine, USER) == first
        assert searched == []
    assert len(first) == 3
