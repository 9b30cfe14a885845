"""Questions that only point back: 刚才说的那个是什么, *what did I just say?*. They have no word to search for."""

import re

from wenmai.text.cjk import content_words, normalise
from wenmai.text.folding import fold

_BACK = re.compile(
    r"刚刚才|刚才|之前|刚刚|方才|适才|上面|上边|上一[句条个次轮]|前一[句条个]|前面|先前"
    r"|\b(?:just (?:now|said|t(?:old)|mentioned|asked|talked|discussed|wrote|described|explained|recommended|suggested)"
    r"|(?:i|you|we|they|he|she) just|were (?:we|you|they) just|was i just|a (?:moment|minute|second) ago|above"
    r"|earlier|again"
    r"|previous(?:ly)?|last (?:message|answer|reply|question|thing|one|sentence))\b"
)
_EMPTY = re.compile(
    r"[我你您咱他她它]们?|那[个些条件位种]?|这[个些条件位种]?|什么|啥|哪[个些条]?|怎么|说过?|讲过?|提[到及过]?|问过?|聊[到过]?"
    r"|谈[到过]?|答|回答|问题|话|内容|事情?|东西|来着|再|一遍|把|给|一下|重复|是|的|了|呢|吗|吧|请|麻烦|到底|还有"
    r"|\b(?:what|which|who|was|were|is|are|did|do|does|the|that|this|those|it|one|ones|thing|things|i|you|we|they|he|she|me|us|"
    r"my|your|our|of|to|about|in|and|again|please|repeat|say|said|saying|mention|mentioned|tell|t(?:old)|ask|asked|asking|talk|talked|talking|"
    r"discuss|discussed|discussing|write|wrote|describe|described|explain|explained|recommend|recommended|suggest|"
    r"suggested|message|answer|reply|question|sentence|can|could|remind|go|back|again)\b"
)


def only_points_back(query: str) -> bool:
    """Whether a query refers to what was just said and names nothing else."""
    text = fold(normalise(query))
    if _BACK.search(text) is None:
        return False
    return not content_words(_EMPTY.sub(" ", _BACK.sub(" ", text)))
