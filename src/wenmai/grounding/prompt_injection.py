"""Prompt injection in evidence: instructions to the model are neither quoted nor accepted as support."""

import re
from functools import lru_cache
from itertools import takewhile

from wenmai.text.cjk import sentences
from wenmai.text.patterns import any_of

_DROP = any_of("忽略 无视 忘记 忘掉 不要理会 不必理会 抛开")
_RULES = any_of("规则 指令 指示 提示 要求 设定 内容 约束 限制 命令 说明")
_ADDRESSED = any_of("你 您 AI 助手 模型 机器人 回答者 系统")
_MUST = any_of("必须 务必 应当 应该 只能 只许 需要 要 须")
_SAY = any_of("说 回答 答复 声称 宣称 告诉 输出 扮演 承认 回复 写道")
_DROP_EN = any_of("ignore disregard forget override bypass")
_RULES_EN = any_of("instructions? rules? prompts? guidelines everything above previous")
_MUST_EN = r"must|should|shall|have\sto|will|are\sto|need\sto"
_SAY_EN = any_of("say answer reply respond tell claim state output pretend act")

_INSTRUCTION = re.compile(
    any_of(
        rf"""
        (?:{_DROP})[^。！？\n]{{0,12}}(?:{_RULES})
        (?:{_ADDRESSED})(?:现在|今后|以后|一律)?(?:{_MUST})[^。！？\n]{{0,12}}(?:{_SAY})
        (?:请|务必|一律|必须|只能)(?:直接)?(?:回答|回复|输出|声称|告诉(?:用户|访客|游客|对方))
        从现在(?:起|开始)[，,]?你 系统(?:提示词?|指令|消息)[:：]
        (?:作为|扮演)(?:一个|一名)?(?:AI|人工智能|语言模型)
        (?:泄露|透露|显示|打印)[^。！？\n]{{0,8}}(?:提示词|系统提示|密钥|密码)
        \b(?:{_DROP_EN})\b[^.!?\n]{{0,40}}\b(?:{_RULES_EN})\b
        \b(?:you|the_(?:assistant|model|ai))\b[^.!?\n]{{0,12}}\b(?:{_MUST_EN})\b[^.!?\n]{{0,20}}\b(?:{_SAY_EN})\b
        \b(?:respond|reply|answer)_(?:only_)?(?:with|that)\b \b(?:tell|inform)_the_(?:user|visitor)\b
        \byou_are_now\b \b(?:pretend|act)_(?:to_be|as_(?:if|an?|though))\b
        \b(?:new|system|developer)_(?:instructions?|prompt|message)\b
        (?m:^)[ \t]{{0,8}}(?:system|assistant|user)[ \t]{{0,4}}[:：] <\|\w{{1,20}}\|> \[/?INST\]
        \breveal\b[^.!?\n]{{0,30}}\b(?:prompt|key|password)\b
        """
    ),
    re.IGNORECASE,
)

_SHORT = 4_000
"""Characters of a passage up to which its sentences are kept: a turn splits it several times, and so do the next."""


def looks_like_instruction(sentence: str) -> bool:
    """Whether a sentence of evidence is addressed to the model instead of being about the subject."""
    return _INSTRUCTION.search(sentence) is not None


def safe_sentences(text: str) -> list[str]:
    """The sentences of a passage that may be quoted and may support claims, verbatim and in order.

    They end before the first one that looks like an instruction: the text after it is usually what the injected
    instruction wants said.
    """
    return [*(_recent(text) if len(text) <= _SHORT else _until_instruction(text))]


def _until_instruction(text: str) -> tuple[str, ...]:
    return tuple(takewhile(lambda sentence: not looks_like_instruction(sentence), sentences(text)))


_recent = lru_cache(maxsize=512)(_until_instruction)
