"""How a profile answers questions that name no persona: who answers, and the roles of users."""

from typing import Annotated

import msgspec

from wenmai.config.texts import Phrases, Text


class Role(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A role of users: chooses tone and scope of the answers.

    Attributes:
        system: how to speak with them; added to the system prompt.
        openings, conservative: instead of the persona's phrases; empty keeps those.
        domains: evidence domains that they may ask about, within the persona's; empty means all of the persona's.
        questions: quick questions.
    """

    system: dict[str, str] = {}
    openings: dict[str, list[str]] = {}
    conservative: dict[str, list[str]] = {}
    domains: list[str] = []
    questions: Phrases


class Queries(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See the module's docstring.

    Attributes:
        persona: the id of the persona that answers.
        user_id: the user of a request that names none.
        renewed: says that the session could not be continued and a new one has begun.
        questions: quick questions for users without a role.
        roles: by name.
    """

    persona: str = "assistant"
    user_id: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.:@-]{1,128}\Z")] = "10000"
    renewed: Text = msgspec.field(
        default_factory=lambda: {
            "zh": "之前的会话已经结束，这是新的会话，不再沿用之前的内容。",
            "en": "The earlier session has ended; this is a new one, which does not continue it.",
        }
    )
    questions: dict[str, list[str]] = {}
    roles: dict[str, Role] = {}
