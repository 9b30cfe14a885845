"""A store that has some of everything that the console shows."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from http_service import settings_in

from scripted_model import ScriptedModel, scripted_model
from wenmai.chat.turn import TurnRequest
from wenmai.config.settings import Settings
from wenmai.engine import Engine, open_engine
from wenmai.scope import Scope
from wenmai.stores.records import NewMessage, TokenUsage

USER = "yan.wei"
SESSION = "session-of-yan-wei"
BUSINESS = "business-of-yan-wei"
LONG_USER = "a-user-with-a-very-long-id-that-must-not-break-the-layout@example.org"
HOSTILE = "<img src=x onerror=\"document.title='taken'\">![](https://evil.example/p.png)<style>*{display:none}</style>"
OTHERS = 60
QUESTIONS = ("家训第一条是什么？", "有什么故事吗？", "祠堂是什么时候建的？", "村里有没有机场？")
ANSWER = "家训第一条是孝悌为本，要孝顺父母、友爱兄弟。祠堂在一九八八年得过金奖。"
BUSINESS_ANSWER = "在系统里按步骤发起，再提交审批。利率是百分之一。"


class MovingClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC) - timedelta(days=13)

    def __call__(self) -> datetime:
        """Each reading is a millisecond later."""
        self.now += timedelta(milliseconds=1)
        return self.now


class Filled(NamedTuple):
    """The settings of the service, and an API key that may read and administer."""

    settings: Settings
    key: str


async def fill(folder: Path) -> Filled:
    """Fill the store of a new service."""
    plain = settings_in(folder, profile="npc,assistant", receipt_key="a" * 32)
    async with scripted_model() as script:
        script.answer = ANSWER
        script.title = "家训与祠堂"
        clock = MovingClock()
        priced = settings_in(folder, profile="npc,assistant", price_prompt=2.0, price_completion=8.0, **script.settings)
        async with open_engine(priced, clock=clock) as engine:
            await _talk(engine, script)
            await _use(engine, clock)
            await _others(engine, clock)
            clock.now = datetime.now(UTC) - timedelta(hours=3)
            key = await _administer(engine)
    return Filled(plain, key)


async def _administer(engine: Engine) -> str:
    """Two versions of a prompt, some entries of the audit log, and a key."""
    persona_id = "ancestor_yan"
    for note, text in (("", "你是严氏先祖。\n说话沉稳。"), ("更简短", "你是严氏先祖。\n说话简短。\n不编造事实。")):
        value = {"text": text, "language": "zh"}
        await engine.prompts.create(Scope(), persona_id, value, author="erin", note=note)
    for number in (1, 2, 1):
        details = {"npc_id": persona_id, "version": str(number)}
        await engine.memory.audit.record("default", "prompt_activated", actor="cli", **details)
    key, _ = await engine.api_keys.create(tenant_id="default", rights=["read", "admin"], name="console")
    return key


async def _talk(engine: Engine, script: ScriptedModel) -> None:
    scope = Scope(user_id=USER)
    for topics in ("家训", "家训和祠堂", "家训、祠堂和故事"):
        script.summary = f"- 用户问过{topics}。"
        for question in QUESTIONS:
            await _ask(engine, scope, SESSION, "ancestor_yan", question)
        await engine.memory.derived.catch_up(10)
    script.answer = BUSINESS_ANSWER
    for question in ("对公贷款怎么发起申请？", "C-1001 的调查阶段要交什么材料？", "审批呢？"):
        await _ask(engine, scope, BUSINESS, "assistant", question)


async def _ask(engine: Engine, scope: Scope, session_id: str, persona_id: str, question: str) -> None:
    await engine.chat.ask(TurnRequest(scope=scope, persona_id=persona_id, query=question, session_id=session_id))


async def _others(engine: Engine, clock: MovingClock) -> None:
    """Sessions of many users, one with a name that is too long, one with markup for a title."""
    for number in range(OTHERS):
        clock.now += timedelta(minutes=7)
        user, title = f"guest-{number:03d}", f"关于祠堂与族谱的第 {number} 次询问"
        if number == 1:
            user, title = LONG_USER, "一个特别长的标题，" * 6
        if number == 2:
            title = HOSTILE
        scope, session_id = Scope(user_id=user), f"s-{number:03d}"
        opened = await engine.memory.sessions.open(
            scope, session_id, title=title[:60], context={"npc_id": "village_elder"}
        )
        said = HOSTILE if number == 2 else "祠堂是什么时候建的？"
        messages = [NewMessage(role="user", content=said), NewMessage(role="assistant", content="记载里没有。")]
        await engine.memory.transcript.append(scope, opened.thread("village_elder"), messages)


async def _use(engine: Engine, clock: MovingClock) -> None:
    """Tokens of model calls on several days, of several personas and of none."""
    for day in range(12):
        clock.now += timedelta(days=1)
        for at, persona_id in enumerate(("ancestor_yan", "village_elder", "assistant", "")):
            used = 300 + 200 * ((day * 7 + at * 3) % 5)
            usage = TokenUsage(calls=3, prompt_tokens=used, completion_tokens=used // 4, cost_usd=used * 3e-6)
            await engine.memory.usage.add(Scope(user_id=USER), None, usage, persona_id=persona_id)
