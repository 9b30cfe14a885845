"""What a model says that a message means, checked against the business rules."""

from typing import Literal

import msgspec
from msgspec.structs import replace

from wenmai.business.rules import BusinessRules
from wenmai.business.understanding import MentionedObject, Recognized
from wenmai.business.words import plain


class UnderstandingReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The form of the model's answer; empty for what the message does not say.

    Attributes:
        intent: one of the rules.
        objects: each with one of its stages, in the order of the message; only a stage if no object is named.
        customer: as the message writes it.
        rejected: objects that the user does not mean.
        step: 1 for the next stage, -1 for the one before.
        refers_back: whether the message continues what was said before.
    """

    intent: str = ""
    objects: list[MentionedObject] = []
    customer: str = ""
    rejected: list[str] = []
    step: Literal[-1, 0, 1] = 0
    refers_back: bool = False


class InvalidReply(Exception):
    """The answer names what the rules do not have, or what the message does not say."""


def merged(said: Recognized, reply: UnderstandingReply, rules: BusinessRules, message: str) -> Recognized:
    """What the model says of a message, in the place of what its words say.

    Args:
        said: as recognized by the words alone; its aliases and domains stay.
        reply: of the model.
        rules: of the profile.
        message: as the user wrote it.

    Raises:
        InvalidReply: see there.
    """
    for name, known in (
        *((each.name, rules.objects) for each in reply.objects if each.name),
        *((name, rules.objects) for name in reply.rejected),
        *((each.stage, rules.stages_of(each.name)) for each in reply.objects if each.stage),
        *([(reply.intent, rules.intents)] if reply.intent else []),
    ):
        if name not in known:
            raise InvalidReply(f"`{name}` is not in the rules")
    if plain(reply.customer) not in plain(message):
        raise InvalidReply("the message does not name this customer")
    objects = [each for each in reply.objects if each.name or each.stage]
    return replace(
        said,
        intent=reply.intent,
        objects=objects,
        stages=[each.stage for each in objects if each.stage],
        customer=reply.customer,
        rejected=[name for name in reply.rejected if all(name != each.name for each in objects)],
        step=0 if any(each.stage for each in objects) else reply.step,
        only_names=said.only_names and objects == said.objects,
        anaphoric=reply.refers_back,
        ambiguous=False,
    )
