"""Bare replies: a "yes" or "no" states the proposition of the question, or denies it."""

import re

_YES = (
    "是的|是|对的|对|没错|不错|确实如此|确实是|确实|的确如此|的确是|的确|正是如此|正是|当然|嗯|有的|会的|"
    "[您你]说得很对|[您你]说得对|[您你]说得没错|"
    r"(?:yes|yeah|yep|indeed|correct|right|true|exactly|certainly|of course|sure|absolutely|"
    r"(?:that is|that['’]s) (?:correct|right|true|so)|you(?: are|['’]re) right|it (?:is|was|did|does|has))\b"
)
_NO = (
    "不是的|不是|不对|没有|并非如此|并非|不会|错了|不|否|"
    r"(?:no|nope|not at all|not really|incorrect|wrong|(?:that is|that['’]s) (?:not (?:true|so|right|correct)|wrong)|"
    r"it (?:is|was|did|does|has)(?: not|n['’]t))\b"
)
_REPLY = re.compile(rf"[\W_]*+(?:(?>(?P<no>(?!不错)(?:{_NO}))|{_YES})[\W_]*+)++", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]")
_OF_REPLIES = frozenset(_WORD.findall(_YES + _NO))
"""The characters of all replies; a sentence that begins with another one is none."""

_OPEN = re.compile(r"谁|什么|哪|几|多少|怎|何|还是|\b(?:who|what|which|when|where|why|how|or)\b", re.IGNORECASE)
_TAG = re.compile(
    r"[，,。.\s]*(?:是吗|对吗|是吧|对吧|对不对|是不是|真的吗|吗|吧|么|right|correct|true|"
    r"is (?:that|this|it) (?:true|so|right|correct)|"
    r"(?:is|was|do|did|has|does)n['’]t (?:it|he|she|they))\s*[？?。.!！]*\s*\Z",
    re.IGNORECASE,
)
_INVERTED = re.compile(r"\s*(?:is|are|was|were|do|does|did|has|have|had|can|could)(?:n['’]t)?\s", re.IGNORECASE)
_EITHER = re.compile(r"([是有会能在])[不没]\1|是否")
_RHETORICAL = re.compile(r"难道|不(?=是)")
_PARTICLE = re.compile(r"(?<![对是])吗\s*[？?]?\s*\Z")
_LAST = 200
"""Characters at the end of a question in which its tag is."""


def bare_reply(text: str) -> bool | None:
    """True if a sentence is only a "yes", False if it is only a "no", else None."""
    begins = _WORD.search(text)
    found = _REPLY.fullmatch(text) if begins and begins[0].lower() in _OF_REPLIES else None
    return found["no"] is None if found else None


def proposition(question: str) -> str:
    """The proposition of a question that "yes" answers, as a statement; ``""`` for any other question."""
    if _OPEN.search(question):
        return ""
    head, tail = question[:-_LAST], question[-_LAST:]
    untagged = head + _TAG.sub("", tail)
    either = _EITHER.sub(lambda match: match[1] or "", untagged)
    inverted = _INVERTED.match(either)
    if untagged == question and either == untagged and inverted is None:
        return ""
    plain = either[inverted.end() :] if inverted else either
    rhetorical = _PARTICLE.search(tail) is not None
    return (_RHETORICAL.sub("", plain) if rhetorical else plain).rstrip("？? \n")
